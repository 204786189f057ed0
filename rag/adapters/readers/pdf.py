"""PDF: text by pages. A page without text is named, a file without text is refused."""

from __future__ import annotations

from collections.abc import Sequence

from rag.adapters.readers.blocks import assemble
from rag.adapters.readers.characters import removal_warnings
from rag.adapters.readers.source import Source
from rag.adapters.readers.structure import Unparsable, parse
from rag.domain import ExtractedText
from rag.errors import NoText, UnreadableDocument

MEDIA_TYPE = "application/pdf"


def read(source: Source) -> ExtractedText:
    """Read a PDF; one whose user password is empty opens by itself.

    Raises:
        UnreadableDocument: it is damaged or protected with a password.
        NoText: no page has text.
    """
    try:
        found = parse(source.data, MEDIA_TYPE)
    except Unparsable as error:
        if "password" in str(error):
            raise UnreadableDocument(
                f"{source.name} is protected with a password. Save it without the password and "
                "add it again."
            ) from error
        raise UnreadableDocument(
            f"{source.name} is damaged and cannot be read as a PDF. Open it in a PDF viewer, save "
            "or print it as a new PDF and add that."
        ) from error
    assembled = assemble(found.blocks, found.pages)
    if not assembled.text:
        pages = "its only page" if found.pages == 1 else f"its {found.pages} pages"
        raise NoText(
            f"{source.name} has no text on {pages}: it is probably a scan, or else damaged. Run "
            "text recognition (OCR) on it and add the result."
        )
    warnings = removal_warnings(assembled.removed)
    if assembled.empty_pages:
        warnings += (_without_text(assembled.empty_pages, found.pages),)
    return ExtractedText(
        text=assembled.text,
        media_type=MEDIA_TYPE,
        page_starts=assembled.page_starts,
        headings=assembled.headings,
        warnings=warnings,
    )


def _without_text(pages: Sequence[int], total: int) -> str:
    if len(pages) == 1:
        return f"Page {pages[0]} of {total} has no text; it is blank or a scan."
    return f"Pages {_ranges(pages)} of {total} have no text; they are blank or scans."


def _ranges(numbers: Sequence[int]) -> str:
    """Write rising numbers with their runs joined: 2, 5-7."""
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)
