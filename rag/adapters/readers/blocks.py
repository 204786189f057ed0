"""How the blocks of a document (headings, paragraphs, rows of a table) become one text.

The text is Markdown as far as structure goes (headings, lists, tables, code) and plain as far
as words go: nothing is escaped and nothing inside a line is marked up, since the text is
matched, quoted and shown as it is. Offsets of pages and headings are known because the text is
put together here; they are never searched for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rag.adapters.readers.characters import clean
from rag.domain import Heading

_DEEPEST = 8
"""Lists and quotations that nest deeper look like this depth; hostile ones nest without end."""


@dataclass(frozen=True, slots=True)
class Block:
    """A block of a document, as Markdown.

    Attributes:
        text: its lines; for a heading the bare title.
        page: 1-based page it starts on, where that is known.
        level: 1 to 6 for a heading, otherwise 0.
        tight: no blank line between it and the block before, as between the items of a list.
    """

    text: str
    page: int | None = None
    level: int = 0
    tight: bool = False


@dataclass(frozen=True, slots=True)
class Assembled:
    """Blocks put together.

    Attributes:
        text: the whole text.
        page_starts: offset of every page; a page without text starts where the next one does.
        headings: all headings, in order.
        empty_pages: 1-based numbers of the pages without text.
        removed: number of characters that could not be kept.
    """

    text: str
    page_starts: tuple[int, ...]
    headings: tuple[Heading, ...]
    empty_pages: tuple[int, ...]
    removed: int


def assemble(blocks: Iterable[Block], pages: int = 0) -> Assembled:
    """Join blocks in the order given, which is reading order.

    Args:
        blocks: the blocks; those without text are left out.
        pages: number of pages of the document, 0 if it has none.
    """
    parts: list[str] = []
    starts: list[int] = []
    headings: list[Heading] = []
    filled: set[int] = set()
    position = removed = 0
    for block in blocks:
        text, dropped = clean(block.text)
        removed += dropped
        title = " ".join(text.split())
        if not title:
            continue
        text = f"{'#' * block.level} {title}" if block.level else text.strip("\r\n")
        if parts:
            gap = "\n" if block.tight else "\n\n"
            parts.append(gap)
            position += len(gap)
        if pages:
            # Page numbers never fall, whatever a file claims.
            page = min(max(block.page or 1, len(starts), 1), pages)
            starts += [position if starts else 0] * (page - len(starts))
            filled.add(page)
        if block.level:
            headings.append(Heading(start=position, level=block.level, title=title))
        parts.append(text)
        position += len(text)
    starts += [position] * (pages - len(starts))
    return Assembled(
        text="".join(parts),
        page_starts=tuple(starts),
        headings=tuple(headings),
        empty_pages=tuple(page for page in range(1, pages + 1) if page not in filled),
        removed=removed,
    )


def table(rows: Sequence[Sequence[str]]) -> str:
    """Write a table as Markdown, its first row as the header; short rows are filled up."""
    width = max(map(len, rows), default=0)
    lines = [
        "| " + " | ".join(_cell(row[i]) if i < len(row) else "" for i in range(width)) + " |"
        for row in rows
    ]
    lines[1:1] = ["| " + " | ".join(["---"] * width) + " |"]
    return "\n".join(lines)


def code(text: str, language: str = "") -> str:
    """Write code as a fenced block whose fence is longer than any inside."""
    runs = [len(run) for run in re.findall("`{3,}", text)]
    fence = "`" * max([3, *(run + 1 for run in runs)])
    body = text.strip("\r\n")
    return f"{fence}{language}\n{body}\n{fence}"


def item(text: str, depth: int, marker: str) -> str:
    """Write a list item at ``depth`` (0 is outermost); its further lines are indented."""
    indent = "  " * min(depth, _DEEPEST)
    return f"{indent}{marker} " + text.replace("\n", f"\n{indent}{' ' * (len(marker) + 1)}")


def quote(text: str, depth: int) -> str:
    """Write a quotation, ``depth`` levels deep."""
    mark = "> " * min(depth, _DEEPEST)
    return mark + text.replace("\n", f"\n{mark}")


def _cell(text: str) -> str:
    # A bare bar would shift the columns: the one character that is escaped.
    return re.sub(r"(?<!\\)\|", r"\\|", " ".join(text.split()))
