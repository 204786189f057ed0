"""What the chunks of a chat completion stream add up to.

Servers differ: chunks without choices first or last, ``null`` content, usage in the last chunk,
in every chunk or in none. Reasoning is not part of the answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from openai.types.chat import ChatCompletionChunk

from rag.domain import Progress, TextDelta, Usage

_FINISH = {
    "length": "length",
    "max_tokens": "length",
    "content_filter": "incomplete",
    "error": "incomplete",
}
"""Finish marks that do not mean a complete answer; every other one does."""


class StreamedAnswer:
    """One answer while it arrives.

    Attributes:
        text: whether any text has come.
        finish: ``stop``, ``length`` or ``incomplete`` once the server said so, else ``None``.
        usage: the newest figures that the server gave.
        model: the model that the server says is answering, if it says so.
        alive: whether the last chunk brought anything: text, reasoning, progress or the end.
    """

    def __init__(self) -> None:
        self.text = False
        self.finish: str | None = None
        self.usage = Usage(None, None)
        self.model: str | None = None
        self.alive = False

    def read(self, chunk: ChatCompletionChunk) -> Iterator[Progress | TextDelta]:
        """Take in a chunk and yield what it says.

        The client does not check what servers send, so nothing is taken for granted here.
        """
        self.alive = False
        model = getattr(chunk, "model", None)
        self.model = model if isinstance(model, str) and model else self.model
        usage = getattr(chunk, "usage", None)
        if usage is not None:
            self.usage = Usage(
                _count(getattr(usage, "prompt_tokens", None)),
                _count(getattr(usage, "completion_tokens", None)),
            )
        progress = _reading(getattr(chunk, "prompt_progress", None))
        if progress is not None:
            self.alive = True
            yield progress
        for choice in (getattr(chunk, "choices", None) or ())[:1]:
            delta = getattr(choice, "delta", None)
            content = getattr(delta, "content", None)
            if isinstance(content, str) and content:
                self.alive = self.text = True
                yield TextDelta(content)
            elif any(getattr(delta, key, None) for key in ("reasoning_content", "reasoning")):
                self.alive = True
                yield Progress("The model is thinking")
            finish = getattr(choice, "finish_reason", None)
            if finish:
                self.alive = True
                self.finish = _FINISH.get(finish, "stop")


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and value >= 0 else None


def _reading(progress: object) -> Progress | None:
    """How far llama.cpp has read the prompt, if the chunk says so."""
    if not isinstance(progress, Mapping):
        return None
    total, done = _count(progress.get("total")), _count(progress.get("processed"))
    if not total or done is None:
        return None
    return Progress("The model is reading the sources", min(1.0, done / total))
