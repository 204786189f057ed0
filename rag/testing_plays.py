"""What a chat server may do to its clients, as values: the scripts of the scripted server."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from rag.domain import Message
from rag.testing_chat import quote

GREETING = "The token comes from Settings > API Keys and expires after 90 days [1]."


@dataclass(frozen=True, slots=True)
class Play:
    """What the server does with one chat request.

    Attributes:
        text: the answer, or a function from the messages to it; a token is a word.
        status: 200, or the status of an error with ``message`` and ``code``.
        headers: more headers of the response.
        finish: the finish mark of the last chunk; ``None`` to end without one.
        usage: ``last`` for a last chunk without choices, ``finish`` for the chunk with the
            finish mark, ``none`` for no figures.
        empty_first: begin with a chunk that has no choices.
        null_content: send chunks whose content is ``null`` before and after the text.
        reasoning: sent as ``reasoning_content`` before the text.
        cut: close the connection after so many tokens.
        error_after: send an error event after so many tokens.
        gate: acquired once before each token, so that a test decides when it comes.
        delay: seconds before each token, for watching.
        comments: send nothing but keep-alive comments until the client goes away.
        refuses: request fields that are answered with status 400.
        body: sent as the whole response, whatever it is.
    """

    text: str | Callable[[Sequence[Message]], str] = GREETING
    status: int = 200
    message: str = ""
    code: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    finish: str | None = "stop"
    usage: str = "last"
    empty_first: bool = False
    null_content: bool = False
    reasoning: str = ""
    cut: int | None = None
    error_after: int | None = None
    gate: threading.Semaphore | None = None
    delay: float = 0.0
    comments: bool = False
    refuses: frozenset[str] = frozenset()
    body: str | None = None


PLAYS: Mapping[str, Play] = {
    "plain": Play(),
    "quote": Play(quote),
    "slow": Play(quote, delay=0.1),
    "empty-first": Play(empty_first=True),
    "null-content": Play(null_content=True),
    "usage-with-finish": Play(usage="finish"),
    "no-usage": Play(usage="none"),
    "reasoning": Play(reasoning="Let me think about tokens."),
    "only-reasoning": Play("", reasoning="Let me think about tokens."),
    "length": Play(finish="length"),
    "cut": Play(cut=5),
    "cut-at-once": Play(cut=0),
    "no-finish": Play(finish=None, usage="none"),
    "error-midway": Play(error_after=5, message="the machine is out of memory"),
    "error-first": Play(error_after=0, message="the machine is out of memory"),
    "comments": Play(comments=True),
    "no-stream-options": Play(refuses=frozenset({"stream_options"})),
    "no-max-tokens": Play(refuses=frozenset({"max_tokens", "temperature"})),
    "web-page": Play(body="<!doctype html><title>Welcome</title>"),
    "status-401": Play(status=401, message="Incorrect API key provided", code="invalid_api_key"),
    "status-403": Play(status=403, message="Not allowed", code="forbidden"),
    "status-404": Play(status=404, message="The model does not exist", code="model_not_found"),
    "status-429": Play(
        status=429, message="Rate limit", code="rate_limit_exceeded", headers={"Retry-After": "60"}
    ),
    "no-quota": Play(status=429, message="You exceeded your quota", code="insufficient_quota"),
    "status-500": Play(status=500, message="internal error"),
    "status-503": Play(status=503, message="Loading model"),
    "context-length": Play(
        status=400,
        message="This model's maximum context length is 4096 tokens.",
        code="context_length_exceeded",
    ),
}
"""Everything that a server may do, by name."""
