"""The catalog in a database: SQLite in one file by default, PostgreSQL by URL."""

from __future__ import annotations

from rag.adapters.catalog_sql.catalog import SqlCatalog
from rag.adapters.catalog_sql.engine import file_url, make_engine, parse_url
from rag.adapters.catalog_sql.failures import place_of, translated
from rag.adapters.catalog_sql.migrate import migrate

__all__ = [
    "SqlCatalog",
    "file_url",
    "make_engine",
    "open_catalog",
    "parse_url",
]


def open_catalog(url: str) -> SqlCatalog:
    """Open the catalog at a SQLAlchemy URL and bring it to the newest schema.

    Args:
        url: ``sqlite:///FILE`` (the file is made, its folder is not) or
            ``postgresql://USER:PASSWORD@HOST/DATABASE`` (the database must exist).

    Raises:
        SettingsError: not such a URL, or the driver is not installed.
        StoreError: it cannot be opened, or a newer version of Fenestra wrote it.
    """
    parsed = parse_url(url)
    engine = make_engine(parsed)
    place = place_of(parsed)
    try:
        with translated(place):
            migrate(engine, place)
    except BaseException:
        engine.dispose()
        raise
    return SqlCatalog(engine)
