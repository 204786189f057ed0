"""Run by alembic; works on the connection, and inside the transaction, that it is given."""

from __future__ import annotations

from alembic import context

from rag.adapters.catalog_sql.schema import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    # SQLite can undo schema changes too, as the engine begins its transactions explicitly.
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
