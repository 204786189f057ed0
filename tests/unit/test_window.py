"""The heart: every window of every small document, and merging as properties."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rag
from rag.window import chunk_window, merge_spans, window_span

GUIDE = [
    "All API requests require authentication.",
    "Generate a bearer token from your dashboard under Settings > API Keys.",
    "Use the bearer token in the Authorization header.",
    "Tokens expire after 90 days and should be rotated regularly.",
]


def test_chunk_window_is_the_first_public_name() -> None:
    assert rag.__all__[0] == "chunk_window"
    assert rag.chunk_window is chunk_window


def test_the_example_of_the_guide() -> None:
    assert chunk_window(GUIDE, 2, separator=" ") == " ".join(GUIDE)
    assert chunk_window(GUIDE, 2, size=1) == GUIDE[2]


CASES = [(n, i, size) for n in range(1, 10) for i in range(n) for size in range(1, n + 3)]


@pytest.mark.parametrize(("n", "index", "size"), CASES)
def test_every_window_of_every_small_document(n: int, index: int, size: int) -> None:
    start = max(0, index - size // 2)
    if start + size > n:
        start = max(0, n - size)
    stop = min(n, start + size)
    span = window_span(n, index, size)
    assert (span.start, span.stop) == (start, stop)
    assert index in span
    assert len(span) == min(n, size)
    chunks = [f"c{i}" for i in range(n)]
    assert chunk_window(chunks, index, size) == "\n\n".join(chunks[start:stop])


def test_four_is_two_before_and_one_after() -> None:
    assert list(window_span(10, 5)) == [3, 4, 5, 6]


@pytest.mark.parametrize("index", [-1, -9, 3, 100])
def test_an_index_outside_names_index_and_length(index: int) -> None:
    with pytest.raises(IndexError, match=rf"{index}.*3"):
        chunk_window(["a", "b", "c"], index)


def test_no_chunks_have_no_window() -> None:
    with pytest.raises(IndexError):
        chunk_window([], 0)


@pytest.mark.parametrize("size", [0, -1, -4])
def test_a_size_below_one_is_refused(size: int) -> None:
    with pytest.raises(ValueError, match=str(size)):
        chunk_window(["a"], 0, size)
    with pytest.raises(ValueError, match=str(size)):
        merge_spans([range(1)], size)


@pytest.mark.parametrize("kind", [np.uint8, np.int8, np.int64])
def test_fixed_width_integers_do_not_wrap(kind: type[np.integer]) -> None:
    assert window_span(kind(100), kind(1), kind(4)) == range(4)
    assert window_span(200, kind(99), kind(4)) == range(97, 101)


@pytest.mark.parametrize("size", [2.5, float("nan"), "4", None])
def test_a_size_that_is_no_whole_number_is_refused(size: object) -> None:
    with pytest.raises(TypeError):
        window_span(9, 4, size)  # type: ignore[arg-type]


@pytest.mark.parametrize("span", [range(0, 10, 2), range(5, 1, -1)])
def test_a_span_with_holes_is_refused(span: range) -> None:
    with pytest.raises(ValueError, match="every index"):
        merge_spans([span], 4)


spans = st.lists(
    st.tuples(st.integers(0, 40), st.integers(1, 8)).map(lambda p: range(p[0], p[0] + p[1])),
    max_size=12,
)


@given(spans, st.integers(1, 5), st.randoms())
def test_merging_loses_and_repeats_nothing(
    given_spans: list[range], size: int, random: object
) -> None:
    merged = merge_spans(given_spans, size)
    covered = sorted(i for span in merged for i in span)
    assert covered == sorted({i for span in given_spans for i in span})
    assert merged == sorted(merged, key=lambda span: span.start)
    gap = 1 if size >= 2 else 0
    assert all(b.start >= a.stop + gap for a, b in itertools.pairwise(merged))
    shuffled = list(given_spans)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert merge_spans(shuffled, size) == merged


@pytest.mark.parametrize(
    ("given_spans", "size", "merged"),
    [
        ([range(1, 4), range(2, 5)], 3, [range(1, 5)]),
        ([range(3), range(4, 7), range(2, 5)], 3, [range(7)]),
        ([range(1, 4), range(4, 7)], 3, [range(1, 7)]),
        ([range(2, 3), range(3, 4)], 1, [range(2, 3), range(3, 4)]),
        ([range(2, 3), range(2, 3)], 1, [range(2, 3)]),
        ([range(10, 12), range(2, 4)], 2, [range(2, 4), range(10, 12)]),
        ([], 4, []),
        ([range(3, 3)], 4, []),
    ],
)
def test_merging(given_spans: list[range], size: int, merged: list[range]) -> None:
    assert merge_spans(given_spans, size) == merged
