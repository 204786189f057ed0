"""Plain text: every character as it is, newlines included."""

from __future__ import annotations

from rag.adapters.readers.characters import clean, decode, removal_warnings
from rag.adapters.readers.source import Source
from rag.domain import ExtractedText

MEDIA_TYPE = "text/plain"


def read(source: Source) -> ExtractedText:
    """Read a text file. Raises ``NotText`` if its bytes are not text."""
    decoded = decode(source.data)
    text, removed = clean(decoded.text)
    return ExtractedText(
        text=text,
        media_type=MEDIA_TYPE,
        warnings=(*decoded.warnings, *removal_warnings(removed)),
    )
