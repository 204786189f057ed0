"""Which format a file is in. Its content decides; its name only tells kinds of text apart."""

from __future__ import annotations

import io
import re
import zipfile

from rag.adapters.readers.formats import (
    DOCX,
    HTML,
    MARKDOWN,
    PDF,
    TEXT,
    Format,
    accepted_formats,
)
from rag.adapters.readers.source import Source
from rag.errors import UnreadableDocument, UnsupportedFormat

_ZIP = b"PK\x03\x04"
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_KNOWN = (
    (b"\x89PNG\r\n", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF8", "a GIF image"),
    (b"II*\0", "a TIFF image"),
    (b"MM\0*", "a TIFF image"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive"),
    (b"Rar!\x1a", "a RAR archive"),
    (b"{\\rtf", "a Rich Text document"),
    (b"%!PS", "a PostScript file"),
    (b"SQLite format 3\0", "an SQLite database"),
    (b"\x7fELF", "a program"),
)
_ZIPPED = (
    ("xl/", "an Excel workbook"),
    ("ppt/", "a PowerPoint presentation"),
    ("META-INF/container.xml", "an EPUB book"),
    ("content.xml", "an OpenDocument file"),
)
_HEAD = 4096
_MARKS = re.compile("^(?:\u00ef\u00bb\u00bf|\u00ff\u00fe|\u00fe\u00ff)")
_PREAMBLE = re.compile(r"(?:\s+|<!--.*?-->|<\?xml[^>]*>)+", re.DOTALL)
_HTML = re.compile(r"<(?:!doctype\s+html|html|head|body)\b", re.IGNORECASE)
_HTML_PART = re.compile(
    r"<(?:title|meta|link|style|script|table|div|h[1-6]|p|ul|ol|section|article|main)\b[^>]*>",
    re.IGNORECASE,
)


def detect(source: Source) -> Format:
    """Return the format of a file.

    Raises:
        UnsupportedFormat: there is no reader for it.
        UnreadableDocument: it is a protected or damaged file of a kind that could be read.
    """
    data = source.data
    if _is_pdf(data):
        return PDF
    if data.startswith(_ZIP):
        return _in_zip(source)
    if data.startswith(_OLE):
        if "EncryptedPackage".encode("utf-16-le") in data:
            raise UnreadableDocument(
                f"{source.name} is protected with a password. Save it without the password and "
                "add it again."
            )
        raise unsupported(source, "a file of an older Microsoft Office")
    for signature, what in _KNOWN:
        if data.startswith(signature):
            raise unsupported(source, what)
    return _kind_of_text(source)


def unsupported(source: Source, what: str = "") -> UnsupportedFormat:
    """Return the error for a file without a reader; ``what`` says what it is, if known."""
    known = f": it is {what}" if what else ""
    return UnsupportedFormat(
        f"{source.name} is not a kind of file that can be read{known}. Save it as one of these "
        f"and add that: {accepted_formats()}."
    )


def _is_pdf(data: bytes) -> bool:
    head = data[:1024]
    if head.lstrip(b"\xef\xbb\xbf \t\r\n\0").startswith(b"%PDF-"):
        return True
    # Something stands before the header, as mail gateways leave it; text about PDF is no PDF.
    return b"%PDF-" in head and b"%%EOF" in data[-2048:] and b" obj" in data


def _in_zip(source: Source) -> Format:
    try:
        with zipfile.ZipFile(io.BytesIO(source.data)) as archive:
            names = archive.namelist()
    except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError) as error:
        raise UnreadableDocument(
            f"{source.name} is damaged: it is an Office or ZIP file that breaks off. Get it anew "
            "from where it came from and add that."
        ) from error
    if "[Content_Types].xml" in names and any(name.startswith("word/") for name in names):
        return DOCX
    for start, what in _ZIPPED:
        if any(name.startswith(start) for name in names):
            raise unsupported(source, what)
    raise unsupported(source, "a ZIP archive")


def _kind_of_text(source: Source) -> Format:
    # Zero bytes go, so that the tags of UTF-16 are seen as well.
    head = _MARKS.sub("", source.data[:_HEAD].replace(b"\0", b"").decode("latin-1"))
    start = _PREAMBLE.sub("", head, count=1) if _PREAMBLE.match(head) else head
    if _HTML.match(start) or source.extension in HTML.extensions:
        return HTML
    if source.extension in MARKDOWN.extensions:
        return MARKDOWN
    if source.extension not in TEXT.extensions and _HTML_PART.match(start):
        return HTML
    return TEXT
