"""Domain values to table rows and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sqlalchemy import Row

from rag.domain import (
    Chunk,
    ChunkSettings,
    Collection,
    Document,
    DocumentText,
    Heading,
    Status,
)
from rag.ports import Vectors

_STORED = np.dtype("<f2")


def to_collection(row: Row[*tuple[Any, ...]]) -> Collection:
    """Read a row of ``collections``."""
    return Collection(
        id=row.id,
        owner=row.owner,
        name=row.name,
        chunking=ChunkSettings(tokens=row.chunk_tokens, overlap=row.chunk_overlap),
        embedding_model=row.embedding_model,
        created_at=row.created_at,
    )


def from_document(document: Document) -> dict[str, Any]:
    """Make a row of ``documents``."""
    return {
        "id": document.id,
        "owner": document.owner,
        "collection_id": document.collection_id,
        "name": document.name,
        "source": document.source,
        "sha256": document.sha256,
        "media_type": document.media_type,
        "bytes": document.bytes,
        "status": document.status.value,
        "chunks": document.chunks,
        "tokens": document.tokens,
        "pages": document.pages,
        "warnings": list(document.warnings),
        "added_at": document.added_at,
    }


def to_document(row: Row[*tuple[Any, ...]]) -> Document:
    """Read a row of ``documents``."""
    fields = dict(row._mapping)
    fields["status"] = Status(row.status)
    fields["warnings"] = tuple(row.warnings)
    return Document(**fields)


def from_text(owner: str, document_id: str, text: DocumentText) -> dict[str, Any]:
    """Make a row of ``document_texts``."""
    return {
        "document_id": document_id,
        "owner": owner,
        "page_starts": list(text.page_starts),
        "headings": [[heading.start, heading.level, heading.title] for heading in text.headings],
        "text": text.text,
    }


def to_text(row: Row[*tuple[Any, ...]]) -> DocumentText:
    """Read a row of ``document_texts``."""
    return DocumentText(
        text=row.text,
        page_starts=tuple(row.page_starts),
        headings=tuple(Heading(*heading) for heading in row.headings),
    )


def from_chunks(
    owner: str, document_id: str, chunks: Sequence[Chunk], vectors: Vectors
) -> list[dict[str, Any]]:
    """Make rows of ``chunks``; ``vectors`` has one row for each."""
    stored = np.ascontiguousarray(vectors, dtype=_STORED)
    return [
        {
            "document_id": document_id,
            "chunk_index": chunk.index,
            "owner": owner,
            "char_start": chunk.start,
            "char_end": chunk.end,
            "tokens": chunk.tokens,
            "page": chunk.page,
            "section": chunk.section,
            "vector": vector.tobytes(),
        }
        for chunk, vector in zip(chunks, stored, strict=True)
    ]


def to_chunk(row: Row[*tuple[Any, ...]], text: str, text_start: int = 0) -> Chunk:
    """Read a row of ``chunks`` and cut its text out of ``text``.

    Args:
        row: at least index, offsets, tokens, page and section.
        text: of the document, or a part that covers the chunk.
        text_start: offset in the document at which ``text`` starts.
    """
    return Chunk(
        index=row.chunk_index,
        start=row.char_start,
        end=row.char_end,
        text=text[row.char_start - text_start : row.char_end - text_start],
        tokens=row.tokens,
        page=row.page,
        section=row.section,
    )


def to_vectors(stored: Sequence[bytes]) -> Vectors:
    """Read vectors in order: float32, of length 1 again after having been rounded."""
    if not stored:
        return np.zeros((0, 0), dtype=np.float32)
    rows = np.frombuffer(b"".join(stored), dtype=_STORED).reshape(len(stored), -1)
    vectors = rows.astype(np.float32)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    # A vector of zeros (there are none in a sound library) has no direction to keep.
    lengths[lengths == 0] = 1
    vectors /= lengths
    return vectors
