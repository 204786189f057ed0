"""Which document each source stands for now.

Several sources may stand for one document, when files hold the same bytes. A document that came
from a source goes when the last of its sources has come to stand for another.
"""

from __future__ import annotations

from sqlalchemy import Connection, delete, insert, select, update

from rag.adapters.catalog_sql import schema


def point(
    connection: Connection, owner: str, collection_id: str, source: str, document_id: str
) -> list[str]:
    """Let ``source`` stand for a document; return the documents that nothing stands for now."""
    table = schema.sources
    this = (
        table.c.owner == owner,
        table.c.collection_id == collection_id,
        table.c.source == source,
    )
    before = connection.scalar(select(table.c.document_id).where(*this))
    if before == document_id:
        return []
    connection.execute(delete(table).where(*this))
    connection.execute(
        insert(table).values(
            owner=owner, collection_id=collection_id, source=source, document_id=document_id
        )
    )
    return [] if before is None else _without_source(connection, owner, before, source)


def _without_source(connection: Connection, owner: str, document_id: str, lost: str) -> list[str]:
    table, documents = schema.sources, schema.documents
    left = connection.scalar(
        select(table.c.source)
        .where(table.c.owner == owner, table.c.document_id == document_id)
        .order_by(table.c.source)
        .limit(1)
    )
    this = (documents.c.owner == owner, documents.c.id == document_id)
    if left is None:
        # One that was uploaded stays, whatever files happened to hold the same bytes.
        orphan = select(documents.c.id).where(*this, documents.c.source.is_not(None))
        return list(connection.scalars(orphan))
    renamed = update(documents).where(*this, documents.c.source == lost).values(source=left)
    connection.execute(renamed)
    return []
