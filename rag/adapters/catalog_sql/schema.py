"""The tables, as they are at the newest migration.

Every table carries ``owner``, and the foreign keys hold it too, so that a row can only belong to
a row of the same owner. A document's text lives apart from the document, because lists must never
touch it. Chunks hold no text: it is cut from the document's text by offset.
"""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    BigInteger,
    Column,
    Double,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
)

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)

collections = Table(
    "collections",
    metadata,
    Column("id", Text, primary_key=True),
    Column("owner", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("chunk_tokens", Integer, nullable=False),
    Column("chunk_overlap", Integer, nullable=False),
    Column("embedding_model", Text, nullable=False),
    Column("created_at", Double, nullable=False),
    UniqueConstraint("owner", "name"),
    UniqueConstraint("owner", "id"),
)

documents = Table(
    "documents",
    metadata,
    Column("id", Text, primary_key=True),
    Column("owner", Text, nullable=False),
    Column("collection_id", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("source", Text),
    Column("sha256", Text, nullable=False),
    Column("media_type", Text, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Column("status", Text, nullable=False),
    Column("chunks", Integer, nullable=False),
    Column("tokens", Integer, nullable=False),
    Column("pages", Integer, nullable=False),
    Column("warnings", JSON, nullable=False),
    Column("added_at", Double, nullable=False),
    UniqueConstraint("owner", "id"),
    ForeignKeyConstraint(["owner", "collection_id"], ["collections.owner", "collections.id"]),
    # Lists: of everything, of one collection, of one status.
    Index(None, "owner", "added_at"),
    Index(None, "owner", "collection_id", "added_at"),
    Index(None, "owner", "status"),
)

sources = Table(
    "sources",
    metadata,
    Column("owner", Text, primary_key=True),
    Column("collection_id", Text, primary_key=True),
    Column("source", Text, primary_key=True),
    Column("document_id", Text, nullable=False),
    ForeignKeyConstraint(
        ["owner", "document_id"], ["documents.owner", "documents.id"], ondelete="CASCADE"
    ),
    # The sources of one document.
    Index(None, "owner", "document_id"),
)

document_texts = Table(
    "document_texts",
    metadata,
    Column("document_id", Text, primary_key=True),
    Column("owner", Text, nullable=False),
    Column("page_starts", JSON, nullable=False),
    Column("headings", JSON, nullable=False),
    Column("text", Text, nullable=False),
    ForeignKeyConstraint(
        ["owner", "document_id"], ["documents.owner", "documents.id"], ondelete="CASCADE"
    ),
)

chunks = Table(
    "chunks",
    metadata,
    Column("document_id", Text, primary_key=True),
    Column("chunk_index", Integer, primary_key=True, autoincrement=False),
    Column("owner", Text, nullable=False),
    Column("char_start", Integer, nullable=False),
    Column("char_end", Integer, nullable=False),
    Column("tokens", Integer, nullable=False),
    Column("page", Integer),
    Column("section", Text),
    # Little-endian float16.
    Column("vector", LargeBinary, nullable=False),
    ForeignKeyConstraint(
        ["owner", "document_id"], ["documents.owner", "documents.id"], ondelete="CASCADE"
    ),
)
