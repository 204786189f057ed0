"""Opens Chroma's folder, and proves in a process of its own that it can be read.

A folder whose writer was killed may raise, hang, or crash whoever opens it; only a process that
may be lost finds out safely. It runs as ``python chroma_check.py FOLDER``, by path, so that it
imports nothing of Fenestra, whatever the working directory holds. Exit status 0: readable.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import cast

import chromadb
import numpy as np
from chromadb.api.client import Client
from chromadb.config import Settings

_PAGES = 10
"""Samples of a collection that are looked at, from its first rows to its last."""
_PAGE = 5_000
"""Rows of a sample."""


def open_client(folder: Path) -> Client:
    """Open Chroma's files in ``folder``, or make them. It sends nothing to anybody."""
    client = chromadb.PersistentClient(
        path=str(folder), settings=Settings(anonymized_telemetry=False)
    )
    # The declared type cannot be closed.
    return cast(Client, client)


def read_everywhere(folder: Path) -> None:
    """Count, read and search every collection in ``folder``.

    Raises:
        ValueError: there are no vectors where they are counted, or some are not of length 1.
        Exception: whatever Chroma raises.
    """
    client = open_client(folder)
    for name in [collection.name for collection in client.list_collections()]:
        collection = client.get_collection(name, embedding_function=None)
        rows = collection.count()
        if not rows:
            continue
        last = max(0, rows - _PAGE)
        for offset in sorted({last * page // (_PAGES - 1) for page in range(_PAGES)}):
            vectors = collection.get(limit=_PAGE, offset=offset, include=["embeddings"])
            lengths = np.linalg.norm(np.asarray(vectors["embeddings"]), axis=-1)
            # Of a file that breaks off, Chroma takes the rest from whatever is in memory.
            if not lengths.size or not np.allclose(lengths, 1.0, atol=1e-3):
                raise ValueError(f"{name} holds vectors that were not written to it")
        first = np.asarray(collection.get(limit=1, include=["embeddings"])["embeddings"])
        collection.query(query_embeddings=first, n_results=1, include=[])
    client.close()


def readable(folder: Path, seconds: float) -> bool:
    """Whether a child process can read all of ``folder`` within a time limit."""
    child = subprocess.Popen(
        [sys.executable, "-P", __file__, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        return child.wait(seconds) == 0
    except subprocess.TimeoutExpired:
        return False
    finally:
        child.kill()
        child.wait()
        if child.stdin is not None:
            child.stdin.close()


def _end_with_parent() -> None:
    # Standard input ends when the parent does, even if that was killed.
    sys.stdin.buffer.read()
    os._exit(1)


if __name__ == "__main__":
    threading.Thread(target=_end_with_parent, daemon=True).start()
    read_everywhere(Path(sys.argv[1]))
    # Nothing is left to do but to leave; waiting for the reader of standard input is not.
    os._exit(0)
