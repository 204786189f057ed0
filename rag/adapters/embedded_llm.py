"""EmbeddedChat: the language model that comes along, served by llama.cpp in a child process.

The talking is left to :class:`~rag.adapters.openai_chat.OpenAIChat`; here the server is started,
watched, started anew and ended.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from rag.adapters.embedded_process import ServerProcess
from rag.adapters.model_file import QWEN, own_model, packaged_model
from rag.adapters.openai_chat import OpenAIChat
from rag.domain import Message, Progress
from rag.errors import ModelError, ModelUnavailable, SettingsError
from rag.ports import AnswerStream, Steps

CONTEXT_TOKENS = 8192
"""Prompt and answer together. A prompt of 3,000 WordPiece tokens is rarely over 4,500 of these."""
_PULSE = 0.5
"""Seconds after which one who waits gets a turn."""
_DYING = 2.0
"""Seconds between a broken connection and the end of the process that broke it, at most."""


class EmbeddedChat:
    """A chat model in a child process of its own, which lives no longer than this process.

    Args:
        cache: where the packaged model's file is joined.
        gguf: another model file; the packaged one if ``None``.
        timeout: seconds without any sign of life after which an answer is given up.
    """

    parallel = False
    """Two prompts at once would each wait for the sum of both."""

    def __init__(self, *, cache: Path, gguf: Path | None, timeout: float) -> None:
        self._cache = cache
        self._gguf = gguf
        self._timeout = timeout
        self._lock = threading.Lock()
        self._launch: _Launch | None = None
        self._closed = False

    @property
    def name(self) -> str:
        """Name of the model."""
        return f"{self._gguf.stem if self._gguf else QWEN.name} (embedded)"

    @property
    def pid(self) -> int | None:
        """Process id of the server; ``None`` while there is none."""
        process = self._launch.process if self._launch else None
        return process.pid if process and not process.gone() else None

    def start(self) -> None:
        """Prepare the model file and the server in the background."""
        with self._lock:
            if not self._closed:
                self._running()

    def wait_ready(self) -> Steps:
        """Yield progress until the server can answer; start it if it is not running.

        Raises:
            ModelUnavailable: it cannot be started; the message says why.
        """
        yield from self._ready().wait()

    def stream(
        self, messages: Sequence[Message], *, max_tokens: int, temperature: float
    ) -> AnswerStream:
        """Stream an answer. Closing the iterator stops the model.

        A server that dies before its first word is started anew, once.

        Raises:
            ModelError: before any text came; the message says what to do.
        """
        for last in (False, True):
            launch = self._ready()
            yield from launch.wait()
            try:
                yield from launch.chat.stream(
                    messages, max_tokens=max_tokens, temperature=temperature
                )
                return
            except ModelUnavailable:
                if not launch.died():
                    raise
                if last or self._closed:
                    raise ModelUnavailable(
                        "The language model stopped before its first word"
                        f"{launch.last_words}. Ask again: it is started anew."
                    ) from None
            yield Progress("The language model stopped; it is started again")

    def check(self) -> Mapping[str, str]:
        """Start the server if need be. Returns address, model, its file and the library."""
        launch = self._ready()
        for _ in launch.wait():
            pass
        return {
            "address": f"{launch.address} (a process of this program)",
            "model": self.name,
            "file": str(launch.path),
            "version": f"xllamacpp {version('xllamacpp')}",
        }

    def close(self) -> None:
        """End the server. Safe to call twice."""
        with self._lock:
            self._closed = True
            launch = self._launch
        if launch is not None:
            launch.close()

    def _ready(self) -> _Launch:
        with self._lock:
            if self._closed:
                raise ModelUnavailable("The language model was closed. Open the library again.")
            return self._running()

    def _running(self) -> _Launch:
        if self._launch is None or self._launch.over:
            self._launch = _Launch(self._cache, self._gguf, self.name, self._timeout)
        return self._launch


class _Launch:
    """One start of the server, in a thread, and the server that came of it."""

    def __init__(self, cache: Path, gguf: Path | None, name: str, timeout: float) -> None:
        self._cache, self._gguf, self._name, self._timeout = cache, gguf, name, timeout
        self._changed = threading.Condition()
        self._progress = Progress("Preparing the language model")
        self._error: ModelError | None = None
        self._closed = False
        self.path: Path | None = None
        self.address = ""
        self.process: ServerProcess | None = None
        self._chat: OpenAIChat | None = None
        self._prompts: set[int] = set()
        threading.Thread(target=self._run, name="fenestra-model", daemon=True).start()

    @property
    def over(self) -> bool:
        """Whether it failed, or its server is gone."""
        return self._error is not None or (self._chat is not None and self.died(0.0))

    @property
    def chat(self) -> OpenAIChat:
        """The way to talk to the server, once :meth:`wait` is through."""
        assert self._chat is not None
        return self._chat

    @property
    def last_words(self) -> str:
        """The end of the server's log as `` (…)``, if it said anything."""
        words = self.process.last_words if self.process else ""
        return f" ({words})" if words else ""

    def died(self, patience: float = _DYING) -> bool:
        """Whether the server's process has ended."""
        return self.process is not None and self.process.gone(patience)

    def wait(self) -> Steps:
        """Yield progress until the server answers. Raises ``ModelError``."""
        while True:
            with self._changed:
                if self._error is not None:
                    raise self._error
                if self._chat is not None:
                    return
                progress = self._progress
            yield progress
            with self._changed:
                if self._progress is progress and self._error is None and self._chat is None:
                    self._changed.wait(_PULSE)

    def close(self) -> None:
        """End the server, or see to it that none is started."""
        with self._changed:
            self._closed = True
            process, chat = self.process, self._chat
        if process is not None:
            process.close()
        if chat is not None:
            chat.close()

    def _run(self) -> None:
        try:
            self.path = self._model_file()
            self._report(Progress("Preparing the language model: loading it"))
            self._start(self.path)
        except ModelError as error:
            self._fail(error)
        except SettingsError as error:
            self._fail(ModelUnavailable(str(error)))
        except OSError as error:
            self._fail(
                ModelUnavailable(
                    f"The language model's process cannot be started: {error.strerror or error}. "
                    "Free some memory and try again."
                )
            )

    def _model_file(self) -> Path:
        if find_spec("xllamacpp") is None:
            raise ModelUnavailable(
                "The embedded language model is not installed. Install it with: pip install "
                "'fenestra[local]'. Or set OPENAI_BASE_URL to a model server."
            )
        if self._gguf is not None:
            return own_model(self._gguf)
        return packaged_model(self._cache, self._report)

    def _start(self, path: Path) -> None:
        with self._changed:
            if self._closed:
                raise ModelUnavailable("The language model was closed. Open the library again.")
            process = self.process = ServerProcess(path, self._name, CONTEXT_TOKENS)
        self.address = process.wait_address()
        chat = OpenAIChat(
            base_url=f"{self.address}/v1",
            api_key=process.key,
            model=self._name,
            timeout=self._timeout,
            extra=self._fields,
        )
        with self._changed:
            self._chat = chat
            self._changed.notify_all()

    def _fields(self, messages: Sequence[Message]) -> dict[str, object]:
        """Fields of llama.cpp's own: tell how far the prompt is read; when to use the cache.

        Of a prompt that was read before, only the last token would be read again, alone; that
        rounds differently from reading it among others and can turn an answer. The same prompt
        is to give the same answer, so then the cache is left aside.
        """
        prompt = hash(tuple(messages))
        again = prompt in self._prompts
        self._prompts.add(prompt)
        return {"return_progress": True, "cache_prompt": not again}

    def _report(self, progress: Progress) -> None:
        with self._changed:
            self._progress = progress
            self._changed.notify_all()

    def _fail(self, error: ModelError) -> None:
        with self._changed:
            self._error = error
            self._changed.notify_all()
