"""Which lines of a Markdown text are headings.

Block structure is left to markdown-it-py, which follows the CommonMark test suite: it knows
fences, indented code, HTML blocks and underlined headings, and reports the lines of each. A
``#`` in any of these is no heading, and neither is a heading inside a quotation or a list item,
which ends with its container and heads nothing of what follows.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

from rag.domain import Heading

if TYPE_CHECKING:
    from markdown_it.token import Token

LONGEST = 8_000_000
"""Characters beyond which a text is not searched for headings: it would take half a minute."""

_LONGEST_TITLE = 1000
_LONGEST_FRONT_MATTER = 1000
_NEWLINE = re.compile(r"\r\n|\r|\n")
_MAYBE_HEADING = re.compile(r"(?:^|[\r\n])[ \t]*[#=-]")
_FIELD = re.compile(r"[\w\"'.-]+\s*[:=]")


def find_headings(text: str) -> tuple[Heading, ...]:
    """Return the headings of a Markdown text, in order.

    ``start`` is the offset of the line the heading stands on; LF, CRLF and CR end a line alike.
    A text longer than :data:`LONGEST` has none.
    """
    if len(text) > LONGEST or not _MAYBE_HEADING.search(text):
        return ()
    from markdown_it import MarkdownIt

    blocks = MarkdownIt("commonmark").enable("table").disable("inline", ignoreInvalid=True)
    inlines = MarkdownIt("commonmark")
    starts = [0, *(match.end() for match in _NEWLINE.finditer(text)), len(text)]
    skipped = _front_matter_lines(text, starts)
    tokens = blocks.parse(text[starts[skipped] :])
    found = []
    for opening, inline in pairwise(tokens):
        if opening.type != "heading_open" or opening.level or opening.map is None:
            continue
        title = _plain(inlines.parseInline(inline.content[:_LONGEST_TITLE]))
        if title:
            line = starts[skipped + opening.map[0]]
            found.append(Heading(start=line, level=int(opening.tag[1:]), title=title))
    return tuple(found)


def _front_matter_lines(text: str, starts: list[int]) -> int:
    """Return the number of lines of YAML or TOML at the top, its fences counted; 0 for none."""
    lines = [text[start:end].rstrip() for start, end in pairwise(starts[:_LONGEST_FRONT_MATTER])]
    if lines[0] not in ("---", "+++"):
        return 0
    ends = [i for i, line in enumerate(lines) if i and line in (lines[0], "...")]
    fields = [line for line in lines[1 : ends[0]] if line and line[0] != "#"] if ends else []
    # Slides start with a rule as well: without a field in it, it is no front matter.
    return ends[0] + 1 if fields and _FIELD.match(fields[0]) else 0


def _plain(tokens: list[Token]) -> str:
    """Return the words of a title without its markup."""
    words = [
        " " if token.type in ("softbreak", "hardbreak") else token.content
        for token in tokens[0].children or []
        if token.type != "html_inline"
    ]
    return " ".join("".join(words).split())
