"""What the engines report, said as plain sentences.

No message repeats the database URL, which may hold a password: places are named by file, or by
host and database.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from rag.errors import StoreError

_SQLITE = {
    "SQLITE_FULL": "The disk that holds {place} is full. Free some space and try again.",
    "SQLITE_READONLY": (
        "The library file {place} cannot be written to. Give yourself write permission to it and "
        "to its folder, or choose another folder with FENESTRA_HOME."
    ),
    "SQLITE_CANTOPEN": (
        "The library file {place} cannot be opened. Check that its folder exists and that you may "
        "write to it, or choose another folder with FENESTRA_HOME."
    ),
    "SQLITE_CORRUPT": (
        "The library file {place} is damaged. Restore it from a backup, or move it away to start "
        "with an empty library."
    ),
    "SQLITE_NOTADB": (
        "The file {place} is not a Fenestra library. Move it away, or choose another folder with "
        "FENESTRA_HOME."
    ),
    "SQLITE_BUSY": (
        "Another program keeps the library file {place} locked. Close it and try again."
    ),
    "SQLITE_IOERR": (
        "The disk that holds {place} reports an error. Check the disk and its free space, then "
        "try again."
    ),
}

# By the first two or all five characters of SQLSTATE.
_POSTGRES = {
    "53100": "The disk of the database {place} is full. Free some space there and try again.",
    "53300": "The database {place} accepts no more connections. Try again later.",
    "25006": "The database {place} is read-only. Point FENESTRA_DATABASE_URL at its primary.",
    "42501": (
        "The user named in FENESTRA_DATABASE_URL may not do this in the database {place}. Grant "
        "that user the right to create and change tables."
    ),
    "28": (
        "The database {place} refused the user name or password. Correct FENESTRA_DATABASE_URL."
    ),
    "3D000": ("The database {place} does not exist. Create it, or correct FENESTRA_DATABASE_URL."),
}

_UNREACHABLE = (
    "The database {place} cannot be reached. Check that the server runs and that "
    "FENESTRA_DATABASE_URL is right."
)
_UNKNOWN = "The database {place} reported an error: {reason}. Run `fenestra doctor`."


def place_of(url: URL) -> str:
    """Name the database of ``url`` without user, password or options."""
    if url.get_backend_name() == "sqlite":
        return url.database or ""
    query_host = url.query.get("host", "")
    host = url.host or (query_host if isinstance(query_host, str) else query_host[0])
    port = f":{url.port}" if url.port else ""
    return f"{url.database or ''} on {host or 'localhost'}{port}"


@contextmanager
def translated(place: str) -> Iterator[None]:
    """Raise ``StoreError`` instead of what the engine raises inside the block."""
    try:
        yield
    except DBAPIError as error:
        raise StoreError(_sentence(error, place)) from error
    except PoolTimeout as error:
        raise StoreError(
            f"The database {place} is too busy to answer. Try again in a moment."
        ) from error
    except UnicodeEncodeError as error:
        raise StoreError(
            "A text or name holds half of a character pair, which no database can keep. "
            "Save the file again as UTF-8 and add that."
        ) from error


def _sentence(error: DBAPIError, place: str) -> str:
    original = error.orig
    if isinstance(original, sqlite3.Error):
        name = getattr(original, "sqlite_errorname", "")
        # Extended codes ("SQLITE_READONLY_DIRECTORY") begin with the plain one.
        for code, sentence in _SQLITE.items():
            if name.startswith(code):
                return sentence.format(place=place)
    else:
        state = getattr(original, "sqlstate", None) or ""
        for code in (state, state[:2]):
            if code in _POSTGRES:
                return _POSTGRES[code].format(place=place)
        # A failed connection has no SQLSTATE of its own; the driver's text may name the cause
        # of a refused sign-in, but also repeat the address, so it is not passed on.
        if not state or state[:2] in {"08", "57"}:
            text = str(original)
            if "password authentication failed" in text or 'role "' in text:
                return _POSTGRES["28"].format(place=place)
            if 'database "' in text and "does not exist" in text:
                return _POSTGRES["3D000"].format(place=place)
            return _UNREACHABLE.format(place=place)
    reason = str(original).strip().splitlines()[0].rstrip(".") if str(original) else "no details"
    return _UNKNOWN.format(place=place, reason=reason)
