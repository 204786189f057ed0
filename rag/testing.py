"""Doubles of the ports, shipped for tests of Fenestra and of programs built on it.

They are real implementations of the same contracts, only without models and files: the
contract suites run on them as on the real things.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

import numpy as np

from rag.adapters.vector_table import VectorTable
from rag.ports import Vectors
from rag.testing_chat import Reply, ScriptedChat

__all__ = ["HashEmbedder", "MemoryIndex", "Reply", "ScriptedChat"]

_WORD = re.compile(r"\w+|[^\w\s]")


class HashEmbedder:
    """An embedder without a model: words are hashed into a bag-of-words vector.

    Texts that share words are near each other, so retrieval behaves sensibly; nothing else
    about meaning is known to it. A token is a word or a punctuation mark.
    """

    model = "hash@1"
    dimensions = 256
    max_tokens = 254

    def load(self) -> None:
        """Nothing to load."""

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """(start, end) of every token."""
        return [match.span() for match in _WORD.finditer(text)]

    def count(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text."""
        return [len(self.offsets(text)) for text in texts]

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """One unit vector per text."""
        vectors = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        for row, text in enumerate(texts):
            for word in _WORD.findall(text.lower()):
                digest = hashlib.blake2b(word.encode("utf-8", "replace"), digest_size=8).digest()
                vectors[row, int.from_bytes(digest, "big") % self.dimensions] += 1.0
            if not vectors[row].any():
                vectors[row, 0] = 1.0
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors

    def embed_query(self, text: str) -> Vectors:
        """The unit vector of a question, shape (1, dimensions)."""
        return self.embed_documents([text])


class MemoryIndex:
    """A vector index that is exact and forgets everything when the process ends."""

    def __init__(self) -> None:
        self._spaces: dict[str, VectorTable] = {}

    def upsert(
        self, space: str, document_id: str, indices: Sequence[int], vectors: Vectors
    ) -> None:
        """Add or overwrite vectors."""
        if len(indices) != len(vectors):
            raise ValueError(f"{len(indices)} indices need as many vectors, got {len(vectors)}")
        if len(indices):
            self._spaces.setdefault(space, VectorTable()).upsert(document_id, indices, vectors)

    def delete(self, space: str, document_id: str) -> None:
        """Remove all vectors of a document."""
        if space in self._spaces:
            self._spaces[space].delete(document_id)

    def drop(self, space: str) -> None:
        """Remove a space."""
        self._spaces.pop(space, None)

    def query(self, space: str, vector: Vectors, n: int) -> list[tuple[str, int, float]]:
        """Nearest first; equal cosines by document id and chunk index."""
        return self._spaces[space].query(vector, n) if space in self._spaces else []

    def count(self, space: str) -> int:
        """Vectors in a space."""
        return len(self._spaces.get(space, ()))

    def ids(self, space: str) -> dict[str, int]:
        """Vectors per document."""
        return self._spaces[space].counts() if space in self._spaces else {}

    def begin_rebuild(self) -> MemoryIndex:
        """An empty index."""
        return MemoryIndex()

    def switch(self, fresh: MemoryIndex) -> None:
        """Take over the content of ``fresh``."""
        self._spaces = fresh._spaces

    def close(self) -> None:
        """Nothing to let go of."""
