"""From ranked hits to the chunks that are read: each strategy, and what a budget leaves of it.

A strategy only says how far around a hit it wants to read. Everything else is the same for all:
spans of one document are merged by :func:`rag.window.merge_spans`, and a budget is filled by
one rule, so that strategies differ in nothing but their reach.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rag.domain import Hit, Span, SpanText, Strategy
from rag.window import merge_spans, window_span

CountTokens = Callable[[str], int]


def reach(strategy: Strategy, n: int, index: int, window: int, limit: int) -> range:
    """Return the chunks that ``strategy`` wants to read around a hit.

    Args:
        strategy: isolated, window or document.
        n: chunks in the document.
        index: the hit's chunk.
        window: window size in chunks, at least 1.
        limit: most chunks worth reading, at least 1: keeps ``document`` from reading a whole
            book of which a few pages fit.
    """
    if strategy is Strategy.DOCUMENT:
        return window_span(n, index, limit)
    return window_span(n, index, window if strategy is Strategy.WINDOW else 1)


def merge_size(strategy: Strategy, window: int) -> int:
    """The window size by which spans that touch are merged, or not."""
    if strategy is Strategy.DOCUMENT:
        return 2
    return window if strategy is Strategy.WINDOW else 1


@dataclass(frozen=True, slots=True)
class Choice:
    """What fits: spans by their best hit, and what was left out.

    Attributes:
        clip: tokens to which the single span must be clipped around its match, if even the
            best hit alone does not fit.
    """

    spans: tuple[Span, ...]
    clip: int | None
    hits_left_out: int
    neighbours_left_out: int


class Chooser:
    """Fills a budget with chunks. One instance serves one question.

    Args:
        hits: ranked, best first.
        reaches: for each hit, the chunks it wants (see :func:`reach`).
        texts: spans that cover all of ``reaches``.
        size: as from :func:`merge_size`.
        count: what a text costs of the budget, in tokens.
    """

    def __init__(
        self,
        hits: Sequence[Hit],
        reaches: Sequence[range],
        texts: Sequence[SpanText],
        size: int,
        count: CountTokens,
    ) -> None:
        self._hits = hits
        self._reaches = reaches
        self._size = size
        self._count = count
        self._texts = texts
        self._place = {
            (text.document_id, chunk.index): (text, at)
            for text in texts
            for at, chunk in enumerate(text.chunks)
        }
        self._chosen: dict[str, set[int]] = {}
        self._cost: dict[str, int] = {}
        self._counted: dict[tuple[str, int, int], int] = {}
        self._walked: list[Hit] = []

    def fill(self, budget: int) -> Choice:
        """Walk the hits by rank; trim the first window that does not fit, then stop."""
        looked_at = 0
        for hit, wanted in zip(self._hits, self._reaches, strict=True):
            looked_at += 1
            if self._try(hit, wanted, budget):
                self._walked.append(hit)
                continue
            if self._try(hit, [hit.index], budget):
                self._walked.append(hit)
                for index in _nearest_first(hit.index, wanted):
                    if not self._try(hit, [index], budget):
                        break
            break
        return self._choice(budget, asked=looked_at)

    def all_hits(self, budget: int) -> Choice:
        """Take every hit, then neighbours, nearest first and by rank, while they fit."""
        for hit in self._hits:
            if not self._try(hit, [hit.index], budget):
                break
            self._walked.append(hit)
        if len(self._walked) == len(self._hits):
            neighbours = sorted(
                (abs(index - hit.index), rank, step, index)
                for rank, (hit, wanted) in enumerate(zip(self._hits, self._reaches, strict=True))
                for step, index in enumerate(_nearest_first(hit.index, wanted))
            )
            for _, rank, _, index in neighbours:
                if not self._try(self._hits[rank], [index], budget):
                    break
        return self._choice(budget, asked=len(self._hits))

    def _try(self, hit: Hit, indices: Sequence[int], budget: int) -> bool:
        """Add chunks to those chosen if the whole still fits."""
        document = hit.document_id
        chosen = self._chosen.get(document, set())
        wider = chosen.union(indices)
        if wider == chosen:
            return True
        cost = sum(self._tokens(document, span) for span in self._merged(wider))
        others = sum(self._cost.values()) - self._cost.get(document, 0)
        if others + cost > budget:
            return False
        self._chosen[document] = wider
        self._cost[document] = cost
        return True

    def _merged(self, indices: set[int]) -> list[range]:
        return merge_spans([range(i, i + 1) for i in indices], self._size)

    def _tokens(self, document: str, span: range) -> int:
        key = (document, span.start, span.stop)
        if key not in self._counted:
            self._counted[key] = self._count(self.cut(document, span.start, span.stop - 1).text)
        return self._counted[key]

    def cut(self, document: str, first: int, last: int) -> SpanText:
        """Chunks ``first`` to ``last`` out of the texts that were read."""
        text, at = self._place[document, first]
        chunks = text.chunks[at : at + last - first + 1]
        base = text.chunks[0].start
        return SpanText(document, chunks, text.text[chunks[0].start - base : chunks[-1].end - base])

    def _choice(self, budget: int, asked: int) -> Choice:
        walked = self._walked or list(self._hits[:1])
        clip = budget if self._hits and not self._walked else None
        if clip is not None:
            self._chosen = {walked[0].document_id: {walked[0].index}}
        rank = {(hit.document_id, hit.index): at for at, hit in reversed([*enumerate(walked)])}
        spans = []
        for document, indices in self._chosen.items():
            for span in self._merged(indices):
                matches = tuple(i for i in span if (document, i) in rank)
                best = min(rank[document, i] for i in matches)
                spans.append((best, Span(document, span.start, span.stop - 1, matches)))
        wanted = {
            (hit.document_id, index)
            for hit, reached in zip(self._hits[:asked], self._reaches, strict=False)
            for index in reached
        }
        hits_asked = {(hit.document_id, hit.index) for hit in self._hits[:asked]}
        sent = {(document, index) for document, chosen in self._chosen.items() for index in chosen}
        return Choice(
            tuple(span for _, span in sorted(spans, key=lambda pair: pair[0])),
            clip,
            len(hits_asked - sent),
            len(wanted - sent - hits_asked),
        )


def _nearest_first(index: int, wanted: range) -> list[int]:
    """The neighbours of ``index`` in ``wanted``, nearest first, the one before it first."""
    return sorted((i for i in wanted if i != index), key=lambda i: (abs(i - index), i))
