"""Checks of one library: who has it open, its catalog, and its vector index."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from filelock import FileLock, Timeout

from rag.doctor.check import Check, Status, fail, ok, warn
from rag.settings import Settings

_PROBE_SECONDS = 120
_BROKEN = shutil.ignore_patterns("broken-*")
"""What was set aside earlier is not looked at."""
_MADE_AGAIN = "At the next start the index is made again from the catalog."


def misplaced(path: Path, *, folder: bool = False) -> str | None:
    """What stands where a file, or a folder, belongs; ``None`` if nothing else than that."""
    if path.is_symlink() and not path.exists():
        return f"{path} is a link that leads nowhere."
    if not path.exists():
        return None
    if folder:
        return None if path.is_dir() else f"{path} is not a folder."
    if path.is_dir():
        return f"{path} is a folder, not a file."
    return None if path.is_file() else f"{path} is not a regular file."


def is_open(home: Path) -> bool:
    """Whether a process has the library open."""
    path = home / "lock"
    if not path.is_file():
        return False
    lock = FileLock(path, timeout=0)
    try:
        lock.acquire()
    except Timeout:
        return True
    lock.release()
    return False


def check_lock(home: Path) -> Check:
    """Nobody has the library open."""
    from rag.adapters.home_lock import describe_holder

    for path in (home / "lock", home / "owner.json"):
        if wrong := misplaced(path):
            return fail("lock", wrong, "Move it away, so that the library can be opened.")
    if not is_open(home):
        return ok("lock", "No other process has the library open.")
    return warn(
        "lock",
        f"The library is in use by {describe_holder(home)}.",
        "Commands on it have to wait until that is stopped.",
    )


def check_catalog(settings: Settings) -> Check:
    """The catalog opens, is sound, and has the schema of this version."""
    from rag.adapters.catalog_sql.engine import parse_url
    from rag.adapters.catalog_sql.read_only import ReadOnlyCatalog
    from rag.compose import catalog_url

    url = parse_url(catalog_url(settings))
    if url.get_backend_name() == "sqlite" and (wrong := misplaced(Path(url.database or ""))):
        return fail(
            "catalog",
            wrong,
            "Put the library file back in its place, or move this away to start with an empty "
            "library.",
        )
    catalog = ReadOnlyCatalog(catalog_url(settings))
    if not catalog.exists:
        return ok("catalog", "There is no library yet; it is made at the first use.")
    with catalog:
        damage = catalog.damage()
        if damage:
            return fail(
                "catalog",
                f"The catalog is damaged: {damage}.",
                "Restore it from a backup, or move it away to start with an empty library.",
            )
        schema = catalog.schema
        if schema == "newer":
            return fail(
                "catalog",
                "The catalog was written by a newer version of Fenestra.",
                "Update Fenestra to open it.",
            )
        if schema == "older":
            return warn(
                "catalog",
                "The catalog has the schema of an older version, or none yet.",
                "It is brought up to date at the next start, by any command.",
            )
        ready, unfinished = catalog.counts()
    if unfinished:
        return warn(
            "catalog",
            f"{ready} documents are ready, {unfinished} are half way in or out.",
            "Whoever is at work on them finishes that; if nobody is, the next start does.",
        )
    return ok("catalog", f"{ready} documents are ready.")


def check_index(settings: Settings, catalog: Check) -> Check:
    """The vector index opens and agrees with the catalog.

    It is opened as a copy, in a process of its own: opening may write, and a damaged index may
    end the process that opens it.

    Args:
        catalog: what was found about the catalog that it is compared with.
    """
    from rag.adapters.catalog_sql.read_only import ReadOnlyCatalog
    from rag.compose import catalog_url

    folder = settings.home / "chroma"
    wrong = misplaced(folder, folder=True) or misplaced(folder / "current")
    if wrong:
        return fail("index", wrong, f"Move it away. {_MADE_AGAIN}")
    if catalog.status is not Status.OK:
        return warn(
            "index",
            "The vector index was not compared with the catalog.",
            "Do first what is said about the catalog, then run this again.",
        )
    if not folder.is_dir() or not ReadOnlyCatalog(catalog_url(settings)).exists:
        return ok("index", "There is nothing to compare yet.")
    if is_open(settings.home):
        return warn(
            "index",
            "The vector index is in use, so it was not compared with the catalog.",
            "Stop what has the library open and run this again to compare them.",
        )
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    with tempfile.TemporaryDirectory(prefix="fenestra-doctor-") as scratch:
        if shutil.disk_usage(scratch).free < 2 * size:
            return warn(
                "index",
                f"There is no room in {tempfile.gettempdir()} to look at a copy of the index.",
                "Free some space there, or name another folder with TMPDIR.",
            )
        copy = Path(scratch) / "chroma"
        try:
            shutil.copytree(folder, copy, ignore=_BROKEN)
        except shutil.Error as error:
            source = error.args[0][0][0]
            return fail(
                "index",
                f"{source} cannot be read.",
                f"Correct its permissions, or move {folder} away. {_MADE_AGAIN}",
            )
        return _probed(folder, copy, settings)


def _probed(folder: Path, copy: Path, settings: Settings) -> Check:
    advice = "It is rebuilt at the next start; `fenestra rebuild` does it now."
    try:
        run = subprocess.run(
            [sys.executable, "-m", "rag.doctor.index_probe", str(copy), str(settings.home)],
            capture_output=True,
            timeout=_PROBE_SECONDS,
            env={**os.environ, "PYTHONIOENCODING": "utf-8"},
            check=False,
        )
    except subprocess.TimeoutExpired:
        return fail("index", f"The vector index did not open in {_PROBE_SECONDS} s.", advice)
    try:
        found = json.loads(run.stdout)
    except ValueError:
        return fail("index", "Opening the vector index ended the process that did it.", advice)
    if found["error"] is not None:
        detail = found["error"].partition(". ")[0].replace(str(copy), str(folder))
        return fail("index", f"{detail}.", advice)
    if not found["agrees"]:
        return fail("index", "The vector index does not agree with the catalog.", advice)
    return ok("index", f"It opens, and its {found['vectors']} vectors agree with the catalog.")
