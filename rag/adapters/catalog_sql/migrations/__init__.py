"""The versions of the schema, for alembic."""
