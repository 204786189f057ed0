"""Cuts a text into chunks: exact slices, bounded by the embedding model's own tokens.

The text is tokenized once, with offsets. From each start the chunk may reach as far as its
token limit; it ends at the last border of the strongest kind that fills it well enough:
section, paragraph, sentence or list item, line, clause, word. Where none does (scripts without
spaces, base64, minified code) it ends between two grapheme clusters. White space belongs to the
chunk before it, so that chunks without overlap rebuild the text.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

import regex

from rag.domain import Chunk, ChunkSettings, Heading
from rag.errors import SettingsError
from rag.ports import Tokenizer

MAX_CHARS = 2000
"""No chunk is longer than this, whatever its tokens: WordPiece counts a run of more than 100
letters without a space as a single unknown token, and white space as none."""

MIN_TOKENS = 8
"""Smallest chunk size that can be set."""

_LONGEST_TOKEN = 16
_UNKNOWN_CHARS = 4
"""A token longer than ``_LONGEST_TOKEN`` characters is an unknown word; it is counted as one for
every so many characters, so that scripts without spaces get chunks of a useful size."""

_NL = r"(?>\r\n|\n|\r|\x0c|\x85|\u2028|\u2029)"
_ABBREVIATION = (
    r"(?<!\b(?:\p{Lu}|[Dd]r|[Mm]r|[Mm]rs|[Mm]s|[Pp]rof|[Ss]t|[Nn]o|[Ff]ig|[Ee]q|[Vv]s|[Cc]f|[Aa]pprox"
    r"|[Cc]a|e\.g|i\.e|z\.B|d\.h|bzw|u\.a|vol|pp|al))"
)

# Strongest first: pattern whose match ends at the border, and the smallest share of the limit
# that the chunk must fill for a border of this kind to be taken.
_BORDERS: tuple[tuple[str, float], ...] = (
    (rf"{_NL}[^\S\r\n]*{_NL}\s*|\x0c\s*|\u2029\s*", 0.25),
    (
        rf"{_ABBREVIATION}[.!?…]+[\"'”’»)\]*_]*\s+(?!\p{{Ll}})"
        r"|[。！？｡．]+[」』）”’\"]*\s*"
        r"|[।॥؟۔።།]+[\"'”’»)\]]*\s*"
        rf"|{_NL}\s*(?=[-*+•–]\s|\d+[.)]\s|\|)",
        0.25,
    ),
    (rf"{_NL}\s*", 0.5),
    (r"[,;:—]\s+|[、，；：،؛]\s*", 0.5),
    (r"\s+", 0.5),
)
_PATTERNS = tuple((regex.compile(pattern), fill) for pattern, fill in _BORDERS)
_SECTION_FILL = 0.25
_CLUSTER = regex.compile(r"\X")
_LINE = regex.compile(rf"[^\r\n\x0c\x85\u2028\u2029]*{_NL}?\s*")
_EXTENDS = regex.compile(r"[\p{M}\u200d\ufe00-\ufe0f\U0001F3FB-\U0001F3FF\U000E0020-\U000E007F]")


def validate(settings: ChunkSettings, max_tokens: int) -> None:
    """Check chunk settings against what the embedding model reads.

    Raises:
        SettingsError: a value is out of range; the message gives the range.
    """
    if not MIN_TOKENS <= settings.tokens <= max_tokens:
        raise SettingsError(
            f"A chunk size of {settings.tokens} tokens is not possible with this embedding model. "
            f"Choose {MIN_TOKENS} to {max_tokens}."
        )
    if not 0 <= settings.overlap <= settings.tokens // 2:
        raise SettingsError(
            f"An overlap of {settings.overlap} tokens is not possible with chunks of "
            f"{settings.tokens}. Choose 0 to {settings.tokens // 2}."
        )


def chunk_text(
    text: str,
    settings: ChunkSettings,
    tokenizer: Tokenizer,
    *,
    headings: Sequence[Heading] = (),
    page_starts: Sequence[int] = (),
) -> list[Chunk]:
    """Cut ``text`` into chunks in reading order.

    Every chunk is ``text[start:end]``, has at most ``settings.tokens`` tokens and ``MAX_CHARS``
    characters, and is not blank. Starts and ends rise strictly. Without overlap the chunks
    rebuild the text; only white space longer than ``MAX_CHARS`` lies in no chunk.

    Raises:
        ValueError: ``settings`` are out of range (see :func:`validate`).
    """
    if settings.tokens < MIN_TOKENS or not 0 <= settings.overlap <= settings.tokens // 2:
        raise ValueError(f"chunk settings out of range: {settings}")
    spans = _Splitter(text, settings, tokenizer, headings).spans()
    spans = [(start, end) for start, end in spans if not text[start:end].isspace()]
    counts = tokenizer.count([text[start:end] for start, end in spans])
    # A cut inside a long word can give its pieces more tokens than they had together.
    while any(count > settings.tokens for count in counts):
        smaller: list[tuple[int, int]] = []
        for (start, end), count in zip(spans, counts, strict=True):
            if count <= settings.tokens:
                smaller.append((start, end))
                continue
            pieces = _Splitter(text[start:end], settings, tokenizer, ()).spans()
            if len(pieces) == 1:
                pieces = [(0, (end - start) // 2), ((end - start) // 2, end - start)]
            smaller.extend((start + a, start + b) for a, b in pieces)
        spans = _without_contained(smaller)
        counts = tokenizer.count([text[start:end] for start, end in spans])
    sections = _sections(headings)
    heading_starts = [heading.start for heading in headings]
    chunks = []
    for index, ((start, end), count) in enumerate(zip(spans, counts, strict=True)):
        ink = _first_ink(text, start)
        page, section = page_of(page_starts, ink), sections[bisect_right(heading_starts, ink)]
        chunks.append(Chunk(index, start, end, text[start:end], count, page, section))
    return chunks


def _without_contained(spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Leave out spans that lie inside another: a piece of one may lie in the next's overlap."""
    kept: list[tuple[int, int]] = []
    for start, end in sorted(spans, key=lambda span: (span[0], -span[1])):
        if not kept or end > kept[-1][1]:
            kept.append((start, end))
    return kept


def unit_offsets(text: str, tokenizer: Tokenizer) -> list[tuple[int, int]]:
    """Return (start, end) of what a text is measured in: its tokens, long unknown ones in parts.

    A run of letters without a space is a single unknown token to WordPiece however long it is,
    but not to a language model. Starts never fall: a Korean syllable is two or three tokens.
    """
    units: list[tuple[int, int]] = []
    for start, end in tokenizer.offsets(text):
        step = _UNKNOWN_CHARS if end - start > _LONGEST_TOKEN else max(1, end - start)
        units.extend((at, min(at + step, end)) for at in range(start, end, step))
    return units


def measure(text: str, tokenizer: Tokenizer) -> int:
    """Return what a text costs of a budget, in tokens.

    It is the tokenizer's own count, except that long unknown words and long white space, which
    it counts as one or none, cost as much as a language model pays for them.
    """
    return max(len(unit_offsets(text, tokenizer)), -(-len(text) // _LONGEST_TOKEN))


def page_of(page_starts: Sequence[int], position: int) -> int | None:
    """Return the 1-based page that holds ``position``; ``None`` for a text without pages."""
    return max(1, bisect_right(page_starts, position)) if page_starts else None


def _first_ink(text: str, start: int) -> int:
    while start < len(text) and text[start].isspace():
        start += 1
    return start


def _sections(headings: Sequence[Heading]) -> list[str | None]:
    """Section path in force before the first heading, and from each heading on."""
    paths: list[str | None] = [None]
    stack: list[Heading] = []
    for heading in headings:
        while stack and stack[-1].level >= heading.level:
            stack.pop()
        stack.append(heading)
        paths.append(" > ".join(h.title for h in stack))
    return paths


class _Splitter:
    """Borders of one text, and the walk over them."""

    def __init__(
        self,
        text: str,
        settings: ChunkSettings,
        tokenizer: Tokenizer,
        headings: Sequence[Heading],
    ) -> None:
        self.text = text
        self.settings = settings
        self.units = [start for start, _ in unit_offsets(text, tokenizer)]
        section_starts = sorted({h.start for h in headings})
        # A heading stays with what follows it.
        lines = (_LINE.match(text, start) for start in section_starts)
        after_heading = {line.end() for line in lines if line is not None}
        after_heading.difference_update(section_starts)
        self.levels: list[tuple[list[int], float]] = [(section_starts, _SECTION_FILL)]
        for pattern, fill in _PATTERNS:
            ends = [m.end() for m in pattern.finditer(text)]
            self.levels.append(
                ([e for e in ends if e not in after_heading and self._clean(e)], fill)
            )

    def _clean(self, position: int) -> bool:
        """Whether ``position`` is not inside a grapheme cluster."""
        return position >= len(self.text) or not _EXTENDS.match(self.text, position)

    def spans(self) -> list[tuple[int, int]]:
        """The chunks as (start, end), blank ones included."""
        spans: list[tuple[int, int]] = []
        start, end = 0, 0
        while end < len(self.text):
            end = self._end(start, end)
            spans.append((start, end))
            start = self._next_start(start, end)
        return spans

    def _end(self, start: int, after: int) -> int:
        """Where the chunk from ``start`` ends: beyond ``after``, the end of the one before."""
        text, size = self.text, self.settings.tokens
        first = bisect_left(self.units, start)
        reach = self.units[first + size] if first + size < len(self.units) else len(text)
        reach = max(min(reach, start + MAX_CHARS), after + 1)
        if reach == len(text):
            return reach
        for positions, fill in self.levels:
            at = bisect_right(positions, reach) - 1
            if at >= 0 and positions[at] > after:
                filled = bisect_left(self.units, positions[at]) - first
                if filled >= fill * size:
                    return positions[at]
        return self._cluster_border(max(start, after), reach)

    def _cluster_border(self, low: int, high: int) -> int:
        """The last border between grapheme clusters in (low, high]; ``high`` if there is none."""
        # Clusters are found from a safe place a little before; a longer one is cut anyway.
        begin = max(low, high - 64)
        while begin > low and not self._clean(begin):
            begin -= 1
        best = begin
        for match in _CLUSTER.finditer(self.text, begin):
            if match.end() > high:
                break
            best = match.end()
        return best if best > low else high

    def _next_start(self, start: int, end: int) -> int:
        """Where the next chunk starts: at ``end``, or up to ``overlap`` tokens before it."""
        if not self.settings.overlap or end >= len(self.text):
            return end
        at = bisect_left(self.units, end) - self.settings.overlap
        earliest = max(self.units[at] if at > 0 else 0, start + 1)
        for positions, _ in self.levels[2:]:
            index = bisect_left(positions, earliest)
            if index < len(positions) and positions[index] < end:
                return positions[index]
        while earliest < end and not self._clean(earliest):
            earliest += 1
        return earliest
