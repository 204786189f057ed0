"""Markdown: the text as it was written, and its headings.

Only the bytes of pictures written into the text are left out: they are no text, and a single
one would fill hundreds of chunks.
"""

from __future__ import annotations

import re
from dataclasses import replace

from rag.adapters.readers import plain_text
from rag.adapters.readers.headings import LONGEST, find_headings
from rag.adapters.readers.source import Source
from rag.domain import ExtractedText

MEDIA_TYPE = "text/markdown"

_INLINED = re.compile(r"(data:[\w.+-]+/[\w.+-]+(?:;[\w=.+-]+)*;base64,)[A-Za-z0-9+/=_-]{64,}")


def read(source: Source) -> ExtractedText:
    """Read a Markdown file. Raises ``NotText`` if its bytes are not text."""
    plain = plain_text.read(source)
    text, inlined = _INLINED.subn(r"\1", plain.text)
    warnings = list(plain.warnings)
    if inlined:
        pictures = "1 picture" if inlined == 1 else f"{inlined:,} pictures"
        warnings.append(f"{pictures} written into the text left out.")
    if len(text) > LONGEST:
        warnings.append("The text is too long to look for its headings; sections have no names.")
    return replace(
        plain,
        text=text,
        media_type=MEDIA_TYPE,
        headings=find_headings(text),
        warnings=tuple(warnings),
    )
