"""OpenAIChat: any server that speaks OpenAI's chat completions, read as a stream."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import closing
from typing import Any, TypeVar, cast

import openai
from openai.types.chat import ChatCompletionChunk

from rag.adapters.async_bridge import AsyncBridge
from rag.adapters.openai_answer import StreamedAnswer
from rag.adapters.openai_client import LOOPBACK, new_client, shown_address
from rag.adapters.openai_errors import (
    Endpoint,
    explain,
    is_context_error,
    is_unknown_model,
    refused_field,
)
from rag.domain import Message, Progress, StreamEnd, TextDelta, Usage
from rag.errors import ModelError, ModelUnavailable
from rag.ports import AnswerStream, Steps

OPENAI_URL = "https://api.openai.com/v1"

_AFTER_FINISH = 5.0
"""Seconds to wait for the usage figures, or the end, after the answer is complete."""
_OPTIONAL = ("stream_options", "max_tokens", "temperature")
"""Request fields that some servers refuse and the answer does not hang on."""
_NOT_CHAT = re.compile(
    r"embed|bge-|minilm|whisper|tts|dall-e|image|moderation|rerank|transcribe|realtime",
    re.IGNORECASE,
)

Event = Progress | TextDelta | StreamEnd
Emit = Callable[[Event], None]
Extra = Callable[[Sequence[Message]], Mapping[str, object]]
T = TypeVar("T")


class OpenAIChat:
    """A chat model behind an OpenAI-compatible endpoint.

    Args:
        base_url: address up to ``/v1``; OpenAI's own if ``None``.
        api_key: sent as bearer token; a placeholder is sent if ``None``, as local servers want.
        model: name of the model; the server's first chat model if ``None``.
        timeout: seconds without any new text after which an answer is given up. Reasoning and
            progress count as signs of life, keep-alive comments do not.
        extra: gives more fields for the body of each request.
    """

    parallel = True

    def __init__(
        self,
        *,
        base_url: str | None,
        api_key: str | None,
        model: str | None,
        timeout: float,
        extra: Extra | None = None,
    ) -> None:
        self._base_url = (base_url or OPENAI_URL).strip().rstrip("/")
        self._host, self._address = shown_address(self._base_url)
        self._key = (api_key or "").strip() or None
        self._configured = model
        self._found: str | None = None
        self._timeout = timeout
        self._extra = extra
        self._refused: set[str] = set()
        self._bridge = AsyncBridge("fenestra-chat")
        self._client: openai.AsyncOpenAI | None = None

    @property
    def name(self) -> str:
        """Name of the model; before the server was asked for its first one, the server's."""
        return self._configured or self._found or f"the first model of {self._address}"

    def start(self) -> None:
        """Nothing to start: the server runs by itself."""

    def wait_ready(self) -> Steps:
        """Ask the server for its first model if none is configured. Raises ``ModelError``."""
        if self._configured or self._found:
            return
        waiting = Progress(f"Asking {self._address} for its models")
        yield waiting

        async def resolve(_: Emit) -> None:
            await self._guarded(self._model())

        with closing(self._bridge.iterate(resolve)) as events:
            for _ in events:
                yield waiting

    def stream(
        self, messages: Sequence[Message], *, max_tokens: int, temperature: float
    ) -> AnswerStream:
        """Stream an answer. Closing the iterator closes the connection, and so stops the server.

        Raises:
            ModelError: before any text came; the message says what to do.
        """

        async def produce(emit: Emit) -> None:
            await self._produce(messages, max_tokens, temperature, emit)

        text = False
        waiting = Progress(f"Waiting for {self.name}")
        with closing(self._bridge.iterate(produce)) as events:
            for event in events:
                if isinstance(event, Progress):
                    waiting = event
                yield event or waiting
                if isinstance(event, StreamEnd):
                    return
                text = text or isinstance(event, TextDelta)
        # Only close() ends a stream without an end of its own.
        if not text:
            raise ModelUnavailable(f"The connection to {self._address} was closed. Ask again.")
        yield StreamEnd("incomplete", Usage(None, None), self.name)

    def check(self) -> Mapping[str, str]:
        """Have the model say one word. Returns address, model and the models offered."""

        async def probe() -> dict[str, str]:
            offered = await self._offered()
            await self._produce([Message("user", "Say OK.")], 16, 0.0, lambda _: None)
            return {
                "address": self._address,
                "model": self.name,
                "offered": ", ".join(offered) or "the server does not list its models",
            }

        return self._bridge.call(self._guarded(probe()))

    def close(self) -> None:
        """Break off what runs and let go of the connections. Safe to call twice."""
        client, self._client = self._client, None
        if client is not None:
            self._bridge.call(client.close())
        self._bridge.close()

    # everything below runs on the bridge's event loop

    async def _produce(
        self, messages: Sequence[Message], max_tokens: int, temperature: float, emit: Emit
    ) -> None:
        answer = StreamedAnswer()
        try:
            async with asyncio.timeout(self._timeout) as limit:
                options = {
                    "model": await self._model(),
                    "messages": [{"role": m.role, "content": _clean(m.content)} for m in messages],
                    "temperature": temperature,
                    "max_tokens": max_tokens,
                    "stream_options": {"include_usage": True},
                    "extra_body": self._extra(messages) if self._extra else None,
                }
                async with await self._request(options) as stream:
                    async for chunk in stream:
                        for event in answer.read(chunk):
                            emit(event)
                        if answer.alive:
                            patience = _AFTER_FINISH if answer.finish else self._timeout
                            limit.reschedule(asyncio.get_running_loop().time() + patience)
        except (openai.OpenAIError, TimeoutError, ValueError) as error:
            if not answer.text and answer.finish is None:
                raise await self._explained(error) from None
        if not answer.text and answer.finish is None:
            raise explain(ValueError(), self._endpoint)
        emit(StreamEnd(answer.finish or "incomplete", answer.usage, answer.model or self.name))

    async def _request(self, options: dict[str, Any]) -> openai.AsyncStream[ChatCompletionChunk]:
        """Send the request, leaving out optional fields that the server refuses."""
        while True:
            fields = {k: v for k, v in options.items() if k not in self._refused}
            if "max_tokens" in self._refused:
                fields["max_completion_tokens"] = options["max_tokens"]
            try:
                stream = await self._connected().chat.completions.create(stream=True, **fields)
                return cast("openai.AsyncStream[ChatCompletionChunk]", stream)
            except (openai.BadRequestError, openai.UnprocessableEntityError) as error:
                left = [field for field in _OPTIONAL if field in fields]
                refused = None if is_context_error(error) else refused_field(error, left)
                if refused is None:
                    raise
                self._refused.add(refused)

    async def _model(self) -> str:
        if self._configured:
            return self._configured
        if self._found is None:
            offered = await self._offered()
            chat = [name for name in offered if not _NOT_CHAT.search(name)]
            if not offered:
                raise ModelUnavailable(
                    f"The model server at {self._address} offers no model. Load one there, or "
                    "set FENESTRA_MODEL."
                )
            self._found = (chat or offered)[0]
        return self._found

    async def _offered(self) -> list[str]:
        """Names of the server's models; none if it does not list them."""
        try:
            page = await self._connected().models.list()
        except (openai.NotFoundError, openai.APIResponseValidationError):
            return []
        return [model.id for model in page.data or [] if isinstance(model.id, str)]

    async def _guarded(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            async with asyncio.timeout(self._timeout):
                return await work
        except (openai.OpenAIError, TimeoutError, ValueError) as error:
            raise await self._explained(error) from None

    async def _explained(self, error: Exception) -> ModelError:
        offered: list[str] = []
        if is_unknown_model(error):
            self._found = None
            try:
                offered = await self._offered()
            except openai.OpenAIError:
                offered = []
        return explain(error, self._endpoint, offered)

    def _connected(self) -> openai.AsyncOpenAI:
        if self._host is None:
            raise ModelUnavailable(
                f"{self._address} is not the address of a model server. Correct OPENAI_BASE_URL: "
                "it begins with http:// or https:// and usually ends in /v1."
            )
        if self._key and not all(33 <= ord(c) <= 126 for c in self._key):
            raise ModelUnavailable(
                "The key of the model server holds an illegal character. Copy OPENAI_API_KEY "
                "again from your provider."
            )
        if self._client is None:
            self._client = new_client(self._base_url, self._key, direct=self._host in LOOPBACK)
        return self._client

    @property
    def _endpoint(self) -> Endpoint:
        return Endpoint(self._address, self._key, self.name, self._timeout)


def _clean(text: str) -> str:
    """Text without lone surrogates, which JSON in UTF-8 cannot carry."""
    return text.encode("utf-8", "replace").decode("utf-8")
