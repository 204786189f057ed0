"""Readers: from the bytes of a file to its text, pages and headings."""

from rag.adapters.readers.file_reader import FileReader
from rag.adapters.readers.formats import accepted_extensions, accepted_formats

__all__ = ["FileReader", "accepted_extensions", "accepted_formats"]
