"""What goes wrong with a chat server, told as a sentence that says what to do.

A server may echo the key that it was sent, so everything quoted from a server is filtered first.
"""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import openai

from rag.errors import ContextTooLong, ModelError, ModelTimeout, ModelUnavailable

_CONTEXT = re.compile(
    r"context.?(length|size|window)|maximum context|n_ctx|prompt is too long|too many tokens"
    r"|exceed\w* (the )?(available )?context",
    re.IGNORECASE,
)
_SMALLER = "Choose fewer chunks or a smaller window, or a model that reads more."
_QUOTED = 300
"""Most characters quoted from a server."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A chat server as messages speak of it."""

    address: str
    """Fit to show: without credentials and query."""
    key: str | None
    model: str
    timeout: float


def explain(error: Exception, endpoint: Endpoint, offered: Sequence[str] = ()) -> ModelError:
    """Return the error to raise for what the client or the server reported.

    Args:
        error: from the ``openai`` client, or ``TimeoutError``, or ``ValueError`` for an answer
            that is not JSON.
        endpoint: whom it was asked.
        offered: names of the server's models, for the case that the model is not known.
    """
    where = endpoint.address
    if isinstance(error, openai.APITimeoutError | TimeoutError):
        return ModelTimeout(
            f"The model server at {where} sent no text for too long (the limit is "
            f"{endpoint.timeout:g} seconds). Try again, or raise FENESTRA_ANSWER_TIMEOUT."
        )
    if isinstance(error, openai.APIConnectionError):
        return _unreachable(error, where)
    if is_context_error(error):
        return ContextTooLong(
            f"The prompt does not fit what the model {endpoint.model} can read. {_SMALLER}"
        )
    if isinstance(error, openai.APIStatusError):
        return _refused(error, endpoint, offered)
    if isinstance(error, openai.APIError):
        return ModelUnavailable(
            f"The model server at {where} broke off with an error"
            f"{quoted(error, endpoint.key)}. Ask again; if it stays, look into the server's log."
        )
    return ModelUnavailable(
        f"The server at {where} sent something that is not a chat answer. Check OPENAI_BASE_URL: "
        "such addresses usually end in /v1."
    )


def is_context_error(error: Exception) -> bool:
    """Whether the prompt was longer than the model can read."""
    if isinstance(error, openai.APIStatusError) and error.status_code not in (400, 413, 422, 500):
        return False
    return isinstance(error, openai.APIError) and bool(_CONTEXT.search(_everything(error)))


def is_unknown_model(error: Exception) -> bool:
    """Whether the server may not know the model: worth asking which ones it has."""
    if not isinstance(error, openai.APIStatusError):
        return False
    text = _everything(error).lower()
    return error.status_code == 404 or (
        error.status_code == 400
        and "model" in text
        and any(
            word in text for word in ("not_found", "not found", "does not exist", "invalid model")
        )
    )


def refused_field(error: openai.APIStatusError, fields: Sequence[str]) -> str | None:
    """Which of the optional request fields the server refuses, if it names one."""
    text = _everything(error)
    return next((field for field in fields if field in text), None)


def quoted(error: openai.APIError, key: str | None) -> str:
    """The server's own words, `` (…)``, or nothing: on one line, short, and without the key."""
    body = error.body
    message = body.get("message") if isinstance(body, dict) else None
    if isinstance(message, str):
        text = message
    elif isinstance(body, str) and not body.lstrip().startswith("<"):
        text = body
    else:
        text = error.message
    words = (word for word in text.split() if not _resembles(word, key))
    line = " ".join(words)[:_QUOTED].rstrip(" .")
    return f" ({line})" if line else ""


def _resembles(word: str, key: str | None) -> bool:
    """Whether a word holds a piece of the key, or a masked key."""
    if "***" in word:
        return True
    if not key:
        return False
    piece = min(6, len(key))
    return any(key[i : i + piece] in word for i in range(len(key) - piece + 1))


def _everything(error: openai.APIError) -> str:
    return f"{error.message} {error.code} {error.param} {error.type} {error.body}"


def _unreachable(error: openai.APIConnectionError, where: str) -> ModelError:
    causes = list(_causes(error))
    names = {type(cause).__name__ for cause in causes}
    if any(isinstance(cause, ssl.SSLError) for cause in causes):
        return ModelUnavailable(
            f"No secure connection to the model server at {where}: its certificate is not "
            "accepted. Check OPENAI_BASE_URL (http:// or https://?) and the certificate."
        )
    if any(isinstance(cause, socket.gaierror) for cause in causes):
        return ModelUnavailable(
            f"The address of the model server at {where} is not known. Check OPENAI_BASE_URL and "
            "whether this computer is online."
        )
    if names & {"RemoteProtocolError", "ReadError", "WriteError"}:
        return ModelUnavailable(
            f"The model server at {where} broke off before the first word. Ask again; if it "
            "stays, look into the server's log."
        )
    return ModelUnavailable(
        f"Cannot connect to the model server at {where}. Is the server running? Start it, or "
        "correct OPENAI_BASE_URL."
    )


def _refused(
    error: openai.APIStatusError, endpoint: Endpoint, offered: Sequence[str]
) -> ModelError:
    where, status = endpoint.address, error.status_code
    if status in (401, 403):
        # Nothing is quoted here: this is where servers echo keys.
        if endpoint.key is None:
            return ModelUnavailable(f"The model server at {where} wants a key. Set OPENAI_API_KEY.")
        return ModelUnavailable(
            f"The model server at {where} does not accept the key. Check OPENAI_API_KEY."
        )
    said = quoted(error, endpoint.key)
    if is_unknown_model(error):
        if offered:
            return ModelUnavailable(
                f"The model server at {where} has no model {endpoint.model}. It offers: "
                f"{_listed(offered)}. Set FENESTRA_MODEL to one of them."
            )
        return ModelUnavailable(
            f"The model server at {where} found no chat model {endpoint.model}{said}. Check "
            "FENESTRA_MODEL, and OPENAI_BASE_URL, which usually ends in /v1."
        )
    if status == 429:
        if "insufficient_quota" in _everything(error):
            return ModelUnavailable(
                f"The account at {where} has no quota left. Check its plan and billing."
            )
        return ModelUnavailable(
            f"The model server at {where} takes no more requests for now. Try again {_when(error)}."
        )
    if status == 413:
        return ContextTooLong(f"The prompt is larger than {where} accepts. {_SMALLER}")
    if status >= 500:
        return ModelUnavailable(
            f"The model server at {where} failed with status {status}{said}. Try again in a "
            "moment; if it stays, look into the server's log."
        )
    return ModelUnavailable(
        f"The model server at {where} refused the request with status {status}{said}. Check "
        "FENESTRA_MODEL and the other settings of the language model."
    )


def _when(error: openai.APIStatusError) -> str:
    wait = error.response.headers.get("retry-after", "")
    return f"in {wait} seconds" if wait.isdecimal() else "in a minute"


def _listed(names: Sequence[str], most: int = 12) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen: BaseException | None = error
    while seen is not None:
        yield seen
        seen = seen.__cause__ or seen.__context__
