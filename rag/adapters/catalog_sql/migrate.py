"""Brings a database to the newest schema.

To change the schema: change ``schema.py`` and write a new file in ``migrations/versions`` whose
``down_revision`` is the newest one; the tests say whether the two agree.
"""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, func, select

from rag.adapters.catalog_sql.engine import WRITES
from rag.errors import StoreError

_LOCK = 0x66656E65
"""Any number, the same for all: the advisory lock that migrations hold on PostgreSQL."""


def migrate(engine: Engine, place: str) -> None:
    """Migrate to the newest schema, in one transaction. Safe when several processes do it.

    Raises:
        StoreError: the schema is newer than this program.
    """
    config = Config()
    location = str(Path(__file__).parent / "migrations")
    config.set_main_option("script_location", location.replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    scripts = ScriptDirectory.from_config(config)
    known = {script.revision for script in scripts.walk_revisions()}
    with engine.execution_options(**WRITES).begin() as connection:
        _wait_for_others(connection)
        current = set(MigrationContext.configure(connection).get_current_heads())
        if not current <= known:
            raise StoreError(
                f"The library {place} was written by a newer version of Fenestra. "
                "Update Fenestra to open it."
            )
        if current != set(scripts.get_heads()):
            config.attributes["connection"] = connection
            command.upgrade(config, "head")


def _wait_for_others(connection: Connection) -> None:
    # On SQLite the immediate transaction is the lock already.
    if connection.dialect.name == "postgresql":
        connection.execute(select(func.pg_advisory_xact_lock(_LOCK)))
