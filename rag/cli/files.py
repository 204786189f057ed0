"""Which files the paths on the command line mean."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Entry:
    """A file to add, or a path that leads to none, with the sentence that says why."""

    path: Path
    error: str | None = None


def expand(paths: Iterable[Path]) -> Iterator[Entry]:
    """Yield the files that ``paths`` mean, folders with everything in them, sorted by name.

    Hidden files and folders inside a folder are left out, unless named themselves. Links are
    followed, but no folder is entered twice. Nothing here raises for a path that is wrong.
    """
    entered: set[tuple[int, int]] = set()
    for path in paths:
        yield from _expand(path, entered)


def _expand(path: Path, entered: set[tuple[int, int]]) -> Iterator[Entry]:
    try:
        if path.is_dir():
            yield from _walk(path, entered)
        elif path.is_file():
            yield Entry(path)
        elif path.is_symlink():
            yield Entry(path, f"“{path}” is a link that leads nowhere. Name the file itself.")
        elif path.exists():
            yield Entry(path, f"“{path}” is not a regular file. Save it as a file first.")
        else:
            yield Entry(path, f"There is no file or folder “{path}”. Check the path.")
    except (OSError, ValueError) as error:
        yield Entry(path, _refused(path, error))


def _walk(folder: Path, entered: set[tuple[int, int]]) -> Iterator[Entry]:
    try:
        status = folder.stat()
        identity = (status.st_dev, status.st_ino)
        if identity in entered:
            return
        entered.add(identity)
        names = sorted(name for name in os.listdir(folder) if not name.startswith("."))
    except OSError as error:
        yield Entry(folder, _refused(folder, error))
        return
    for name in names:
        yield from _expand(folder / name, entered)


def _refused(path: Path, error: Exception) -> str:
    reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
    return f"“{path}” cannot be read: {reason}. Check its permissions."
