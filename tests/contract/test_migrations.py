"""The migrations lead to the schema that the program works with."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext

from rag.adapters.catalog_sql import file_url, make_engine, open_catalog, parse_url
from rag.adapters.catalog_sql.schema import metadata


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database."""
    if request.param == "postgresql":
        new: Callable[[], str] = request.getfixturevalue("new_postgres_url")
        return new()
    return file_url(tmp_path / "catalog.sqlite")


def test_a_fresh_database_equals_the_tables(url: str) -> None:
    open_catalog(url).close()
    engine = make_engine(parse_url(url))
    with engine.connect() as connection:
        context = MigrationContext.configure(
            connection, opts={"compare_type": True, "compare_server_default": True}
        )
        assert compare_metadata(context, metadata) == []
        assert context.get_current_heads() != ()
    engine.dispose()


def test_every_table_has_an_owner() -> None:
    assert all("owner" in table.c for table in metadata.sorted_tables)


def test_migrating_leaves_logging_alone(url: str) -> None:
    root = logging.getLogger()
    before = (root.level, list(root.handlers), logging.getLogger("rag").disabled)
    open_catalog(url).close()
    assert (root.level, list(root.handlers), logging.getLogger("rag").disabled) == before


def test_several_processes_open_an_empty_database(url: str) -> None:
    code = (
        "import sys; from rag.adapters.catalog_sql import open_catalog; print('up', flush=True); "
        "sys.stdin.read(); catalog = open_catalog(sys.argv[1]); print(catalog.owners())"
    )
    openers = [
        subprocess.Popen(
            [sys.executable, "-c", code, url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    for opener in openers:
        assert opener.stdout is not None
        assert opener.stdout.readline() == "up\n"
    for opener in openers:
        assert opener.stdin is not None
        opener.stdin.close()
        opener.stdin = None
    assert [opener.communicate() for opener in openers] == [("[]\n", "")] * 4
