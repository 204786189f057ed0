"""Two answers side by side: each column streams by itself, and shows what it was sent."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import streamlit as st

from rag.domain import Failed, Finished, Notice, Progress, Strategy, Token
from rag.ui import render
from rag.ui.controls import NAMES
from rag.ui.state import Phase, Side, Turn

if TYPE_CHECKING:
    from streamlit.delta_generator import DeltaGenerator

    from rag.library import Library

_REFRESH = 0.08
"""Seconds between two drawings of an answer that arrives; more often no eye can follow."""


def show(turn: Turn, library: Library, live: bool) -> None:
    """Draw a turn; if it is ``live``, ask the model for both of its answers meanwhile."""
    with st.container():
        _draw(turn, library, live)


def _draw(turn: Turn, library: Library, live: bool) -> None:
    with st.chat_message("user", avatar=":material/person:"):
        st.html(render.question(turn.question))
    if turn.error:
        st.error(render.literal(turn.error), icon=":material/error:")
        return
    for column, side in zip(st.columns(2, border=True), turn.sides, strict=True):
        with column:
            if live:
                _answer(side, library)
            else:
                # The same nesting as a fragment has, so that what a reader opened stays open.
                with st.container():
                    _show(side)


@st.fragment(parallel=True)
def _answer(side: Side, library: Library) -> None:
    body, figures = _show(side)
    events = library.answer(side.context)
    drawn = 0.0
    try:
        for event in events:
            match event:
                case Token(text):
                    side.text += text
                case Progress(message, fraction) if not side.text:
                    body.html(render.unfinished(render.progress(message, fraction)))
                    continue
                case Notice(message):
                    side.notices.append(message)
                case Failed(message, partial):
                    side.text, side.error, side.phase = partial, message, Phase.FAILED
                case Finished(answer):
                    side.text, side.answer, side.phase = answer.text, answer, Phase.DONE
            # Drawing is also what lets Stop, or a click elsewhere, end this loop.
            if time.monotonic() - drawn > _REFRESH:
                body.html(render.unfinished(render.answer(side.text)))
                drawn = time.monotonic()
    finally:
        events.close()
    _fill(side, body, figures)


def _show(side: Side) -> tuple[DeltaGenerator, DeltaGenerator]:
    """Draw all of a side; returns the places of its answer and of its figures."""
    st.html(render.side_heading(NAMES[side.selection.strategy], _explain(side)))
    body, figures = st.empty(), st.empty()
    _fill(side, body, figures)
    context = side.context
    st.html(render.sources(context.passages))
    for sentence in context.dropped:
        st.html(render.note(sentence))
    with st.expander("Exact prompt", icon=":material/data_object:"):
        marked, plain = st.tabs(["Marked", "Plain text"])
        with marked:
            st.html(render.legend(context.strategy) + render.marked_prompt(context))
        with plain:
            # One line break at each end is what st.code takes away.
            st.code(f"\n{context.prompt}\n", language=None, wrap_lines=True)
    return body, figures


def _fill(side: Side, body: DeltaGenerator, figures: DeltaGenerator) -> None:
    if side.phase is Phase.OPEN and not side.text:
        body.html(render.unfinished(render.progress("Starting")))
        return
    with body.container():
        if side.text.strip():
            st.html(render.answer(side.text))
        if side.phase is Phase.STOPPED:
            st.html(render.note(render.STOPPED))
        for sentence in side.notices:
            st.html(render.note(sentence))
        if side.error:
            st.error(render.literal(side.error), icon=":material/error:")
    if side.answer is not None:
        figures.html(render.statistics(side.context, side.answer))


def _explain(side: Side) -> str:
    hits = len(side.context.hits)
    matches = "1 match" if hits == 1 else f"{hits} matches"
    match side.selection.strategy:
        case Strategy.ISOLATED:
            return f"{matches}, {'alone' if hits == 1 else 'each alone'}"
        case Strategy.WINDOW:
            return f"{matches}, read in windows of {side.selection.window}"
        case Strategy.DOCUMENT:
            return f"{matches}, read with the documents around"
