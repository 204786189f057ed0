"""ScriptedChat: a chat model that says what a test tells it to, and the replies it plays.

A token is a word with the white space after it. Nothing depends on the clock: where a reply
should wait, it waits for a semaphore that the test releases.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from rag.domain import Message, Progress, StreamEnd, TextDelta, Usage
from rag.errors import ModelError, ModelUnavailable
from rag.ports import AnswerStream, Steps

_TOKEN = re.compile(r"\s*\S+\s*")


def split_tokens(text: str) -> list[str]:
    """Cut text into words with their white space; joined again they are the text."""
    return _TOKEN.findall(text) or ([text] if text else [])


@dataclass(frozen=True, slots=True)
class Reply:
    """One scripted answer.

    Attributes:
        text: the whole answer.
        error: raised before any text comes.
        cut: break off after so many tokens, if there are more; ``None`` for never.
        gate: acquired once before each token, so that a test decides when it comes.
        usage: whether the model says how many tokens it read and wrote.
    """

    text: str = ""
    error: ModelError | None = None
    cut: int | None = None
    gate: threading.Semaphore | None = None
    usage: bool = True


Answerer = Callable[[Sequence[Message]], "str | Reply"]


def quote(messages: Sequence[Message]) -> str:
    """Answer with the last message itself, sources and question, and cite the first source."""
    return f"{messages[-1].content} [1]"


class ScriptedChat:
    """A chat model without a model. The last reply is repeated for ever.

    Args:
        replies: texts, replies, or functions from the messages to either; :func:`quote` if
            there are none.
        parallel: what the model says about two answers at once.
        name: name of the model.

    Attributes:
        calls: the messages of every call, in order.
        closed_early: how many streams their reader closed before the end.
    """

    def __init__(
        self, *replies: str | Reply | Answerer, parallel: bool = True, name: str = "scripted"
    ) -> None:
        self.parallel = parallel
        self.name = name
        self.calls: list[tuple[Message, ...]] = []
        self.closed_early = 0
        self._replies = replies or (quote,)
        self._lock = threading.Lock()

    def start(self) -> None:
        """Nothing to start."""

    def wait_ready(self) -> Steps:
        """Ready at once."""
        yield Progress(f"{self.name} is ready", 1.0)

    def stream(
        self, messages: Sequence[Message], *, max_tokens: int, temperature: float
    ) -> AnswerStream:
        """Play the next reply, at most ``max_tokens`` words of it."""
        with self._lock:
            chosen = self._replies[min(len(self.calls), len(self._replies) - 1)]
            self.calls.append(tuple(messages))
        answer = chosen(messages) if callable(chosen) else chosen
        reply = Reply(answer) if isinstance(answer, str) else answer
        if reply.error is not None:
            raise reply.error
        if reply.cut == 0:
            raise ModelUnavailable(f"{self.name} broke off before its first word. Ask again.")
        tokens = split_tokens(reply.text)
        limit = max_tokens if reply.cut is None else min(max_tokens, reply.cut)
        ended = False
        try:
            for token in tokens[:limit]:
                while reply.gate is not None and not reply.gate.acquire(timeout=0.02):
                    yield Progress(f"Waiting for {self.name}")
                yield TextDelta(token)
            ended = True
        finally:
            if not ended:
                with self._lock:
                    self.closed_early += 1
        finish = _finish(reply, len(tokens), max_tokens)
        counted = reply.usage and finish != "incomplete"
        usage = _usage(messages, tokens[:limit]) if counted else Usage(None, None)
        yield StreamEnd(finish, usage, self.name)

    def check(self) -> Mapping[str, str]:
        """Always well."""
        return {"address": "none (scripted)", "model": self.name}

    def close(self) -> None:
        """Nothing to stop."""


def _finish(reply: Reply, tokens: int, max_tokens: int) -> str:
    if reply.cut is not None and reply.cut < min(tokens, max_tokens):
        return "incomplete"
    return "length" if tokens > max_tokens else "stop"


def _usage(messages: Sequence[Message], answer: Sequence[str]) -> Usage:
    return Usage(sum(len(split_tokens(message.content)) for message in messages), len(answer))
