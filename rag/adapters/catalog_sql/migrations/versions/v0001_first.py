"""Collections, documents, their sources, texts and chunks."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the first tables."""
    op.create_table(
        "collections",
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("chunk_tokens", sa.Integer, nullable=False),
        sa.Column("chunk_overlap", sa.Integer, nullable=False),
        sa.Column("embedding_model", sa.Text, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_collections"),
        sa.UniqueConstraint("owner", "name", name="uq_collections_owner_name"),
        sa.UniqueConstraint("owner", "id", name="uq_collections_owner_id"),
    )
    op.create_table(
        "documents",
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("collection_id", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("source", sa.Text),
        sa.Column("sha256", sa.Text, nullable=False),
        sa.Column("media_type", sa.Text, nullable=False),
        sa.Column("bytes", sa.BigInteger, nullable=False),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("chunks", sa.Integer, nullable=False),
        sa.Column("tokens", sa.Integer, nullable=False),
        sa.Column("pages", sa.Integer, nullable=False),
        sa.Column("warnings", sa.JSON, nullable=False),
        sa.Column("added_at", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_documents"),
        sa.UniqueConstraint("owner", "id", name="uq_documents_owner_id"),
        sa.ForeignKeyConstraint(
            ["owner", "collection_id"],
            ["collections.owner", "collections.id"],
            name="fk_documents_collections",
        ),
    )
    for columns in (
        ["owner", "added_at"],
        ["owner", "collection_id", "added_at"],
        ["owner", "status"],
    ):
        op.create_index(f"ix_documents_{'_'.join(columns)}", "documents", columns)
    op.create_table(
        "sources",
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("collection_id", sa.Text, nullable=False),
        sa.Column("source", sa.Text, nullable=False),
        sa.Column("document_id", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("owner", "collection_id", "source", name="pk_sources"),
        sa.ForeignKeyConstraint(
            ["owner", "document_id"],
            ["documents.owner", "documents.id"],
            name="fk_sources_documents",
            ondelete="CASCADE",
        ),
    )
    op.create_index("ix_sources_owner_document_id", "sources", ["owner", "document_id"])
    op.create_table(
        "document_texts",
        sa.Column("document_id", sa.Text, nullable=False),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("page_starts", sa.JSON, nullable=False),
        sa.Column("headings", sa.JSON, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("document_id", name="pk_document_texts"),
        sa.ForeignKeyConstraint(
            ["owner", "document_id"],
            ["documents.owner", "documents.id"],
            name="fk_document_texts_documents",
            ondelete="CASCADE",
        ),
    )
    op.create_table(
        "chunks",
        sa.Column("document_id", sa.Text, nullable=False),
        sa.Column("chunk_index", sa.Integer, nullable=False, autoincrement=False),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("char_start", sa.Integer, nullable=False),
        sa.Column("char_end", sa.Integer, nullable=False),
        sa.Column("tokens", sa.Integer, nullable=False),
        sa.Column("page", sa.Integer),
        sa.Column("section", sa.Text),
        sa.Column("vector", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("document_id", "chunk_index", name="pk_chunks"),
        sa.ForeignKeyConstraint(
            ["owner", "document_id"],
            ["documents.owner", "documents.id"],
            name="fk_chunks_documents",
            ondelete="CASCADE",
        ),
    )
