"""The row of controls above the chat, kept in the URL: what is asked and how it is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import streamlit as st

from rag.domain import Strategy
from rag.library import Selection

NAMES = {
    Strategy.ISOLATED: "Isolated chunks",
    Strategy.WINDOW: "Chunk windows",
    Strategy.DOCUMENT: "Whole documents",
}
"""What people read instead of the strategies' identifiers."""

LARGEST = 20
"""Largest window, and most matches, on offer."""


@dataclass(frozen=True, slots=True)
class Controls:
    """What the controls say.

    Attributes:
        collection: name of the collection that is asked; ``None`` while there is none.
        left: strategy of the left answer.
        right: strategy of the right answer.
        window: chunks in a window, 1 to :data:`LARGEST`.
        top_n: matches that each side reads, 1 to :data:`LARGEST`.
    """

    collection: str | None
    left: Strategy
    right: Strategy
    window: int
    top_n: int

    def selections(self) -> tuple[Selection, Selection]:
        """How the left and the right side select passages."""
        return (
            Selection(self.left, self.window, self.top_n),
            Selection(self.right, self.window, self.top_n),
        )


def choose(collection: str, window: int, top_n: int) -> None:
    """Set the controls from code, as an example question does; call it before :func:`show`."""
    st.session_state["collection"] = collection
    st.session_state["left"] = Strategy.ISOLATED
    st.session_state["right"] = Strategy.WINDOW
    st.session_state["window"] = window
    st.session_state["top_n"] = top_n


def show(collections: Sequence[str], top_n: int) -> Controls:
    """Draw the row and return what it says.

    Args:
        collections: names on offer; the first one is chosen at first.
        top_n: matches chosen at first.
    """
    # Streamlit binds the keys to the URL and drops what is not on offer from it. It remembers
    # that nothing was chosen while there was nothing to choose.
    if collections and st.session_state.get("collection") not in collections:
        st.session_state["collection"] = collections[0]
    with st.container(horizontal=True, vertical_alignment="bottom", key="controls"):
        collection = st.selectbox(
            "Collection",
            collections,
            key="collection",
            bind="query-params",
            disabled=not collections,
            placeholder="None yet",
            help="The set of documents that is searched.",
        )
        left = _strategy("Left answer reads", "left", Strategy.ISOLATED)
        right = _strategy("Right answer reads", "right", Strategy.WINDOW)
        window = _number(
            "Window size",
            "window",
            4,
            "How many chunks of a document are read together: the one that matches and its "
            "neighbours. 1 is the match alone.",
        )
        matches = _number(
            "Matches",
            "top_n",
            top_n,
            "How many matching chunks each side starts from (top-n).",
        )
    return Controls(collection, left, right, window, matches)


def _strategy(label: str, key: str, default: Strategy) -> Strategy:
    options = list(Strategy)
    return st.selectbox(
        label,
        options,
        index=options.index(default),
        format_func=NAMES.__getitem__,
        key=key,
        bind="query-params",
        filter_mode=None,
        help="Isolated chunks: each match alone. Chunk windows: each match with its "
        "neighbours. Whole documents: everything around the matches that fits.",
    )


def _number(label: str, key: str, default: int, explanation: str) -> int:
    # A choice and not a number box, which fails on a number in the URL that has no end.
    return st.selectbox(
        label,
        range(1, LARGEST + 1),
        index=default - 1,
        key=key,
        bind="query-params",
        filter_mode="prefix",
        help=explanation,
    )
