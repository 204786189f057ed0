"""The JSON that other programs read: one function per shape, fields named for good."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from rag.domain import (
    Answer,
    Chunk,
    Citation,
    Context,
    Document,
    DocumentText,
    Hit,
    Passage,
    Usage,
)

Shape = dict[str, Any]


def document_shape(document: Document) -> Shape:
    """A document in a list. ``added_at`` is ISO 8601 in UTC."""
    return {
        "id": document.id,
        "name": document.name,
        "status": document.status.value,
        "chunks": document.chunks,
        "tokens": document.tokens,
        "bytes": document.bytes,
        "sha256": document.sha256,
        "added_at": datetime.fromtimestamp(document.added_at, UTC).isoformat(),
    }


def added_shape(
    path: str, name: str, status: str, document: Document | None, error: str | None
) -> Shape:
    """What became of one file. A failed one has no id, no chunks and no pages."""
    return {
        "path": path,
        "id": document.id if document else None,
        "name": name,
        "status": status,
        "chunks": document.chunks if document else 0,
        "pages": document.pages if document else 0,
        "warnings": list(document.warnings) if document else [],
        "error": error,
    }


def shown_shape(document: Document, text: DocumentText, chunks: list[Chunk] | None) -> Shape:
    """One document in full; ``chunks`` is left out if it is ``None``."""
    shape: Shape = {
        "id": document.id,
        "name": document.name,
        "status": document.status.value,
        "media_type": document.media_type,
        "sha256": document.sha256,
        "pages": document.pages,
        "warnings": list(document.warnings),
        "text": text.text,
    }
    if chunks is not None:
        shape["chunks"] = [_chunk_shape(chunk) for chunk in chunks]
    return shape


def _chunk_shape(chunk: Chunk) -> Shape:
    return {
        "index": chunk.index,
        "start": chunk.start,
        "end": chunk.end,
        "text": chunk.text,
        "tokens": chunk.tokens,
        "page": chunk.page,
        "section": chunk.section,
    }


def context_shape(context: Context) -> Shape:
    """What a question found and what is sent for it."""
    return {
        "question": context.question,
        "strategy": context.strategy.value,
        "hits": [_hit_shape(hit) for hit in context.hits],
        "passages": [_passage_shape(passage) for passage in context.passages],
        "token_count": context.token_count,
        "dropped": list(context.dropped),
        "prompt": context.prompt,
        "timings_ms": dict(context.timings_ms),
    }


def _hit_shape(hit: Hit) -> Shape:
    return {
        "document_id": hit.document_id,
        "index": hit.index,
        "similarity": hit.similarity,
        "score": hit.score,
    }


def _passage_shape(passage: Passage) -> Shape:
    return {
        "number": passage.number,
        "document_id": passage.document_id,
        "title": passage.title,
        "first": passage.first,
        "last": passage.last,
        "matches": list(passage.matches),
        "page": passage.page,
        "text": passage.text,
        "score": passage.score,
    }


def answer_shape(answer: Answer) -> Shape:
    """An answer, beside the context it was given."""
    return {
        "answer": answer.text,
        "citations": [_citation_shape(citation) for citation in answer.citations],
        "finish": answer.finish,
        "usage": _usage_shape(answer.usage),
        "model": answer.model,
    }


def _citation_shape(citation: Citation) -> Shape:
    return {
        "number": citation.number,
        "document_id": citation.document_id,
        "title": citation.title,
        "page": citation.page,
    }


def _usage_shape(usage: Usage) -> Shape:
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
    }


def failed_answer_shape(partial: str, error: str) -> Shape:
    """An answer that failed: what had arrived, and why."""
    return {
        "answer": partial,
        "citations": [],
        "finish": "failed",
        "usage": _usage_shape(Usage(None, None)),
        "model": None,
        "error": error,
    }
