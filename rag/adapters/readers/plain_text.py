"""Plain text: every character as it is, newlines included; only endless blanks are shortened."""

from __future__ import annotations

from rag.adapters.readers.characters import (
    blank_warnings,
    clean,
    decode,
    removal_warnings,
    shorten_blanks,
)
from rag.adapters.readers.source import Source
from rag.domain import ExtractedText

MEDIA_TYPE = "text/plain"


def read(source: Source) -> ExtractedText:
    """Read a text file. Raises ``NotText`` if its bytes are not text."""
    decoded = decode(source.data)
    text, removed = clean(decoded.text)
    text, shortened = shorten_blanks(text)
    return ExtractedText(
        text=text,
        media_type=MEDIA_TYPE,
        warnings=(*decoded.warnings, *removal_warnings(removed), *blank_warnings(shortened)),
    )
