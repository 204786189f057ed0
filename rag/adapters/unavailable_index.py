"""Stands in for a vector index that cannot be used now, so that the rest of a library can."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from rag.errors import IndexUnavailable
from rag.ports import VectorIndex, Vectors


class UnavailableIndex:
    """A :class:`rag.ports.VectorIndex` that says why there is none.

    Documents can be removed all the same: at the next start the real index does not agree with
    the catalog and is rebuilt from it.
    """

    def __init__(self, reason: str) -> None:
        """Raise ``reason``, a sentence with what to do, wherever vectors are needed."""
        self._reason = reason

    def upsert(
        self, space: str, document_id: str, indices: Sequence[int], vectors: Vectors
    ) -> None:
        """Raises ``IndexUnavailable``."""
        self._refuse()

    def delete(self, space: str, document_id: str) -> None:
        """Nothing to do."""

    def drop(self, space: str) -> None:
        """Nothing to do."""

    def query(self, space: str, vector: Vectors, n: int) -> list[tuple[str, int, float]]:
        """Raises ``IndexUnavailable``."""
        self._refuse()

    def count(self, space: str) -> int:
        """Raises ``IndexUnavailable``."""
        self._refuse()

    def ids(self, space: str) -> dict[str, int]:
        """Raises ``IndexUnavailable``."""
        self._refuse()

    def begin_rebuild(self) -> VectorIndex:
        """Raises ``IndexUnavailable``."""
        self._refuse()

    def switch(self, fresh: VectorIndex) -> None:
        """Raises ``IndexUnavailable``."""
        self._refuse()

    def close(self) -> None:
        """Nothing to let go of."""

    def _refuse(self) -> NoReturn:
        raise IndexUnavailable(f"{self._reason} The search index is mended at the next start.")
