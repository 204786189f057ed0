"""The catalog on SQLAlchemy Core: the same statements on SQLite and PostgreSQL."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from sqlalchemy import Connection, Engine, Select, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from rag.adapters.catalog_sql import rows, schema, sources
from rag.adapters.catalog_sql.engine import WRITES
from rag.adapters.catalog_sql.failures import place_of, translated
from rag.adapters.catalog_sql.spans import read_spans
from rag.domain import (
    Chunk,
    ChunkSettings,
    Collection,
    Document,
    DocumentText,
    Span,
    SpanText,
    Status,
)
from rag.errors import NotFound, SettingsError, StoreError
from rag.ports import Vectors

_IDS_A_QUERY = 10_000
"""SQLite takes 32,766 values a query."""


class SqlCatalog:
    """A :class:`rag.ports.Catalog`. Safe to use from several threads."""

    def __init__(self, engine: Engine) -> None:
        """Work on a database that has the newest schema."""
        self._engine = engine
        self._writer = engine.execution_options(**WRITES)
        self._place = place_of(engine.url)

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        with translated(self._place), self._engine.connect() as connection:
            yield connection

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        with translated(self._place), self._writer.begin() as connection:
            yield connection

    # collections

    def create_collection(
        self, owner: str, name: str, chunking: ChunkSettings, embedding_model: str
    ) -> Collection:
        """See :meth:`rag.ports.Catalog.create_collection`."""
        collection = Collection(
            uuid.uuid4().hex, owner, name, chunking, embedding_model, time.time()
        )
        try:
            with self._writing() as connection:
                connection.execute(
                    insert(schema.collections).values(
                        id=collection.id,
                        owner=owner,
                        name=name,
                        chunk_tokens=chunking.tokens,
                        chunk_overlap=chunking.overlap,
                        embedding_model=embedding_model,
                        created_at=collection.created_at,
                    )
                )
        except StoreError as error:
            if isinstance(error.__cause__, IntegrityError):
                raise SettingsError(
                    f'There is a collection named "{name}" already. Choose another name.'
                ) from error
            raise
        return collection

    def collections(self, owner: str) -> list[Collection]:
        """See :meth:`rag.ports.Catalog.collections`."""
        table = schema.collections
        query = select(table).where(table.c.owner == owner).order_by(table.c.created_at, table.c.id)
        with self._reading() as connection:
            return [rows.to_collection(row) for row in connection.execute(query)]

    def collection(self, owner: str, name: str) -> Collection:
        """See :meth:`rag.ports.Catalog.collection`."""
        table = schema.collections
        query = select(table).where(table.c.owner == owner, table.c.name == name)
        with self._reading() as connection:
            row = connection.execute(query).one_or_none()
        if row is None:
            raise NotFound(
                f'There is no collection named "{name}". Choose one that exists, or add a '
                "document to make it."
            )
        return rows.to_collection(row)

    # documents

    def insert_document(
        self,
        owner: str,
        document: Document,
        text: DocumentText,
        chunks: Sequence[Chunk],
        vectors: Vectors,
    ) -> None:
        """See :meth:`rag.ports.Catalog.insert_document`.

        Raises:
            NotFound: the owner has no such collection.
            ValueError: not one vector per chunk.
        """
        if len(chunks) != len(vectors):
            raise ValueError(f"{len(chunks)} chunks need as many vectors, got {len(vectors)}")
        if "\0" in text.text:
            raise StoreError(
                f'The text of "{document.name}" holds a NUL character, which no database can '
                "keep. Save the file again as plain text and add that."
            )
        chunk_rows = rows.from_chunks(owner, document.id, chunks, vectors)
        collections = schema.collections
        with self._writing() as connection:
            found = connection.execute(
                select(collections.c.id).where(
                    collections.c.owner == owner, collections.c.id == document.collection_id
                )
            ).one_or_none()
            if found is None:
                raise NotFound("The collection no longer exists. Choose another one.")
            connection.execute(
                insert(schema.documents), rows.from_document(replace(document, owner=owner))
            )
            connection.execute(
                insert(schema.document_texts), rows.from_text(owner, document.id, text)
            )
            if chunk_rows:
                connection.execute(insert(schema.chunks), chunk_rows)

    def set_status(self, owner: str, document_ids: Sequence[str], status: Status) -> None:
        """See :meth:`rag.ports.Catalog.set_status`."""
        with self._writing() as connection:
            missing = set(document_ids) - _mark(connection, owner, document_ids, status)
            if missing:
                raise _no_document(min(missing))

    def promote(self, owner: str, document_id: str) -> list[str]:
        """See :meth:`rag.ports.Catalog.promote`."""
        with self._writing() as connection:
            if not _mark(connection, owner, [document_id], Status.READY):
                raise _no_document(document_id)
            table = schema.documents
            source = connection.scalar(select(table.c.source).where(table.c.id == document_id))
            return [] if source is None else _claim(connection, owner, document_id, source)

    def claim_source(self, owner: str, document_id: str, source: str) -> list[str]:
        """See :meth:`rag.ports.Catalog.claim_source`."""
        with self._writing() as connection:
            return _claim(connection, owner, document_id, source)

    def delete_document(self, owner: str, document_id: str) -> None:
        """See :meth:`rag.ports.Catalog.delete_document`."""
        table = schema.documents
        with self._writing() as connection:
            # Text and chunks go with it, by their foreign keys.
            connection.execute(
                delete(table).where(table.c.owner == owner, table.c.id == document_id)
            )

    def documents(
        self, owner: str, collection_id: str | None = None, status: Status | None = None
    ) -> list[Document]:
        """See :meth:`rag.ports.Catalog.documents`."""
        table = schema.documents
        query = select(table).where(table.c.owner == owner)
        if collection_id is not None:
            query = query.where(table.c.collection_id == collection_id)
        if status is not None:
            query = query.where(table.c.status == status.value)
        with self._reading() as connection:
            found = connection.execute(query.order_by(table.c.added_at, table.c.id))
            return [rows.to_document(row) for row in found]

    def document(self, owner: str, document_id: str) -> Document:
        """See :meth:`rag.ports.Catalog.document`."""
        found = self.documents_by_id(owner, [document_id])
        if not found:
            raise _no_document(document_id)
        return found[document_id]

    def documents_by_id(self, owner: str, document_ids: Sequence[str]) -> dict[str, Document]:
        """See :meth:`rag.ports.Catalog.documents_by_id`."""
        table = schema.documents
        found: dict[str, Document] = {}
        with self._reading() as connection:
            for ids in _slices(document_ids):
                query = select(table).where(table.c.owner == owner, table.c.id.in_(ids))
                for row in connection.execute(query):
                    found[row.id] = rows.to_document(row)
        return found

    def document_text(self, owner: str, document_id: str) -> DocumentText:
        """See :meth:`rag.ports.Catalog.document_text`."""
        with self._reading() as connection:
            return _text(connection, owner, document_id)

    # chunks

    def chunks(self, owner: str, document_id: str) -> list[Chunk]:
        """See :meth:`rag.ports.Catalog.chunks`."""
        table = schema.chunks
        query = (
            select(
                table.c.chunk_index,
                table.c.char_start,
                table.c.char_end,
                table.c.tokens,
                table.c.page,
                table.c.section,
            )
            .where(table.c.owner == owner, table.c.document_id == document_id)
            .order_by(table.c.chunk_index)
        )
        with self._reading() as connection:
            text = _text(connection, owner, document_id).text
            return [rows.to_chunk(row, text) for row in connection.execute(query)]

    def read_spans(self, owner: str, spans: Sequence[Span]) -> list[SpanText]:
        """See :meth:`rag.ports.Catalog.read_spans`."""
        with self._reading() as connection:
            return read_spans(connection, owner, spans)

    def vectors(self, owner: str, document_id: str) -> Vectors:
        """See :meth:`rag.ports.Catalog.vectors`. Raises ``NotFound``."""
        documents, chunks = schema.documents, schema.chunks
        with self._reading() as connection:
            found = connection.execute(
                select(documents.c.id).where(
                    documents.c.owner == owner, documents.c.id == document_id
                )
            ).one_or_none()
            if found is None:
                raise _no_document(document_id)
            stored = connection.scalars(
                select(chunks.c.vector)
                .where(chunks.c.owner == owner, chunks.c.document_id == document_id)
                .order_by(chunks.c.chunk_index)
            ).all()
        return rows.to_vectors(stored)

    # everything

    def owners(self) -> list[str]:
        """See :meth:`rag.ports.Catalog.owners`."""
        owner = schema.collections.c.owner
        with self._reading() as connection:
            return list(connection.scalars(select(owner).distinct().order_by(owner)))

    def close(self) -> None:
        """See :meth:`rag.ports.Catalog.close`."""
        self._engine.dispose()


def _claim(connection: Connection, owner: str, document_id: str, source: str) -> list[str]:
    table = schema.documents
    collection_id = connection.scalar(
        select(table.c.collection_id).where(table.c.owner == owner, table.c.id == document_id)
    )
    if collection_id is None:
        raise _no_document(document_id)
    orphans = sources.point(connection, owner, collection_id, source, document_id)
    _mark(connection, owner, orphans, Status.DELETING)
    return orphans


def _mark(
    connection: Connection, owner: str, document_ids: Sequence[str], status: Status
) -> set[str]:
    """Set the status of those of the documents that exist, and return their ids."""
    table = schema.documents
    marked: set[str] = set()
    for ids in _slices(document_ids):
        statement = (
            update(table)
            .where(table.c.owner == owner, table.c.id.in_(ids))
            .values(status=status.value)
            .returning(table.c.id)
        )
        marked.update(connection.scalars(statement))
    return marked


def _text(connection: Connection, owner: str, document_id: str) -> DocumentText:
    table = schema.document_texts
    query: Select[tuple[str]] = select(table).where(
        table.c.owner == owner, table.c.document_id == document_id
    )
    row = connection.execute(query).one_or_none()
    if row is None:
        raise _no_document(document_id)
    return rows.to_text(row)


def _slices(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    for offset in range(0, len(ids), _IDS_A_QUERY):
        yield ids[offset : offset + _IDS_A_QUERY]


def _no_document(document_id: str) -> NotFound:
    return NotFound(
        f"There is no document {document_id} in the library. See `fenestra documents` for those "
        "there are."
    )
