"""Which chunks a strategy sends, and what a budget leaves of them."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag.chunking import chunk_text
from rag.domain import Chunk, ChunkSettings, Hit, Span, SpanText, Strategy
from rag.strategies import Choice, Chooser, merge_size, reach
from rag.testing import HashEmbedder
from rag.window import window_span

TOKENIZER = HashEmbedder()


def count(text: str) -> int:
    return TOKENIZER.count([text])[0]


@dataclass(frozen=True)
class Shelf:
    """Some documents, cut into chunks."""

    texts: dict[str, str]
    chunks: dict[str, list[Chunk]]

    @classmethod
    def of(cls, sizes: dict[str, int], overlap: int = 0) -> Shelf:
        texts = {
            name: " ".join(f"{name}{i} says {i % 7} things about {i % 5} birds." for i in range(n))
            for name, n in sizes.items()
        }
        cut = {
            name: chunk_text(text, ChunkSettings(16, overlap), TOKENIZER)
            for name, text in texts.items()
        }
        return cls(texts, cut)

    def choose(
        self,
        hits: list[tuple[str, int]],
        strategy: Strategy,
        window: int,
        *,
        budget: int = 10**6,
        alone: bool = False,
    ) -> tuple[Choice, Chooser]:
        ranked = [Hit(d, i, 1 - r / 100, 1 - r / 100) for r, (d, i) in enumerate(hits)]
        reaches = [
            reach(strategy, len(self.chunks[d]), i, window, len(self.chunks[d])) for d, i in hits
        ]
        spans = [SpanText(d, tuple(self.chunks[d]), self.texts[d]) for d in {d for d, _ in hits}]
        chooser = Chooser(ranked, reaches, spans, merge_size(strategy, window), count)
        return (chooser.fill(budget) if alone else chooser.all_hits(budget)), chooser

    def tokens(self, choice: Choice, chooser: Chooser) -> int:
        return sum(count(chooser.cut(s.document_id, s.first, s.last).text) for s in choice.spans)


SHELF = Shelf.of({"a": 80, "b": 50, "c": 6})
OVERLAPPING = Shelf.of({"a": 80, "b": 50, "c": 6}, overlap=6)


def spans_of(choice: Choice) -> list[tuple[str, int, int, tuple[int, ...]]]:
    return [(s.document_id, s.first, s.last, s.matches) for s in choice.spans]


def test_isolated_hits_that_touch_stay_apart() -> None:
    choice, _ = SHELF.choose([("a", 3), ("a", 2)], Strategy.ISOLATED, 4)
    assert spans_of(choice) == [("a", 3, 3, (3,)), ("a", 2, 2, (2,))]


def test_two_near_hits_make_one_window_with_both_marked() -> None:
    choice, _ = SHELF.choose([("a", 3), ("a", 2)], Strategy.WINDOW, 3)
    assert spans_of(choice) == [("a", 1, 4, (2, 3))]


def test_windows_arriving_in_any_order_become_one_span() -> None:
    choice, _ = SHELF.choose([("a", 1), ("a", 5), ("a", 3)], Strategy.WINDOW, 3)
    assert spans_of(choice) == [("a", 0, 6, (1, 3, 5))]


def test_windows_never_cross_documents_and_are_ordered_by_their_best_hit() -> None:
    choice, _ = SHELF.choose([("b", 9), ("a", 9), ("b", 2)], Strategy.WINDOW, 4)
    assert [span[:3] for span in spans_of(choice)] == [("b", 7, 10), ("a", 7, 10), ("b", 0, 3)]


def test_order_is_by_the_best_hit_not_by_how_many() -> None:
    choice, _ = SHELF.choose([("b", 9), ("a", 4), ("a", 5), ("a", 6)], Strategy.WINDOW, 2)
    assert [span[0] for span in spans_of(choice)] == ["b", "a"]


def test_document_sends_the_whole_document_of_each_hit() -> None:
    choice, _ = SHELF.choose([("c", 1), ("b", 4)], Strategy.DOCUMENT, 4)
    ends = {name: len(SHELF.chunks[name]) - 1 for name in "bc"}
    assert [s[:3] for s in spans_of(choice)] == [("c", 0, ends["c"]), ("b", 0, ends["b"])]


def test_window_one_is_isolated() -> None:
    hits = [("a", 3), ("a", 2), ("c", 0), ("b", 7)]
    for budget in (10, 30, 60, 10**6):
        for alone in (True, False):
            window, _ = SHELF.choose(hits, Strategy.WINDOW, 1, budget=budget, alone=alone)
            isolated, _ = SHELF.choose(hits, Strategy.ISOLATED, 9, budget=budget, alone=alone)
            assert window == isolated


def test_a_budget_alone_trims_the_first_window_that_does_not_fit_and_stops() -> None:
    hits = [("a", 10), ("b", 10), ("a", 30)]
    sizes = {(d, c.index): c.tokens for d in "ab" for c in SHELF.chunks[d]}
    first = sum(sizes["a", i] for i in (8, 9, 10, 11))
    near = sizes["b", 10] + sizes["b", 9]
    choice, chooser = SHELF.choose(hits, Strategy.WINDOW, 4, budget=first + near, alone=True)
    assert spans_of(choice) == [("a", 8, 11, (10,)), ("b", 9, 10, (10,))]
    assert SHELF.tokens(choice, chooser) == first + near
    assert choice.neighbours_left_out == 2


def test_a_budget_with_top_n_takes_all_hits_before_any_neighbour() -> None:
    hits = [("a", 10), ("b", 10), ("a", 30)]
    sizes = {(d, c.index): c.tokens for d in "ab" for c in SHELF.chunks[d]}
    matches = sum(sizes[hit] for hit in hits)
    choice, _ = SHELF.choose(hits, Strategy.WINDOW, 4, budget=matches + sizes["a", 9])
    assert spans_of(choice) == [("a", 9, 10, (10,)), ("b", 10, 10, (10,)), ("a", 30, 30, (30,))]
    assert choice.hits_left_out == 0
    assert choice.neighbours_left_out == 8


def test_near_neighbours_of_every_hit_come_before_far_ones_of_the_best() -> None:
    hits = [("a", 10), ("b", 10)]
    sizes = {(d, c.index): c.tokens for d in "ab" for c in SHELF.chunks[d]}
    wanted = [("a", 9), ("a", 10), ("a", 11), ("b", 9), ("b", 10), ("b", 11)]
    choice, _ = SHELF.choose(hits, Strategy.WINDOW, 7, budget=sum(sizes[c] for c in wanted))
    assert [s[:3] for s in spans_of(choice)] == [("a", 9, 11), ("b", 9, 11)]


def test_a_hit_larger_than_the_budget_is_kept_for_clipping() -> None:
    for alone in (True, False):
        choice, _ = SHELF.choose([("a", 5), ("b", 5)], Strategy.WINDOW, 4, budget=2, alone=alone)
        assert spans_of(choice) == [("a", 5, 5, (5,))]
        assert choice.clip == 2
        assert choice.hits_left_out == (0 if alone else 1)


def test_no_hits_choose_nothing() -> None:
    choice, _ = SHELF.choose([], Strategy.WINDOW, 4)
    assert choice == Choice((), None, 0, 0)


hit_lists = st.lists(
    st.one_of(
        st.tuples(st.just("a"), st.integers(0, len(OVERLAPPING.chunks["a"]) - 1)),
        st.tuples(st.just("b"), st.integers(0, len(OVERLAPPING.chunks["b"]) - 1)),
        st.tuples(st.just("c"), st.integers(0, len(OVERLAPPING.chunks["c"]) - 1)),
    ),
    min_size=1,
    max_size=6,
    unique=True,
)


@settings(deadline=None)
@given(
    hit_lists,
    st.sampled_from(Strategy),
    st.integers(1, 9),
    st.integers(1, 400),
    st.booleans(),
)
def test_any_choice_under_any_budget(
    hits: list[tuple[str, int]], strategy: Strategy, window: int, budget: int, alone: bool
) -> None:
    shelf = OVERLAPPING
    choice, chooser = shelf.choose(hits, strategy, window, budget=budget, alone=alone)
    if choice.clip is None:
        assert shelf.tokens(choice, chooser) <= budget
    else:
        assert shelf.chunks[hits[0][0]][hits[0][1]].tokens > budget
    sent = {(s.document_id, i) for s in choice.spans for i in range(s.first, s.last + 1)}
    matched = {(s.document_id, i) for s in choice.spans for i in s.matches}
    assert matched <= set(hits)
    assert hits[0] in matched
    if not alone and choice.hits_left_out:
        assert sent <= set(hits), "a neighbour was kept although a hit was dropped"
    ranks = [min(hits.index((s.document_id, i)) for i in s.matches) for s in choice.spans]
    assert ranks == sorted(ranks)
    for span in choice.spans:
        text = shelf.texts[span.document_id]
        chunks = shelf.chunks[span.document_id]
        cut = chooser.cut(span.document_id, span.first, span.last).text
        assert cut == text[chunks[span.first].start : chunks[span.last].end]
    reached = {
        (d, i)
        for d, index in hits
        for i in (
            range(len(shelf.chunks[d]))
            if strategy is Strategy.DOCUMENT
            else window_span(
                len(shelf.chunks[d]), index, window if strategy is Strategy.WINDOW else 1
            )
        )
    }
    assert sent <= reached


@settings(deadline=None)
@given(hit_lists, st.integers(1, 9))
def test_without_a_tight_budget_every_hit_gets_its_whole_window(
    hits: list[tuple[str, int]], window: int
) -> None:
    choice, _ = SHELF.choose(
        [(d, min(i, len(SHELF.chunks[d]) - 1)) for d, i in hits], Strategy.WINDOW, window
    )
    sent = {(s.document_id, i) for s in choice.spans for i in range(s.first, s.last + 1)}
    for d, i in hits:
        n = len(SHELF.chunks[d])
        assert {(d, j) for j in window_span(n, min(i, n - 1), window)} <= sent
    assert (choice.hits_left_out, choice.neighbours_left_out, choice.clip) == (0, 0, None)


@pytest.mark.parametrize("strategy", Strategy)
def test_choosing_twice_gives_the_same(strategy: Strategy) -> None:
    hits = [("a", 3), ("b", 2), ("a", 4)]
    first, _ = SHELF.choose(hits, strategy, 4, budget=90)
    again, _ = SHELF.choose(hits, strategy, 4, budget=90)
    assert first == again
    assert all(isinstance(span, Span) for span in first.spans)
