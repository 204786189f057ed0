"""What the catalog says when its database fails: plain sentences, never a password."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import Engine, create_engine, event, text

from rag.adapters.catalog_sql import SqlCatalog, file_url, make_engine, open_catalog, parse_url
from rag.domain import ChunkSettings
from rag.errors import SettingsError, StoreError


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A catalog's file with a collection in it."""
    path = tmp_path / "catalog.sqlite"
    catalog = open_catalog(file_url(path))
    catalog.create_collection("a", "Papers", ChunkSettings(), "m@1")
    catalog.close()
    return path


def says(error: pytest.ExceptionInfo[BaseException], *parts: str) -> None:
    """The message is sentences that hold these parts."""
    message = str(error.value)
    assert message.endswith(".")
    assert "\n" not in message
    for part in parts:
        assert part in message


def test_another_file(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("This is not a database. " * 100)
    with pytest.raises(StoreError) as error:
        open_catalog(file_url(path))
    says(error, str(path), "not a Fenestra library", "Move it away")
    assert path.read_text() == "This is not a database. " * 100


def test_a_damaged_file(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[4096:] = b"\xff" * (len(data) - 4096)
    file.write_bytes(data)
    with pytest.raises(StoreError) as error:
        open_catalog(file_url(file)).collections("a")
    says(error, str(file), "damaged", "backup")


def test_a_folder_that_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "gone" / "catalog.sqlite"
    with pytest.raises(StoreError) as error:
        open_catalog(file_url(path))
    says(error, str(path), "cannot be opened", "FENESTRA_HOME")


def test_a_folder_in_which_nothing_can_be_made() -> None:
    with pytest.raises(StoreError) as error:
        open_catalog("sqlite:////proc/catalog.sqlite")
    says(error, "/proc/catalog.sqlite", "cannot be opened", "FENESTRA_HOME")


def test_a_file_that_cannot_be_written(file: Path) -> None:
    catalog = open_catalog(f"sqlite:///file:{file}?mode=ro&uri=true")
    assert catalog.collection("a", "Papers").name == "Papers"
    with pytest.raises(StoreError) as error:
        catalog.create_collection("a", "More", ChunkSettings(), "m@1")
    says(error, str(file), "cannot be written to", "permission")
    catalog.close()


def test_a_full_disk(file: Path) -> None:
    def shrink(connection: sqlite3.Connection, _record: object) -> None:
        connection.execute("PRAGMA max_page_count = 1").close()

    engine = make_engine(parse_url(file_url(file)))
    event.listen(engine, "connect", shrink)
    catalog = SqlCatalog(engine)
    with pytest.raises(StoreError) as error:
        catalog.create_collection("a", "x" * 100_000, ChunkSettings(), "m@1")
    says(error, str(file), "full", "Free some space")
    assert catalog.collection("a", "Papers").name == "Papers"
    catalog.close()


def test_a_file_that_another_program_locks(file: Path) -> None:
    engine = create_engine(parse_url(file_url(file)), connect_args={"timeout": 0.05})
    catalog = SqlCatalog(engine)
    other = sqlite3.connect(file)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError) as error:
        catalog.create_collection("a", "More", ChunkSettings(), "m@1")
    says(error, str(file), "locked")
    other.close()
    catalog.close()


def newer(url: str) -> None:
    """Pretend that a later version of the program has migrated the database."""
    engine = make_engine(parse_url(url))
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    engine.dispose()


def test_a_newer_schema_is_left_alone(file: Path, new_postgres_url: Callable[[], str]) -> None:
    postgres = new_postgres_url()
    open_catalog(postgres).close()
    for url in (file_url(file), postgres):
        newer(url)
        with pytest.raises(StoreError) as error:
            open_catalog(url)
        says(error, "newer version", "Update Fenestra")


@pytest.mark.parametrize(
    "url",
    [
        "",
        "nonsense",
        "sqlite://",
        "sqlite:///:memory:",
        "mysql://user:s3cret@localhost/fenestra",
        "postgres://user:s3cret@localhost/fenestra",
        "postgresql://user:s3cret@localhost:port/fenestra",
    ],
)
def test_an_address_that_is_not_of_a_database(url: str) -> None:
    with pytest.raises(SettingsError) as error:
        open_catalog(url)
    says(error, "FENESTRA_DATABASE_URL", "postgresql://")
    assert "s3cret" not in str(error.value)


@pytest.mark.parametrize(
    ("url", "parts"),
    [
        # Nothing listens on port 1.
        ("postgresql://user:s3cret@127.0.0.1:1/fenestra", ("127.0.0.1:1", "cannot be reached")),
        ("postgresql://fenestra@/missing?host={socket}", ("missing", "does not exist")),
        ("postgresql://nobody:s3cret@/postgres?host={socket}", ("refused the user name",)),
    ],
)
def test_a_server_that_does_not_let_in(
    postgres_socket: Path, url: str, parts: tuple[str, ...]
) -> None:
    with pytest.raises(StoreError) as error:
        open_catalog(url.format(socket=postgres_socket))
    says(error, "FENESTRA_DATABASE_URL", *parts)
    assert "s3cret" not in str(error.value)


def cut_connections(url: str) -> None:
    """End all sessions of a database, as a restarted server would."""
    engine: Engine = make_engine(parse_url(url))
    with engine.connect() as connection:
        connection.execute(
            text(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        )
    engine.dispose()


def test_a_server_that_was_restarted(new_postgres_url: Callable[[], str]) -> None:
    url = new_postgres_url()
    catalog = open_catalog(url)
    made = catalog.create_collection("a", "Papers", ChunkSettings(), "m@1")
    cut_connections(url)
    assert catalog.collections("a") == [made]
    catalog.close()


def test_a_read_only_database(new_postgres_url: Callable[[], str]) -> None:
    url = new_postgres_url()
    open_catalog(url).close()
    catalog = open_catalog(f"{url}&options=-cdefault_transaction_read_only%3Don")
    with pytest.raises(StoreError) as error:
        catalog.create_collection("a", "Papers", ChunkSettings(), "m@1")
    says(error, "read-only", "FENESTRA_DATABASE_URL")
    catalog.close()
