"""A table of vectors in memory that is searched exactly."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np

from rag.ports import Vectors


class VectorTable:
    """Vectors of chunks, found by exact cosine. Safe to use from several threads.

    A search costs one matrix product, so its time grows with the rows.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._keys: list[tuple[str, int]] = []
        self._rows: dict[tuple[str, int], int] = {}
        self._matrix: Vectors = np.zeros((0, 0), dtype=np.float32)

    def __len__(self) -> int:
        return len(self._keys)

    def upsert(self, document_id: str, indices: Sequence[int], vectors: Vectors) -> None:
        """Add or overwrite unit vectors, shape (indices, dimensions)."""
        with self._lock:
            keys = [(document_id, int(index)) for index in indices]
            new = [key for key in keys if key not in self._rows]
            self._reserve(len(self._keys) + len(new), vectors.shape[1])
            for key in new:
                self._rows[key] = len(self._keys)
                self._keys.append(key)
            self._matrix[[self._rows[key] for key in keys]] = vectors

    def delete(self, document_id: str) -> None:
        """Remove all vectors of a document."""
        with self._lock:
            kept = [row for row, key in enumerate(self._keys) if key[0] != document_id]
            if len(kept) < len(self._keys):
                self._matrix = self._matrix[kept]
                self._keys = [self._keys[row] for row in kept]
                self._rows = {key: row for row, key in enumerate(self._keys)}

    def query(self, vector: Vectors, n: int) -> list[tuple[str, int, float]]:
        """Up to ``n`` (document id, chunk index, cosine), nearest first, ties by id and index.

        Cosines are rounded to 6 decimals, as float32 is not surer of them.
        """
        with self._lock:
            n = min(n, len(self._keys))
            if n <= 0:
                return []
            cosines = np.round(self._matrix[: len(self._keys)] @ vector.reshape(-1), 6)
            last_wanted = np.partition(cosines, len(cosines) - n)[len(cosines) - n]
            near = np.flatnonzero(cosines >= last_wanted)
            found = [(*self._keys[row], float(cosines[row])) for row in near]
        return sorted(found, key=lambda hit: (-hit[2], hit[0], hit[1]))[:n]

    def counts(self) -> dict[str, int]:
        """Number of vectors of each document."""
        with self._lock:
            counts: dict[str, int] = {}
            for document_id, _ in self._keys:
                counts[document_id] = counts.get(document_id, 0) + 1
            return counts

    def _reserve(self, rows: int, dimensions: int) -> None:
        """Make room; doubling keeps many small additions cheap."""
        if rows > len(self._matrix):
            grown = np.zeros((max(rows, 2 * len(self._matrix)), dimensions), dtype=np.float32)
            if self._keys:
                grown[: len(self._keys)] = self._matrix[: len(self._keys)]
            self._matrix = grown
