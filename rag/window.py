"""Chunk windows: which neighbours are read together with a matched chunk.

All arithmetic on windows lives here. A window is a half-open ``range`` of chunk indices inside
one document: it never leaves the document and is always in reading order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import index


def window_span(n: int, match_index: int, size: int = 4) -> range:
    """Return the indices of the window of ``size`` chunks around ``match_index``.

    ``size`` is the total number of chunks, the match included. Half of it, rounded down, lies
    before the match, so 4 means two before and one after. Near an edge the window shifts inward
    and stays full as long as the document has enough chunks.

    Args:
        n: number of chunks in the document, at least 1.
        match_index: index of the matched chunk, 0 to ``n - 1``.
        size: chunks in the window, at least 1. Size 1 is the isolated chunk.

    Raises:
        IndexError: ``match_index`` is not in ``0..n-1``; negative indices are not wrapped.
        ValueError: ``size`` is less than 1.
        TypeError: an argument is not a whole number.
    """
    # Fixed-width integers of other libraries would wrap in what follows.
    n, match_index, size = index(n), index(match_index), index(size)
    if size < 1:
        raise ValueError(f"window size must be at least 1, got {size}")
    if not 0 <= match_index < n:
        raise IndexError(f"match index {match_index} is outside a document of {n} chunks")
    start = max(0, match_index - size // 2)
    if start + size > n:
        start = max(0, n - size)
    return range(start, min(n, start + size))


def chunk_window(
    chunks: Sequence[str], match_index: int, size: int = 4, separator: str = "\n\n"
) -> str:
    """Return the window of ``size`` chunks around ``match_index``, joined by ``separator``.

    This is for chunks that exist only as separate strings. Where the source text is at hand,
    Fenestra cuts a passage out of it by :func:`window_span` and the chunks' offsets instead:
    joining overlapping chunks as strings would repeat the overlap.

    Args:
        chunks: the chunks of one document, in reading order.
        match_index: index of the matched chunk, 0 to ``len(chunks) - 1``.
        size: chunks in the window, the match included, at least 1.
        separator: text put between two chunks.

    Raises:
        IndexError: ``match_index`` is outside ``chunks``; negative indices are not wrapped.
        ValueError: ``size`` is less than 1.
    """
    return separator.join(chunks[i] for i in window_span(len(chunks), match_index, size))


def merge_spans(spans: Iterable[range], size: int) -> list[range]:
    """Fuse the spans of one document and return them in reading order.

    Overlapping spans always fuse. Spans that only touch fuse when the window ``size`` is 2 or
    more; isolated chunks (size 1) that lie side by side stay apart, as two hits that matched
    separately. Equal spans are one span.

    Args:
        spans: half-open index ranges of one document, in any order; empty ones are dropped.
        size: the window size they were made with, at least 1.

    Raises:
        ValueError: ``size`` is less than 1, or a span leaves out indices.
    """
    if size < 1:
        raise ValueError(f"window size must be at least 1, got {size}")
    spans = list(spans)
    if any(span.step != 1 for span in spans):
        raise ValueError("a span holds every index from its start to its end, in order")
    merged: list[range] = []
    for span in sorted((s for s in spans if len(s)), key=lambda s: (s.start, s.stop)):
        if merged and span.start < merged[-1].stop + (1 if size >= 2 else 0):
            last = merged[-1]
            merged[-1] = range(last.start, max(last.stop, span.stop))
        else:
            merged.append(range(span.start, span.stop))
    return merged
