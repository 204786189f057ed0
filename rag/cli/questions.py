"""The commands that ask: search, ask, compare."""

from __future__ import annotations

from collections.abc import Sized
from contextlib import closing
from typing import TYPE_CHECKING

from rag.cli.arguments import Arguments
from rag.cli.console import Console
from rag.cli.exits import FAILED, OK
from rag.cli.session import open_session
from rag.cli.shapes import Shape, answer_shape, context_shape, failed_answer_shape
from rag.domain import (
    DEFAULT_COLLECTION,
    Answer,
    AskEvent,
    Context,
    Failed,
    Finished,
    Notice,
    Passage,
    Progress,
    Retrieved,
    Strategy,
    Token,
)

if TYPE_CHECKING:
    from rag.library import Selection


def search(arguments: Arguments, console: Console) -> int:
    """Show what a question finds, without a language model."""
    with open_session(arguments, console) as library:
        context = library.search(
            arguments.question,
            arguments.collection or DEFAULT_COLLECTION,
            _selection(arguments, arguments.strategy),
        )
    _print_context(context, console)
    console.result(context_shape(context))
    return OK


def ask(arguments: Arguments, console: Console) -> int:
    """Answer a question; the text streams as it comes."""
    side = _Side(console, live=True)
    with open_session(arguments, console) as library:
        events = library.ask(
            arguments.question,
            arguments.collection or DEFAULT_COLLECTION,
            _selection(arguments, arguments.strategy),
        )
        with closing(events):
            for event in events:
                side.take(event)
    console.result(side.shape())
    return FAILED if side.failed else OK


def compare(arguments: Arguments, console: Console) -> int:
    """Answer a question two ways from one retrieval.

    A terminal has one place to write, so the right side is held back until the left is done.
    """
    left = _Side(console, f"Left: {arguments.left}", live=True)
    right = _Side(console, f"Right: {arguments.right}")
    with open_session(arguments, console) as library:
        events = library.compare(
            arguments.question,
            arguments.collection or DEFAULT_COLLECTION,
            _selection(arguments, arguments.left),
            _selection(arguments, arguments.right),
        )
        with closing(events):
            for name, event in events:
                (left if name == "left" else right).take(event)
                if left.done:
                    right.go_live()
    right.go_live()
    console.result({"left": left.shape(), "right": right.shape()})
    return FAILED if left.failed or right.failed else OK


def _selection(arguments: Arguments, strategy: Strategy) -> Selection:
    from rag.library import Selection

    return Selection(
        strategy=strategy,
        window=arguments.window,
        top_n=arguments.top_n,
        budget=arguments.budget,
    )


class _Side:
    """One answer: prints its events, at once or later, and keeps what the JSON needs."""

    def __init__(self, console: Console, title: str = "", live: bool = False) -> None:
        self._console = console
        self._title = title
        self._live = live
        self._held: list[AskEvent] = []
        self._context: Context | None = None
        self._end: Finished | Failed | None = None

    @property
    def done(self) -> bool:
        return self._end is not None

    @property
    def failed(self) -> bool:
        """Whether there is no whole answer."""
        return not isinstance(self._end, Finished) or self._end.answer.finish == "incomplete"

    def take(self, event: AskEvent) -> None:
        if isinstance(event, Retrieved):
            self._context = event.context
        elif isinstance(event, Finished | Failed):
            self._end = event
        if isinstance(event, Progress):
            self._console.progress(event)
        elif isinstance(event, Notice):
            self._console.note(f"{self._title}: {event.message}" if self._title else event.message)
        elif self._live:
            self._print(event)
        else:
            self._held.append(event)

    def go_live(self) -> None:
        """Print what was held back; print at once from now on."""
        self._live = True
        held, self._held = self._held, []
        for event in held:
            self._print(event)

    def shape(self) -> Shape:
        context = context_shape(self._context) if self._context else {}
        if isinstance(self._end, Finished):
            return context | answer_shape(self._end.answer)
        if self._end is None:
            return context | failed_answer_shape("", "The answer did not end. Ask again.")
        return context | failed_answer_shape(self._end.partial, self._end.message)

    def _print(self, event: AskEvent) -> None:
        console = self._console
        match event:
            case Retrieved(context):
                if self._title:
                    console.heading(self._title)
                _print_context(context, console)
                console.heading("Answer")
            case Token(text):
                console.write(text, end="")
            case Finished(answer):
                console.end_line()
                _print_figures(answer, console)
            case Failed(message):
                console.end_line()
                console.note(message)


def _print_context(context: Context, console: Console) -> None:
    for passage in context.passages:
        console.heading(f"[{passage.number}] {passage.title}{_place(passage)}")
        console.write(_marked(passage).strip("\n").rstrip())
    console.write()
    console.write(
        f"{_count(context.passages, 'passage')}, {context.token_count} tokens, from "
        f"{_count(context.hits, 'match', 'matches')} (»…« in the passages)."
    )
    for sentence in context.dropped:
        console.note(sentence)


def _count(things: Sized, one: str, many: str | None = None) -> str:
    return f"{len(things)} {one if len(things) == 1 else many or one + 's'}"


def _place(passage: Passage) -> str:
    pages = ""
    if passage.page is not None:
        to = passage.last_page
        pages = f", page {passage.page}" + (f"-{to}" if to and to != passage.page else "")
    chunks = f"chunk {passage.first}"
    if passage.last != passage.first:
        chunks = f"chunks {passage.first}-{passage.last}"
    return f"{pages}, {chunks}" + (f", {passage.section}" if passage.section else "")


def _marked(passage: Passage) -> str:
    """The passage with its matched chunks in » «, the marks inside the white space at borders."""
    parts = []
    for segment in passage.segments:
        inner = segment.text.strip()
        if segment.is_match and inner:
            before, _, after = segment.text.partition(inner)
            parts.append(f"{before}»{inner}«{after}")
        else:
            parts.append(segment.text)
    return "".join(parts)


def _print_figures(answer: Answer, console: Console) -> None:
    sent, answered = answer.usage.prompt_tokens, answer.usage.completion_tokens
    first = answer.first_token_seconds
    figures = [
        answer.model,
        f"{'?' if sent is None else sent} tokens sent",
        f"{'?' if answered is None else answered} tokens answered",
        f"{answer.total_seconds:.1f} s" + (f" (first after {first:.1f} s)" if first else ""),
    ]
    if answer.cost is not None:
        figures.append(f"cost {answer.cost:.6f}")
    console.write(f"\n({', '.join(figures)})")
    for citation in answer.citations:
        page = f", page {citation.page}" if citation.page else ""
        console.write(f"[{citation.number}] {citation.title}{page}")
