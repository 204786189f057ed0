"""Bringing documents in and taking them out, so that nothing is ever half there.

In: parse → chunk → embed → one catalog transaction (``indexing``) → vector index → ``ready``,
and in the same transaction what it replaces becomes ``deleting``. Out: ``deleting`` → vector
index → catalog. A process killed between two steps leaves a document that start-up finishes
(:mod:`rag.recovery`); one that was not yet in the catalog leaves nothing.
"""

from __future__ import annotations

import hashlib
import threading
import time
import uuid
from collections.abc import Sequence

import numpy as np

from rag import checkpoints
from rag.chunking import chunk_text
from rag.domain import (
    Added,
    Chunk,
    Collection,
    Document,
    DocumentText,
    ExtractedText,
    Progress,
    Status,
)
from rag.errors import EmbeddingMismatch, NoText, NotFound, RagError
from rag.ports import AddEvents, Catalog, Embedder, Reader, Steps, VectorIndex, Vectors

_SLICE = 128
"""Chunks embedded, or written to the index, between two progress reports."""


class Ingest:
    """Adds and removes documents, one at a time."""

    def __init__(
        self, catalog: Catalog, index: VectorIndex, embedder: Embedder, reader: Reader
    ) -> None:
        self._catalog = catalog
        self._index = index
        self._embedder = embedder
        self._reader = reader
        self.writing = threading.Lock()
        """Held by whoever writes to catalog and index."""

    def add(self, collection: Collection, name: str, data: bytes, source: str | None) -> AddEvents:
        """Bring a file in; yields progress, then exactly one :class:`Added`.

        Closing the iterator early takes back what was begun.
        """
        while not self.writing.acquire(timeout=0.5):
            yield Progress("Waiting for another file to be finished")
        try:
            try:
                yield from self._add(collection, name, data, source)
            except RagError as error:
                yield Added(name, source, "failed", None, str(error))
        finally:
            self.writing.release()

    def _add(self, collection: Collection, name: str, data: bytes, source: str | None) -> AddEvents:
        owner = collection.owner
        if collection.embedding_model != self._embedder.model:
            raise EmbeddingMismatch(
                f"The collection {collection.name!r} was indexed with "
                f"{collection.embedding_model}, but {self._embedder.model} is in use now. "
                "Set FENESTRA_EMBEDDING_MODEL back, or add the file to another collection."
            )
        sha256 = hashlib.sha256(data).hexdigest()
        present = self._catalog.documents(owner, collection.id, Status.READY)
        same = next((d for d in present if d.sha256 == sha256), None)
        if same is not None:
            if source is not None:
                self.finish_deleting(owner, self._catalog.claim_source(owner, same.id, source))
            yield Added(name, source, "unchanged", same, None)
            return
        yield Progress(f"Reading {name}")
        read = self._reader.read(name, data)
        checkpoints.reached("ingest:parsed")
        yield Progress("Cutting it into chunks")
        chunks = chunk_text(
            read.text,
            collection.chunking,
            self._embedder,
            headings=read.headings,
            page_starts=read.page_starts,
        )
        if not chunks:
            raise NoText(
                f"There is no text in {name}. If it is a scan, add a version with a text layer."
            )
        checkpoints.reached("ingest:chunked")
        yield Progress("Loading the embedding model")
        self._embedder.load()
        parts: list[Vectors] = []
        for start in range(0, len(chunks), _SLICE):
            yield Progress(f"Embedding {len(chunks)} chunks", start / len(chunks))
            texts = [chunk.text for chunk in chunks[start : start + _SLICE]]
            parts.append(self._embedder.embed_documents(texts))
        checkpoints.reached("ingest:embedded")
        document = _document(collection, name, source, sha256, len(data), read, chunks)
        yield from self._write(collection, document, read, chunks, np.concatenate(parts))

    def _write(
        self,
        collection: Collection,
        document: Document,
        read: ExtractedText,
        chunks: Sequence[Chunk],
        vectors: Vectors,
    ) -> AddEvents:
        owner = collection.owner
        text = DocumentText(read.text, read.page_starts, read.headings)
        checkpoints.reached("ingest:before-catalog-commit")
        self._catalog.insert_document(owner, document, text, chunks, vectors)
        ready = False
        try:
            checkpoints.reached("ingest:catalog-committed")
            yield from self.fill_index(collection, document)
            checkpoints.reached("ingest:indexed")
            older = self._catalog.promote(owner, document.id)
            ready = True
        finally:
            if not ready:
                # Marked first: should the index fail too, start-up takes the document back.
                self._catalog.set_status(owner, [document.id], Status.DELETING)
                self.finish_deleting(owner, [document.id])
        checkpoints.reached("ingest:ready")
        self.finish_deleting(owner, older)
        done = self._catalog.document(owner, document.id)
        yield Added(document.name, document.source, "ready", done, None)

    def fill_index(self, collection: Collection, document: Document) -> Steps:
        """Write a document's vectors, as the catalog keeps them, to the vector index."""
        vectors = self._catalog.vectors(collection.owner, document.id)
        for start in range(0, len(vectors), _SLICE * 8):
            part = vectors[start : start + _SLICE * 8]
            yield Progress(f"Indexing {len(vectors)} chunks", start / len(vectors))
            indices = range(start, start + len(part))
            self._index.upsert(collection.space, document.id, indices, part)

    def remove(self, owner: str, document_ids: Sequence[str]) -> None:
        """Take documents out. Raises ``NotFound`` before any is touched. Needs ``writing``."""
        found = self._catalog.documents_by_id(owner, document_ids)
        missing = [document_id for document_id in document_ids if document_id not in found]
        if missing:
            raise NotFound(
                f"There is no document {', '.join(missing)}. "
                "List what there is with `fenestra documents`. Nothing was removed."
            )
        if document_ids:
            self._catalog.set_status(owner, document_ids, Status.DELETING)
            checkpoints.reached("delete:marked")
            self.finish_deleting(owner, document_ids)

    def finish_deleting(self, owner: str, document_ids: Sequence[str]) -> None:
        """Take documents that are marked ``deleting`` out of the index, then of the catalog."""
        spaces = {
            collection.id: collection.space for collection in self._catalog.collections(owner)
        }
        for document in self._catalog.documents_by_id(owner, document_ids).values():
            self._index.delete(spaces[document.collection_id], document.id)
            checkpoints.reached("delete:index-cleared")
            self._catalog.delete_document(owner, document.id)
            checkpoints.reached("delete:done")


def _document(
    collection: Collection,
    name: str,
    source: str | None,
    sha256: str,
    size: int,
    read: ExtractedText,
    chunks: Sequence[Chunk],
) -> Document:
    return Document(
        id=uuid.uuid4().hex,
        owner=collection.owner,
        collection_id=collection.id,
        name=name,
        source=source,
        sha256=sha256,
        media_type=read.media_type,
        bytes=size,
        status=Status.INDEXING,
        chunks=len(chunks),
        tokens=sum(chunk.tokens for chunk in chunks),
        pages=len(read.page_starts),
        warnings=read.warnings,
        added_at=time.time(),
    )
