"""Word documents (DOCX): body in order, headers, footers, notes, comments and text boxes.

Pages are known only if the program that saved the file left marks where they broke.
"""

from __future__ import annotations

from rag.adapters.readers.blocks import assemble
from rag.adapters.readers.characters import removal_warnings
from rag.adapters.readers.source import Source
from rag.adapters.readers.structure import Unparsable, parse
from rag.domain import ExtractedText
from rag.errors import DocumentTooLarge, UnreadableDocument

MEDIA_TYPE = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"


def read(source: Source) -> ExtractedText:
    """Read a Word document.

    Raises:
        UnreadableDocument: it is damaged.
        DocumentTooLarge: unpacked it is beyond what is accepted.
    """
    try:
        found = parse(source.data, MEDIA_TYPE)
    except Unparsable as error:
        if "limit exceeded" in str(error):
            raise DocumentTooLarge(
                f"{source.name} is too large when it is unpacked. Split it and add the parts."
            ) from error
        raise UnreadableDocument(
            f"{source.name} is damaged and cannot be read as a Word document. Open it in a word "
            "processor, save it anew and add that."
        ) from error
    assembled = assemble(found.blocks, found.pages if found.pages > 1 else 0)
    return ExtractedText(
        text=assembled.text,
        media_type=MEDIA_TYPE,
        page_starts=assembled.page_starts,
        headings=assembled.headings,
        warnings=removal_warnings(assembled.removed),
    )
