"""Engines: how SQLite and PostgreSQL are connected to.

Transactions are begun explicitly on SQLite. Those that will write begin as ``IMMEDIATE``: one
that began by reading could not wait for another writer, it would fail at once.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError

from rag.errors import SettingsError

WRITES = {"fenestra_writes": True}
"""Execution options of connections whose transactions write."""

BUSY_SECONDS = 30.0


def file_url(file: Path) -> str:
    """The URL of a SQLite file, whatever characters its path holds."""
    return URL.create("sqlite", database=str(file)).render_as_string()


def parse_url(url: str) -> URL:
    """Read a database URL.

    Raises:
        SettingsError: not a URL, or not of a database that Fenestra works with.
    """
    try:
        parsed = make_url(url)
        backend = parsed.get_backend_name()
    except (ArgumentError, NoSuchModuleError, ValueError):
        backend = ""
    if backend == "sqlite" and parsed.database not in (None, "", ":memory:"):
        return parsed
    if backend == "postgresql":
        return parsed.set(drivername="postgresql+psycopg")
    # The URL is not repeated: it may hold a password.
    raise SettingsError(
        "FENESTRA_DATABASE_URL is not a database that Fenestra works with. Set it to "
        "sqlite:///FILE or postgresql://USER:PASSWORD@HOST/DATABASE, or leave it unset."
    )


def make_engine(url: URL) -> Engine:
    """Create an engine; nothing is connected yet.

    Raises:
        SettingsError: the driver is not installed.
    """
    if url.get_backend_name() == "sqlite":
        engine = create_engine(url, hide_parameters=True, connect_args={"timeout": BUSY_SECONDS})
        event.listen(engine, "connect", _prepare_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
        return engine
    try:
        return create_engine(
            url,
            hide_parameters=True,
            # A server that was restarted is noticed before a statement is lost.
            pool_pre_ping=True,
            connect_args={"connect_timeout": 10, "application_name": "fenestra"},
        )
    except ModuleNotFoundError as error:
        raise SettingsError(
            "The PostgreSQL driver is not installed. Run `pip install fenestra[postgres]`."
        ) from error


def _prepare_sqlite(connection: sqlite3.Connection, _record: Any) -> None:
    # Otherwise the driver begins transactions by itself, and not before reading or for DDL.
    connection.isolation_level = None
    for pragma in (
        "foreign_keys = ON",
        "journal_mode = WAL",
        # A commit is on the disk before it is reported: a document that was said to be ready
        # is still there after a power cut, not only after a killed process. There is one
        # commit or two per document, so NORMAL would save next to nothing.
        "synchronous = FULL",
    ):
        connection.execute(f"PRAGMA {pragma}").close()


def _begin_sqlite(connection: Connection) -> None:
    writes = connection.get_execution_options().get("fenestra_writes")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
