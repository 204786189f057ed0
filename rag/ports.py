"""Where the outside begins: one Protocol per seam, as narrow as its callers.

The real things live in :mod:`rag.adapters`, the doubles in :mod:`rag.testing`; one contract
suite runs on both.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from rag.domain import (
    AddEvent,
    AskEvent,
    Chunk,
    ChunkSettings,
    Collection,
    Document,
    DocumentText,
    ExtractedText,
    Message,
    Progress,
    Span,
    SpanText,
    Status,
    StreamEnd,
    TextDelta,
)

Vectors = NDArray[np.float32]
"""Shape (rows, dimensions), every row of length 1."""

AddEvents = Generator[AddEvent, None, None]
"""Closing it early takes back what was begun."""

AskEvents = Generator[AskEvent, None, None]
"""Closing it early stops the model's work."""

Steps = Generator[Progress, None, None]
"""Work that tells how far it is."""

AnswerStream = Generator[Progress | TextDelta | StreamEnd, None, None]
"""What a chat model yields; closing it stops the model's work."""

Report = Callable[[Progress], None]
"""Called with progress; must not raise."""


class Reader(Protocol):
    """Turns the bytes of a file into text."""

    def read(self, name: str, data: bytes) -> ExtractedText:
        """Return the text of a file.

        Args:
            name: the name as uploaded; a hint about the format, never a path.
            data: the whole file.

        Raises:
            DocumentError: the file cannot be read; the message names the file and what to do.
        """
        ...

    def close(self) -> None:
        """Let go of what was started. Safe to call twice."""
        ...


class Tokenizer(Protocol):
    """The embedding model's own tokenizer, special tokens left out."""

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """Return (start, end) in ``text`` of every token, in order."""
        ...

    def count(self, texts: Sequence[str]) -> list[int]:
        """Return the number of tokens of each text."""
        ...


class Embedder(Tokenizer, Protocol):
    """Turns text into vectors. Queries and documents are different calls."""

    @property
    def model(self) -> str:
        """Identity: name and revision. Vectors of different identities never mix."""
        ...

    @property
    def dimensions(self) -> int:
        """Length of a vector."""
        ...

    @property
    def max_tokens(self) -> int:
        """Most tokens it reads at once, special tokens left out."""
        ...

    def load(self) -> None:
        """Load the model now rather than at first use. Safe to call twice."""
        ...

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Return one unit vector per text, in order. No text is cut silently."""
        ...

    def embed_query(self, text: str) -> Vectors:
        """Return the unit vector of a question, shape (1, dimensions)."""
        ...


class VectorIndex(Protocol):
    """Nearest neighbours by cosine. Rebuildable from the catalog at any time.

    A *space* is the name of one set of vectors: one collection under one embedding model.
    """

    def upsert(
        self, space: str, document_id: str, indices: Sequence[int], vectors: Vectors
    ) -> None:
        """Add or overwrite the vectors of some chunks of a document, in batches."""
        ...

    def delete(self, space: str, document_id: str) -> None:
        """Remove all vectors of a document; nothing happens if there are none."""
        ...

    def drop(self, space: str) -> None:
        """Remove a space; nothing happens if there is none."""
        ...

    def query(self, space: str, vector: Vectors, n: int) -> list[tuple[str, int, float]]:
        """Return up to ``n`` (document id, chunk index, cosine), nearest first.

        Equal cosines are ordered by document id and chunk index. An unknown space is empty.
        """
        ...

    def count(self, space: str) -> int:
        """Number of vectors in a space; 0 if there is none."""
        ...

    def ids(self, space: str) -> dict[str, int]:
        """Number of vectors of each document id in a space."""
        ...

    def begin_rebuild(self) -> VectorIndex:
        """Return an empty index beside this one, to be filled while this one still answers."""
        ...

    def switch(self, fresh: VectorIndex) -> None:
        """Take over the content of ``fresh`` (from :meth:`begin_rebuild`); drop the old one."""
        ...

    def close(self) -> None:
        """Let go of files and connections. Safe to call twice."""
        ...


class Catalog(Protocol):
    """The truth about a library: collections, documents, text, chunks and their vectors.

    Every call takes the owner first and sees nothing of anybody else; ``NotFound`` is raised
    for what is missing and for what belongs to another owner alike. Each writing call is one
    transaction.
    """

    # collections
    def create_collection(
        self, owner: str, name: str, chunking: ChunkSettings, embedding_model: str
    ) -> Collection:
        """Create a collection; raises ``SettingsError`` if the owner has one of that name."""
        ...

    def collections(self, owner: str) -> list[Collection]:
        """The owner's collections, oldest first."""
        ...

    def collection(self, owner: str, name: str) -> Collection:
        """The collection of that name. Raises ``NotFound``."""
        ...

    # documents
    def insert_document(
        self,
        owner: str,
        document: Document,
        text: DocumentText,
        chunks: Sequence[Chunk],
        vectors: Vectors,
    ) -> None:
        """Write a document with text, chunks and vectors (kept as float16), all or nothing.

        ``document.status`` is normally ``INDEXING``. ``vectors`` has one row per chunk.
        """
        ...

    def set_status(self, owner: str, document_ids: Sequence[str], status: Status) -> None:
        """Set the status of documents, in one transaction. Raises ``NotFound``."""
        ...

    def promote(self, owner: str, document_id: str) -> list[str]:
        """Mark a document ``READY``, and let its source stand for it from now on.

        Returns the documents that no source stands for any more, which are ``DELETING`` from
        the same moment on. Raises ``NotFound``.
        """
        ...

    def claim_source(self, owner: str, document_id: str, source: str) -> list[str]:
        """Let one more source stand for a document, as files with the same bytes do.

        Returns what :meth:`promote` returns. Raises ``NotFound``.
        """
        ...

    def delete_document(self, owner: str, document_id: str) -> None:
        """Remove every row of a document; nothing happens if it is gone."""
        ...

    def documents(
        self, owner: str, collection_id: str | None = None, status: Status | None = None
    ) -> list[Document]:
        """Documents, oldest first, without text; all collections if none is named."""
        ...

    def document(self, owner: str, document_id: str) -> Document:
        """One document. Raises ``NotFound``."""
        ...

    def documents_by_id(self, owner: str, document_ids: Sequence[str]) -> dict[str, Document]:
        """The documents among these ids that exist and belong to the owner. One query."""
        ...

    def document_text(self, owner: str, document_id: str) -> DocumentText:
        """The text of a document. Raises ``NotFound``."""
        ...

    def chunks(self, owner: str, document_id: str) -> list[Chunk]:
        """All chunks of a document in index order. Raises ``NotFound``."""
        ...

    def read_spans(self, owner: str, spans: Sequence[Span]) -> list[SpanText]:
        """Chunks and text of spans, in the order asked for: one indexed query for all.

        A span's text is cut out of the document's text once, from its first chunk's start to
        its last chunk's end. Raises ``NotFound`` if a document or a first or last chunk of a
        span is missing.
        """
        ...

    def vectors(self, owner: str, document_id: str) -> Vectors:
        """The vectors of a document in chunk order, as float32 of length 1."""
        ...

    def owners(self) -> list[str]:
        """Everybody who owns a collection: for start-up recovery only."""
        ...

    def close(self) -> None:
        """Let go of connections. Safe to call twice."""
        ...


class ChatModel(Protocol):
    """A language model that streams."""

    @property
    def name(self) -> str:
        """Name of the model as configured."""
        ...

    @property
    def parallel(self) -> bool:
        """Whether two answers at once are sooner than one after the other."""
        ...

    def start(self) -> None:
        """Get ready in the background; returns at once. Safe to call twice."""
        ...

    def wait_ready(self) -> Steps:
        """Yield progress until the model can answer. Raises ``ModelError``."""
        ...

    def stream(
        self, messages: Sequence[Message], *, max_tokens: int, temperature: float
    ) -> AnswerStream:
        """Stream an answer. Closing the generator stops the model's work.

        ``Progress`` comes whenever there is no text for a moment, so that the caller gets a turn
        to close it. A stream that breaks off ends with ``StreamEnd("incomplete", …)`` once text
        has come.

        Raises:
            ModelError: before any text came; the message says what to do.
        """
        ...

    def check(self) -> Mapping[str, str]:
        """Details for diagnosis (address, model, version). Raises ``ModelError``."""
        ...

    def close(self) -> None:
        """Stop what was started. Safe to call twice."""
        ...
