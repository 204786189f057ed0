"""The one table of formats: it chooses readers, feeds the upload box and words the messages.

A new format is a row here and a small module with a ``read`` function.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rag.adapters.readers import docx, markdown, pdf, plain_text, web_page
from rag.adapters.readers.source import Source
from rag.domain import ExtractedText


@dataclass(frozen=True, slots=True)
class Format:
    """A kind of file that can be read.

    Attributes:
        label: its name in messages.
        media_type: its IANA media type.
        extensions: lower case, with their dots, the usual one first.
        read: the reader; raises ``DocumentError`` or ``NotText``.
    """

    label: str
    media_type: str
    extensions: tuple[str, ...]
    read: Callable[[Source], ExtractedText]


PDF = Format("PDF", pdf.MEDIA_TYPE, (".pdf",), pdf.read)
DOCX = Format("Word", docx.MEDIA_TYPE, (".docx", ".docm", ".dotx"), docx.read)
HTML = Format("HTML", web_page.MEDIA_TYPE, (".html", ".htm", ".xhtml"), web_page.read)
MARKDOWN = Format("Markdown", markdown.MEDIA_TYPE, (".md", ".markdown", ".mdown"), markdown.read)
TEXT = Format("text", plain_text.MEDIA_TYPE, (".txt", ".text", ".log", ".rst"), plain_text.read)

FORMATS = (PDF, DOCX, HTML, MARKDOWN, TEXT)


def accepted_extensions() -> tuple[str, ...]:
    """Return the extensions of all formats, lower case and with their dots."""
    return tuple(extension for row in FORMATS for extension in row.extensions)


def accepted_formats() -> str:
    """Return the formats as a phrase: ``PDF (.pdf), Word (.docx), …``."""
    return ", ".join(f"{row.label} ({row.extensions[0]})" for row in FORMATS)
