"""From a context to a streamed answer, told as events."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import closing
from typing import Literal

from rag.citations import find_citations
from rag.domain import (
    Answer,
    AskEvent,
    Context,
    Failed,
    Finished,
    Notice,
    Progress,
    Retrieved,
    StreamEnd,
    TextDelta,
    Token,
    Usage,
)
from rag.errors import ModelError
from rag.ports import AskEvents, ChatModel

Side = Literal["left", "right"]
CompareEvents = Generator[tuple[Side, AskEvent], None, None]

_TAIL = 900
"""Characters at the end of an answer that are looked at for repetition."""

WAITING = "Waiting for the other answer: this model is quicker with one answer at a time"


class Answerer:
    """Asks a language model, in turn where two answers at once would both come later.

    Args:
        chat: the language model.
        max_tokens: most tokens of an answer.
        temperature: 0 to 2.
        prices: of a million prompt and completion tokens; ``None`` where unknown.
    """

    def __init__(
        self,
        chat: ChatModel,
        *,
        max_tokens: int,
        temperature: float,
        prices: tuple[float, float] | None,
    ) -> None:
        self._chat = chat
        self._max_tokens = max_tokens
        self._temperature = temperature
        self._prices = prices
        self._turn = threading.Lock()

    def answer(self, context: Context) -> AskEvents:
        """Yield progress, then tokens, then ``Finished`` or ``Failed``.

        Closing the iterator stops the model's work.
        """
        if self._chat.parallel:
            yield from self._answer(context)
            return
        while not self._turn.acquire(timeout=0.3):
            yield Progress(WAITING)
        try:
            yield from self._answer(context)
        finally:
            self._turn.release()

    def _answer(self, context: Context) -> AskEvents:
        pieces: list[str] = []
        end: StreamEnd | None = None
        first: float | None = None
        try:
            yield from self._chat.wait_ready()
            yield Progress(f"{self._chat.name} is reading {context.token_count} tokens")
            began = time.perf_counter()
            stream = self._chat.stream(
                context.messages, max_tokens=self._max_tokens, temperature=self._temperature
            )
            with closing(stream):
                for item in stream:
                    if isinstance(item, TextDelta):
                        first = first if first is not None else time.perf_counter() - began
                        pieces.append(item.text)
                        yield Token(item.text)
                        if unit := repeated("".join(pieces)[-_TAIL:]):
                            # A small model in such a loop never finds out by itself.
                            pieces = ["".join(pieces)[: -2 * unit]]
                            end = StreamEnd("repetition", Usage(None, None), self._chat.name)
                            break
                    elif isinstance(item, StreamEnd):
                        end = item
                    else:
                        yield item
        except ModelError as error:
            yield Failed(str(error), "".join(pieces))
            return
        end = end or StreamEnd("incomplete", Usage(None, None), self._chat.name)
        answer = self._answered(context, "".join(pieces), end, first, time.perf_counter() - began)
        for sentence in _notices(context, answer, self._max_tokens):
            yield Notice(sentence)
        yield Finished(answer)

    def _answered(
        self, context: Context, text: str, end: StreamEnd, first: float | None, total: float
    ) -> Answer:
        sent, answered = end.usage.prompt_tokens, end.usage.completion_tokens
        cost = None
        if self._prices is not None and sent is not None and answered is not None:
            cost = (sent * self._prices[0] + answered * self._prices[1]) / 1_000_000
        return Answer(
            text=text,
            citations=find_citations(text, context.passages),
            finish=end.finish,
            usage=end.usage,
            model=end.model,
            first_token_seconds=first,
            total_seconds=total,
            cost=cost,
        )

    def compare(self, left: Context, right: Context) -> CompareEvents:
        """Answer two contexts, at once if that is sooner; yields (side, event).

        One side failing does not touch the other.
        """
        if not self._chat.parallel:
            for side, context in _sides(left, right):
                yield side, Retrieved(context)
                for event in self.answer(context):
                    yield side, event
            return
        events: queue.SimpleQueue[tuple[Side, AskEvent | None]] = queue.SimpleQueue()
        stopped = threading.Event()

        def pump(side: Side, context: Context) -> None:
            with closing(self.answer(context)) as stream:
                for event in stream:
                    events.put((side, event))
                    if stopped.is_set():
                        break
            events.put((side, None))

        for side, context in _sides(left, right):
            yield side, Retrieved(context)
        threads = [
            threading.Thread(target=pump, args=pair, daemon=True) for pair in _sides(left, right)
        ]
        for thread in threads:
            thread.start()
        try:
            running = len(threads)
            while running:
                arrived = events.get()
                if arrived[1] is None:
                    running -= 1
                else:
                    yield arrived[0], arrived[1]
        finally:
            stopped.set()


def repeated(tail: str) -> int:
    """Length of the text that stands three times in a row at the end of ``tail``; 0 if none.

    Only 20 to 300 characters with a letter among them count: rules and dots may go on.
    """
    for unit in range(20, min(300, len(tail) // 3) + 1):
        last = tail[-unit:]
        if last == tail[-2 * unit : -unit] == tail[-3 * unit : -2 * unit]:
            return unit if any(c.isalpha() for c in last) else 0
    return 0


def _sides(left: Context, right: Context) -> tuple[tuple[Side, Context], tuple[Side, Context]]:
    return ("left", left), ("right", right)


def _notices(context: Context, answer: Answer, max_tokens: int) -> Iterator[str]:
    if answer.finish == "length":
        yield (
            f"The answer was cut off at its limit of {max_tokens} tokens. "
            "Raise FENESTRA_MAX_ANSWER_TOKENS for longer answers."
        )
    elif answer.finish == "repetition":
        yield "The model began to repeat itself and was stopped. What it repeated is shown once."
    elif answer.finish == "incomplete":
        yield "The model broke off before it had finished. Ask again for a complete answer."
    elif not answer.text.strip():
        yield "The model answered with no text. Ask again, or choose another model."
    sent = answer.usage.prompt_tokens
    # The two tokenizers differ, but never by a factor of two on ordinary text.
    if sent is not None and sent < context.token_count / 2:
        yield (
            f"The model read only {sent} tokens of a prompt with more than "
            f"{context.token_count}: the server seems to cut prompts. Raise its context length."
        )
