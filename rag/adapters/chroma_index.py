"""The vector index on Chroma, kept in a folder. One Chroma collection for each space.

Everything in it also lies in the catalog, so whatever happens to it can be rebuilt.

A graph index cannot be trusted to reach every vector: where many chunks are nearly equal (log
files, spreadsheets, templates), a lone different one loses its only link and is not found even
by itself. In one test with 1,500 alike chunks that befell 6 of 8 documents added later. So a
space of up to ``EXACT_ROWS`` chunks is searched exactly, over the vectors that Chroma keeps; in a
larger one Chroma's graph answers.
"""

from __future__ import annotations

import hashlib
import re
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from chromadb.api.client import Client
from chromadb.api.collection_configuration import CreateCollectionConfiguration
from chromadb.api.models.Collection import Collection
from chromadb.errors import NotFoundError

from rag import checkpoints
from rag.adapters.chroma_check import open_client, readable
from rag.adapters.chroma_failures import OTHER_LENGTH, disk_full, translated, unreadable
from rag.adapters.chroma_folder import IndexFolder
from rag.adapters.vector_table import VectorTable
from rag.errors import EmbeddingMismatch, IndexUnavailable
from rag.ports import VectorIndex, Vectors

_CONFIGURATION: CreateCollectionConfiguration = {
    "hnsw": {
        "space": "cosine",
        # Measured on random vectors of 384 dimensions, which are the hardest: with Chroma's own
        # values (16 neighbours, search 100) 10 of 5,000 are found with a recall of 0.68; with
        # these it is 1.00, and 0.99 of 20,000, for half as much again of building time. A longer
        # ``ef_construction`` than the default adds building time and no recall.
        "max_neighbors": 32,
        "ef_construction": 100,
        "ef_search": 1000,
    }
}
EXACT_ROWS = 50_000
"""A larger space is searched by the graph. Exact search of so many took 5 to 10 ms on 2 cores,
and takes 75 MiB of memory, at 384 dimensions."""
_CHECK_SECONDS = 120.0
_PAGE = 5_000
"""Rows read or deleted at once: SQLite, which Chroma keeps them in, limits values a query."""
_MOST_TIES = 1_000


@dataclass(slots=True)
class _Generation:
    """One generation in use and how many calls are under way on it.

    Without a client it is opened by the next call.
    """

    path: Path
    client: Client | None
    calls: int = 0


class ChromaIndex:
    """A :class:`rag.ports.VectorIndex`. Safe to use from several threads.

    Every method raises ``IndexDamaged`` where what Chroma keeps is broken, and another
    ``IndexUnavailable`` where the disk or the system refuses.
    """

    def __init__(self, folder: IndexFolder, generation: Path, *, fresh: bool = False) -> None:
        """For :meth:`open` and :meth:`begin_rebuild`, whose index is ``fresh``."""
        self._folder = folder
        self._fresh = fresh
        self._changed = threading.Condition()
        with translated(folder.root):
            client = open_client(generation)
        self._generation: _Generation | None = _Generation(generation, client)
        self._writing = threading.RLock()
        self._tables: dict[str, VectorTable] = {}
        """Spaces that are searched exactly, loaded at their first query."""

    @staticmethod
    def open(folder: Path) -> ChromaIndex:
        """Open the index in ``folder``; without one, an empty index is made.

        After a process that did not close it, the index is first read in a child process.

        Raises:
            IndexDamaged: it cannot be read; :meth:`set_aside` makes room for a new one.
            IndexUnavailable: the disk or the system refuses.
        """
        files = IndexFolder(folder)
        generation = files.current()
        if generation is None:
            generation = files.new_generation()
            try:
                files.make_current(generation)
            except IndexUnavailable:
                files.remove(generation)
                raise
        elif files.in_use:
            with translated(folder):
                sound = readable(generation, _CHECK_SECONDS)
            if not sound:
                raise unreadable(folder)
        files.remove_others(generation)
        # Reading marks the folder too: Chroma completes its files when it next opens them.
        files.enter()
        return ChromaIndex(files, generation)

    @staticmethod
    def set_aside(folder: Path) -> None:
        """Put a broken index aside, so that ``open`` makes an empty one. It must be closed.

        Raises:
            IndexUnavailable: the disk or the system refuses.
        """
        IndexFolder(folder).set_aside()

    @staticmethod
    def make_room(folder: Path) -> bool:
        """If the disk is full, remove an index that is of no use as it is. It must be closed.

        Returns:
            Whether anything was removed; ``open`` makes an empty index then.

        Raises:
            IndexUnavailable: the disk or the system refuses.
        """
        return disk_full(folder) and IndexFolder(folder).discard()

    def upsert(
        self, space: str, document_id: str, indices: Sequence[int], vectors: Vectors
    ) -> None:
        """See :meth:`rag.ports.VectorIndex.upsert`."""
        if len(indices) != len(vectors):
            raise ValueError(f"{len(indices)} indices need as many vectors, got {len(vectors)}")
        start = 0
        while start < len(indices):
            with self._write() as client:
                collection = client.get_or_create_collection(
                    _name(space), embedding_function=None, configuration=_CONFIGURATION
                )
                end = start + client.get_max_batch_size()
                batch = indices[start:end]
                collection.upsert(
                    ids=[f"{document_id}:{index}" for index in batch],
                    embeddings=np.asarray(vectors[start:end], dtype=np.float32),
                    metadatas=[{"document_id": document_id, "index": index} for index in batch],
                )
                if (table := self._tables.get(space)) is not None:
                    table.upsert(document_id, batch, vectors[start:end])
                    if len(table) > EXACT_ROWS:
                        del self._tables[space]
            checkpoints.reached("ingest:index-batch")
            start = end

    def delete(self, space: str, document_id: str) -> None:
        """See :meth:`rag.ports.VectorIndex.delete`."""
        with self._write() as client:
            if (table := self._tables.get(space)) is not None:
                table.delete(document_id)
            collection = _find(client, space)
            while collection is not None:
                ids = collection.get(where={"document_id": document_id}, limit=_PAGE, include=[])
                if not ids["ids"]:
                    return
                collection.delete(ids=ids["ids"])

    def drop(self, space: str) -> None:
        """See :meth:`rag.ports.VectorIndex.drop`."""
        with self._write() as client:
            self._tables.pop(space, None)
            if _find(client, space) is not None:
                client.delete_collection(_name(space))

    def query(self, space: str, vector: Vectors, n: int) -> list[tuple[str, int, float]]:
        """See :meth:`rag.ports.VectorIndex.query`.

        Cosines are rounded to 6 decimals, as float32 is not surer of them. Which of more than
        1,000 chunks with the same cosine are among the ``n`` is left to Chroma.
        """
        if n <= 0:
            return []
        with self._call() as client:
            table = self._tables.get(space)
            if table is not None:
                return self._exact(table, vector, n)
            collection = _find(client, space)
            size = 0 if collection is None else collection.count()
            if collection is None or size == 0:
                return []
            if size <= EXACT_ROWS:
                return self._exact(self._load(space, collection), vector, n)
            n = min(n, size)
            # Chunks that tie with the last one wanted are needed too, to choose among them by id.
            fetch, most = min(n + 8, size), min(n + _MOST_TIES, size)
            while True:
                found = _nearest(collection, vector, fetch)
                enough = len(found) >= n and (len(found) < fetch or found[-1][2] != found[n - 1][2])
                if enough or fetch == most:
                    break
                fetch = min(fetch * 2, most)
        return sorted(found, key=lambda hit: (-hit[2], hit[0], hit[1]))[:n]

    def _load(self, space: str, collection: Collection) -> VectorTable:
        """Read a space's vectors out of Chroma."""
        with self._writing:
            if (table := self._tables.get(space)) is not None:
                return table
            table = VectorTable()
            for offset in range(0, collection.count(), _PAGE):
                page: Any = collection.get(limit=_PAGE, offset=offset, include=["embeddings"])
                vectors = np.asarray(page["embeddings"], dtype=np.float32)
                vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
                rows: dict[str, list[int]] = {}
                for row, row_id in enumerate(page["ids"]):
                    rows.setdefault(row_id.rpartition(":")[0], []).append(row)
                for document_id, places in rows.items():
                    indices = [int(page["ids"][row].rpartition(":")[2]) for row in places]
                    table.upsert(document_id, indices, vectors[places])
            self._tables[space] = table
            return table

    @staticmethod
    def _exact(table: VectorTable, vector: Vectors, n: int) -> list[tuple[str, int, float]]:
        try:
            return table.query(vector, n)
        except ValueError as error:
            raise EmbeddingMismatch(OTHER_LENGTH) from error

    def count(self, space: str) -> int:
        """See :meth:`rag.ports.VectorIndex.count`."""
        with self._call() as client:
            collection = _find(client, space)
            return 0 if collection is None else collection.count()

    def ids(self, space: str) -> dict[str, int]:
        """See :meth:`rag.ports.VectorIndex.ids`."""
        counts: Counter[str] = Counter()
        with self._call() as client:
            collection = _find(client, space)
            if collection is not None:
                for offset in range(0, collection.count(), _PAGE):
                    page = collection.get(limit=_PAGE, offset=offset, include=[])
                    counts.update(row.rpartition(":")[0] for row in page["ids"])
        return dict(counts)

    def begin_rebuild(self) -> ChromaIndex:
        """See :meth:`rag.ports.VectorIndex.begin_rebuild`."""
        generation = self._folder.new_generation()
        try:
            return ChromaIndex(self._folder, generation, fresh=True)
        except IndexUnavailable:
            self._folder.remove(generation)
            raise

    def switch(self, fresh: VectorIndex) -> None:
        """See :meth:`rag.ports.VectorIndex.switch`. ``fresh`` is closed by it."""
        if not isinstance(fresh, ChromaIndex):
            raise TypeError(f"cannot switch to a {type(fresh).__name__}")
        with self._changed:
            old, new = self._generation, fresh._generation
            if old is None or new is None:
                raise IndexUnavailable(_CLOSED)
            self._folder.make_current(new.path)
            self._generation, fresh._generation = new, None
            self._tables = fresh._tables
        checkpoints.reached("rebuild:switched")
        self._close(old)
        self._folder.remove_others(new.path)
        checkpoints.reached("rebuild:old-removed")

    def close(self) -> None:
        """See :meth:`rag.ports.VectorIndex.close`. A fresh index not switched to is removed."""
        with self._changed:
            generation, self._generation = self._generation, None
        if generation is None:
            return
        try:
            self._close(generation)
        finally:
            if self._fresh:
                self._folder.remove(generation.path)
        if not self._fresh:
            self._folder.leave()

    @contextmanager
    def _call(self) -> Iterator[Client]:
        """The client of the current generation, which stays open for the length of the block."""
        with self._changed:
            generation = self._generation
            if generation is None:
                raise IndexUnavailable(_CLOSED)
            if generation.client is None:
                with translated(self._folder.root):
                    generation.client = open_client(generation.path)
            client = generation.client
            generation.calls += 1
        try:
            with translated(self._folder.root):
                yield client
        except IndexUnavailable as error:
            if generation.client is None:
                raise IndexUnavailable(_INTERRUPTED) from error
            raise
        finally:
            with self._changed:
                generation.calls -= 1
                self._changed.notify_all()

    @contextmanager
    def _write(self) -> Iterator[Client]:
        """As :meth:`_call`, for one writer at a time.

        After a write that failed, a full disk is enough, Chroma may keep later calls waiting
        forever. Opened anew it does not.
        """
        with self._writing:
            try:
                with self._call() as client:
                    yield client
            except IndexUnavailable:
                self._open_anew()
                raise

    def _open_anew(self) -> None:
        """Close Chroma; the next call opens it. Calls under way, which may hang, are left."""
        with self._changed:
            generation = self._generation
            if generation is None or generation.client is None:
                return
            self._generation = _Generation(generation.path, None)
            self._tables = {}
            client, generation.client = generation.client, None
            with suppress(IndexUnavailable), translated(self._folder.root):
                client.close()

    def _close(self, generation: _Generation) -> None:
        """Wait for the calls under way, then close: files under an open client cannot go."""
        with self._changed:
            self._changed.wait_for(lambda: generation.calls == 0)
        if generation.client is not None:
            with translated(self._folder.root):
                generation.client.close()


def _name(space: str) -> str:
    """Chroma's name of a space: ASCII, 3 to 63 characters, different for different spaces."""
    if re.fullmatch(r"[a-z0-9][a-z0-9-]{1,61}[a-z0-9]", space):
        return space
    # A dot is in no name of the first kind.
    return f"sha256.{hashlib.sha256(space.encode()).hexdigest()[:56]}"


def _find(client: Client, space: str) -> Collection | None:
    # Fetched anew each time: a handle does not survive that its collection is made again.
    try:
        return client.get_collection(_name(space), embedding_function=None)
    except NotFoundError:
        return None


def _nearest(collection: Collection, vector: Vectors, n: int) -> list[tuple[str, int, float]]:
    result: Any = collection.query(
        query_embeddings=np.asarray(vector, dtype=np.float32).reshape(1, -1),
        n_results=n,
        include=["metadatas", "distances"],
    )
    return [
        (metadata["document_id"], int(metadata["index"]), round(max(-1.0, 1.0 - distance), 6))
        for metadata, distance in zip(result["metadatas"][0], result["distances"][0], strict=True)
        # Chroma reads metadata after it has searched: a row deleted in between has none.
        if metadata is not None
    ]


_CLOSED = "The search index is closed. Open the library again."
_INTERRUPTED = "The search index was opened anew after a failure. Try again."
