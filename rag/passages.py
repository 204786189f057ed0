"""From chosen spans to passages: numbered slices of documents, with their hits marked."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence

from rag.chunking import measure, unit_offsets
from rag.domain import Document, Hit, Passage, Segment, Span, SpanText
from rag.ports import Tokenizer

_WORD = re.compile(r"\w+")


def build_passages(
    spans: Sequence[Span],
    texts: Sequence[SpanText],
    hits: Sequence[Hit],
    documents: Mapping[str, Document],
    tokenizer: Tokenizer,
    *,
    question: str,
    clip: int | None = None,
) -> tuple[Passage, ...]:
    """Number ``spans`` in the order given and cut their text.

    Args:
        spans: ordered by their best hit.
        texts: the text of each span, in the same order.
        hits: gives each passage the score of its best hit.
        documents: titles, by id.
        tokenizer: counts the tokens of each passage.
        question: where to clip.
        clip: most tokens of a passage; a longer one is cut to the part that shares the most
            words with the question. ``None``: nothing is cut.
    """
    scores = {(hit.document_id, hit.index): hit.score for hit in hits}
    passages = []
    for number, (span, read) in enumerate(zip(spans, texts, strict=True), start=1):
        base = read.chunks[0].start
        low, high = 0, len(read.text)
        if clip is not None:
            low, high = clip_to_match(read.text, question, clip, tokenizer)
        text = read.text[low:high]
        matched = [
            (max(chunk.start - base, low) - low, min(chunk.end - base, high) - low)
            for chunk in read.chunks
            if chunk.index in span.matches
        ]
        passages.append(
            Passage(
                number=number,
                document_id=span.document_id,
                title=documents[span.document_id].name,
                first=span.first,
                last=span.last,
                matches=span.matches,
                start=base + low,
                end=base + high,
                text=text,
                tokens=tokenizer.count([text])[0],
                page=read.chunks[0].page,
                last_page=read.chunks[-1].page,
                section=read.chunks[0].section,
                score=max(scores[span.document_id, index] for index in span.matches),
                segments=segments(text, matched),
            )
        )
    return tuple(passages)


def segments(text: str, matched: Iterable[tuple[int, int]]) -> tuple[Segment, ...]:
    """Cut ``text`` at the borders of the ``matched`` (start, end) ranges, which may overlap.

    Joined, the segments are ``text``; none is empty.
    """
    pieces: list[Segment] = []
    done = 0
    for start, end in sorted(matched):
        start = max(start, done)
        if end <= start:
            continue
        if start > done:
            pieces.append(Segment(text[done:start], False))
        if pieces and pieces[-1].is_match:
            pieces[-1] = Segment(pieces[-1].text + text[start:end], True)
        else:
            pieces.append(Segment(text[start:end], True))
        done = end
    if done < len(text):
        pieces.append(Segment(text[done:], False))
    return tuple(pieces)


def clip_to_match(text: str, question: str, limit: int, tokenizer: Tokenizer) -> tuple[int, int]:
    """Return (start, end) of the part of ``text`` of at most ``limit`` tokens that shares the
    most different words with ``question``, with those words in its middle; of equal parts the
    first."""
    if measure(text, tokenizer) <= limit:
        return 0, len(text)
    offsets = unit_offsets(text, tokenizer) or [(0, len(text))]
    most, limit = limit, min(limit, len(offsets))
    ends = [end for _, end in offsets]

    def token_at(position: int) -> int:
        return min(bisect_right(ends, position), len(offsets) - 1)

    asked = {word.lower() for word in _WORD.findall(question)}
    found = [(m.start(), m.end(), m.group().lower()) for m in _WORD.finditer(text)]
    found = [word for word in found if word[2] in asked]
    best, best_words = (0, limit - 1), -1
    # Only windows that start or end with a shared word, or at the beginning, can be best.
    starts = {0}
    for start, end, _ in found:
        starts.update((token_at(start), max(0, token_at(end - 1) - limit + 1)))
    for first in sorted(min(s, len(offsets) - limit) for s in starts):
        low, high = offsets[first][0], offsets[first + limit - 1][1]
        inside = [word for word in found if word[0] >= low and word[1] <= high]
        words = len({word for _, _, word in inside})
        if words > best_words:
            best, best_words = (first, first + limit - 1), words
            if inside:
                best = (token_at(inside[0][0]), token_at(inside[-1][1] - 1))
    first = max(0, min((best[0] + best[1] - limit + 1) // 2, len(offsets) - limit))
    low, high = offsets[first][0], offsets[first + limit - 1][1]
    # A cut inside a word can give its pieces more tokens than they had: make room for them.
    while measure(text[low:high], tokenizer) > most and high - low > 1:
        limit -= 1
        high = offsets[first + limit - 1][1] if limit > 0 else (low + high) // 2
    return low, high
