"""Tells a damaged index from a disk that refuses: only the first is mended by a rebuild.

Chroma reports both in the same classes and mostly as text from SQLite or Rust, so the text is
looked at; where that says nothing, a file is written beside the index to find out.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from rag.errors import EmbeddingMismatch, IndexDamaged, IndexUnavailable, StoreError

OTHER_LENGTH = (
    "The vectors of this collection have another length than those of the embedding model in "
    "use. Set FENESTRA_EMBEDDING_MODEL back, or add the documents to a new collection."
)

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_REFUSALS = (
    *_FULL,
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
    errno.EIO,
    errno.EMFILE,
    errno.ENFILE,
    errno.ENOMEM,
)
"""Answers of the system that say nothing about what is in the files."""
_SQLITE = {
    "database or disk is full": errno.ENOSPC,
    "readonly database": errno.EACCES,
}
_PROBE_BYTES = 4 * 1024 * 1024
"""About what Chroma sets aside at once for the graph of a new collection."""


def damaged(root: Path) -> IndexDamaged:
    """The error for files of an index that are not what they should be."""
    return IndexDamaged(
        f"The search index in {root} is damaged. Run `fenestra rebuild`: it is made again from "
        "the library, nothing is lost."
    )


def refused(root: Path, number: int | None) -> IndexUnavailable:
    """The error for a disk or system that did not do what it was asked.

    Args:
        number: its ``errno``, if known.
    """
    if number in _FULL:
        return IndexUnavailable(
            f"The disk that holds {root} is full. Free some space and try again."
        )
    reason = os.strerror(number) if number is not None else "unknown reason"
    return IndexUnavailable(
        f"The folder {root} cannot be written to ({reason}). Check its permissions and the free "
        "space of its disk, or choose another folder with FENESTRA_HOME."
    )


def unreadable(root: Path, reason: str = "") -> IndexUnavailable:
    """The error for an index that cannot be read or written: damaged, unless the disk refuses.

    Args:
        reason: what Chroma said.
    """
    for number in _REFUSALS:
        if os.strerror(number) in reason or re.search(rf"\bos error {number}\b", reason):
            return refused(root, number)
    for text, number in _SQLITE.items():
        if text in reason:
            return refused(root, number)
    refusal = _refusal(root)
    if refusal is None and "disk I/O error" in reason:
        refusal = errno.EIO
    return damaged(root) if refusal is None else refused(root, refusal)


def disk_full(root: Path) -> bool:
    """Whether there is too little room in ``root`` for an index to work with."""
    return _refusal(root) in _FULL


def _refusal(root: Path) -> int | None:
    """Why a file cannot be written in ``root``, or ``None`` if it can."""
    probe = root / "probe"
    try:
        with probe.open("wb") as file:
            file.write(bytes(_PROBE_BYTES))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        return error.errno
    finally:
        # The disk that refused the file may refuse this too, and then there is no file.
        with suppress(OSError):
            probe.unlink(missing_ok=True)
    return None


@contextmanager
def translated(root: Path) -> Iterator[None]:
    """Raise ``IndexUnavailable`` or ``EmbeddingMismatch`` instead of what Chroma raises."""
    try:
        yield
    except StoreError:
        raise
    except BaseException as error:
        # A panic in Chroma's Rust code is a BaseException whose class cannot be imported.
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        if "with dimension" in str(error):
            raise EmbeddingMismatch(OTHER_LENGTH) from error
        raise unreadable(root, str(error)) from error
