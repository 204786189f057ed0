"""Checks of the machine: Python, SQLite, folders and disks."""

from __future__ import annotations

import os
import platform
import shutil
import sqlite3
import sys
from pathlib import Path

from rag.doctor.check import Check, fail, ok, warn

_OLDEST_PYTHON = (3, 11)
_OLDEST_SQLITE = (3, 35, 0)
"""What Chroma needs."""
_MIB = 1024 * 1024
_LOW, _FULL = 500 * _MIB, 50 * _MIB


def check_python() -> Check:
    """The interpreter is new enough."""
    detail = f"Python {platform.python_version()} on {platform.system()} {platform.machine()}."
    if sys.version_info < _OLDEST_PYTHON:
        return fail("python", detail, "Install Python 3.11 or newer and start again with it.")
    return ok("python", detail)


def check_sqlite() -> Check:
    """SQLite is new enough and can search text."""
    detail = f"SQLite {sqlite3.sqlite_version}"
    if sqlite3.sqlite_version_info < _OLDEST_SQLITE:
        wanted = ".".join(map(str, _OLDEST_SQLITE))
        return fail(
            "sqlite", f"{detail}.", f"Use a Python that was built with SQLite {wanted} or newer."
        )
    connection = sqlite3.connect(":memory:")
    try:
        connection.execute("CREATE VIRTUAL TABLE probe USING fts5(text)")
    except sqlite3.OperationalError:
        return fail(
            "sqlite",
            f"{detail} was built without full-text search (FTS5).",
            "Use a Python from python.org, your distribution or uv, which have it.",
        )
    finally:
        connection.close()
    return ok("sqlite", f"{detail} with full-text search (FTS5).")


def check_home(home: Path) -> Check:
    """The home is a folder that can be written to, or can be made."""
    advice = "Choose another folder with --home or FENESTRA_HOME, or correct its permissions."
    try:
        if home.is_dir():
            if not os.access(home, os.R_OK | os.W_OK | os.X_OK):
                return fail("home", f"{home} cannot be written to.", advice)
            return ok("home", f"{home} can be written to.")
        if home.exists() or home.is_symlink():
            return fail("home", f"{home} is not a folder.", advice)
        parent = nearest_folder(home)
    except OSError as error:
        return fail("home", f"{home} cannot be looked at: {error.strerror or error}.", advice)
    if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
        return fail("home", f"{home} does not exist and cannot be made in {parent}.", advice)
    return ok("home", f"{home} does not exist yet; it is made at the first use.")


def check_disk(name: str, folder: Path, needed: int = 0) -> Check:
    """There is space left where ``folder`` is, or will be.

    Args:
        name: what the folder is for.
        needed: bytes that are known to be needed there.
    """
    free = shutil.disk_usage(nearest_folder(folder)).free
    detail = f"{free // _MIB:,} MiB are free at {folder}."
    advice = "Free some space, or choose another disk with FENESTRA_" + name.upper() + "."
    if free < needed + _FULL:
        if needed:
            detail = f"{detail[:-1]}; {needed // _MIB:,} MiB are needed."
        return fail(f"disk {name}", detail, advice)
    if free < needed + _LOW:
        return warn(f"disk {name}", detail, advice)
    return ok(f"disk {name}", detail)


def nearest_folder(path: Path) -> Path:
    """The path itself, or the nearest thing above it that exists."""
    while not path.exists() and path != path.parent:
        path = path.parent
    return path
