"""A catalog opened for looking only: no file is made, migrated or written."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Literal

from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Engine, create_engine

from rag.adapters.catalog_sql.catalog import SqlCatalog
from rag.adapters.catalog_sql.engine import make_engine, parse_url
from rag.adapters.catalog_sql.failures import place_of, translated
from rag.domain import Document, Status


class ReadOnlyCatalog:
    """The catalog at a URL, as it is.

    Raises:
        SettingsError: not a URL of a database that Fenestra works with.
        StoreError: from every method, if it cannot be read.
    """

    def __init__(self, url: str) -> None:
        self._url = parse_url(url)
        self._is_file = self._url.get_backend_name() == "sqlite"

    @property
    def exists(self) -> bool:
        """Whether there is a file; of a database on a server it is taken for granted."""
        return not self._is_file or Path(self._url.database or "").exists()

    @cached_property
    def _engine(self) -> Engine:
        if not self._is_file:
            return make_engine(self._url)
        return create_engine(self._url, creator=_opener(Path(self._url.database or "")))

    def damage(self) -> str | None:
        """What a SQLite file's own check complains of first; ``None`` if nothing."""
        if not self._is_file:
            return None
        with translated(place_of(self._url)), self._engine.connect() as connection:
            said = str(connection.exec_driver_sql("PRAGMA quick_check(1)").scalar())
        return None if said == "ok" else said.strip().rstrip(".")

    @property
    def schema(self) -> Literal["newest", "older", "newer"]:
        """How its schema compares with the newest that this version knows."""
        scripts = ScriptDirectory(str(Path(__file__).parent / "migrations"))
        with translated(place_of(self._url)), self._engine.connect() as connection:
            found = set(MigrationContext.configure(connection).get_current_heads())
        if found == set(scripts.get_heads()):
            return "newest"
        known = {script.revision for script in scripts.walk_revisions()}
        return "older" if found <= known else "newer"

    @cached_property
    def reading(self) -> SqlCatalog:
        """The port, for reading; writing fails."""
        return SqlCatalog(self._engine)

    def counts(self) -> tuple[int, int]:
        """How many documents are ready, and how many are half way in or out."""
        documents: list[Document] = []
        for owner in self.reading.owners():
            documents += self.reading.documents(owner)
        ready = sum(document.status is Status.READY for document in documents)
        return ready, len(documents) - ready

    def __enter__(self) -> ReadOnlyCatalog:
        return self

    def __exit__(self, *_: object) -> None:
        self._engine.dispose()


def _opener(path: Path) -> Callable[[], sqlite3.Connection]:
    log = path.with_name(path.name + "-wal")
    # Without a log of changes nobody is writing, and even the helper files that SQLite makes for
    # readers can be left out.
    still = not log.exists() or log.stat().st_size == 0
    uri = f"{path.absolute().as_uri()}?mode=ro" + ("&immutable=1" if still else "")

    def open_file() -> sqlite3.Connection:
        return sqlite3.connect(uri, uri=True, check_same_thread=False)

    return open_file
