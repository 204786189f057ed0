"""The values that Fenestra's parts hand to each other. Frozen, and nothing else.

Offsets (``start``, ``end``, ``page_starts``) count characters (Unicode code points) of
:attr:`Document.text`. Token counts are those of the embedding model's own tokenizer, special
tokens left out. Times are seconds unless a name says ``_ms``.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from enum import StrEnum

LOCAL_OWNER = "local"
"""The owner of everything while there is no sign-in."""

DEFAULT_COLLECTION = "My documents"


class Status(StrEnum):
    """What a document is; only ``READY`` documents are ever searched."""

    INDEXING = "indexing"
    READY = "ready"
    DELETING = "deleting"


class Strategy(StrEnum):
    """How ranked chunks become passages."""

    ISOLATED = "isolated"
    WINDOW = "window"
    DOCUMENT = "document"


@dataclass(frozen=True, slots=True)
class ChunkSettings:
    """How a collection cuts its documents.

    Attributes:
        tokens: most tokens in a chunk, at least 8.
        overlap: tokens repeated from the chunk before, 0 to half of ``tokens``.
    """

    tokens: int = 64
    overlap: int = 0


@dataclass(frozen=True, slots=True)
class Collection:
    """A named set of documents that share chunk settings and an embedding model."""

    id: str
    owner: str
    name: str
    chunking: ChunkSettings
    embedding_model: str
    """Identity of the embedding model: name and revision."""
    created_at: float

    @property
    def space(self) -> str:
        """Name of its vectors in the index: another model gets another space."""
        return f"{self.id}-{hashlib.sha256(self.embedding_model.encode()).hexdigest()[:12]}"


@dataclass(frozen=True, slots=True)
class Heading:
    """A section heading of a document."""

    start: int
    level: int
    title: str


@dataclass(frozen=True, slots=True)
class ExtractedText:
    """What a reader got out of a file."""

    text: str
    media_type: str
    page_starts: tuple[int, ...] = ()
    """Offset at which each page starts; empty where the format has no pages."""
    headings: tuple[Heading, ...] = ()
    warnings: tuple[str, ...] = ()
    """What was not read or not understood, as sentences."""


@dataclass(frozen=True, slots=True)
class Document:
    """A document without its text, as lists show it."""

    id: str
    owner: str
    collection_id: str
    name: str
    """The name as uploaded; never used as a path."""
    source: str | None
    """Absolute path on the command line; ``None`` for uploads."""
    sha256: str
    media_type: str
    bytes: int
    status: Status
    chunks: int
    tokens: int
    pages: int
    warnings: tuple[str, ...]
    added_at: float


@dataclass(frozen=True, slots=True)
class DocumentText:
    """A document's text and what is known about its places."""

    text: str
    page_starts: tuple[int, ...]
    headings: tuple[Heading, ...]


@dataclass(frozen=True, slots=True)
class Chunk:
    """An exact slice of a document: ``document.text[start:end] == text``."""

    index: int
    start: int
    end: int
    text: str
    tokens: int
    page: int | None = None
    """1-based page on which the chunk starts."""
    section: str | None = None
    """Titles of the headings it stands under, outermost first, joined by " > "."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A chunk that matches a question.

    Attributes:
        similarity: cosine of question and chunk, 0 to 1 (negative cosines are shown as 0).
        score: orders hits, higher first; it means nothing else.
    """

    document_id: str
    index: int
    similarity: float
    score: float


@dataclass(frozen=True, slots=True)
class Span:
    """Chunks ``first`` to ``last`` (both included) of one document, with the hits inside."""

    document_id: str
    first: int
    last: int
    matches: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SpanText:
    """A span as the catalog reads it: its chunks, and the text they cover without a gap."""

    document_id: str
    chunks: tuple[Chunk, ...]
    """In index order. Their ``text`` is cut from ``text``."""
    text: str
    """``document.text[chunks[0].start:chunks[-1].end]``."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A piece of a passage: part of a matched chunk, or of a neighbour that the window added."""

    text: str
    is_match: bool


@dataclass(frozen=True, slots=True)
class Passage:
    """A slice of one document that is sent to the language model as source ``number``."""

    number: int
    document_id: str
    title: str
    first: int
    last: int
    matches: tuple[int, ...]
    """Indices of the matched chunks inside, in reading order."""
    start: int
    end: int
    text: str
    """``document.text[start:end]``, byte for byte what is sent."""
    tokens: int
    page: int | None
    last_page: int | None
    section: str | None
    score: float
    segments: tuple[Segment, ...]
    """``text`` cut at the borders between matches and neighbours; joined they are ``text``."""


@dataclass(frozen=True, slots=True)
class Message:
    """One chat message."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class Context:
    """Everything that one side of a comparison sends."""

    question: str
    strategy: Strategy
    window: int
    hits: tuple[Hit, ...]
    passages: tuple[Passage, ...]
    messages: tuple[Message, ...]
    token_count: int
    """Tokens of the passages as sent, their header lines included."""
    dropped: tuple[str, ...]
    """What a budget kept out, as sentences."""
    timings_ms: dict[str, float] = field(default_factory=dict)

    @property
    def prompt(self) -> str:
        """The messages as sent, in order, joined by a blank line."""
        return "\n\n".join(message.content for message in self.messages)


@dataclass(frozen=True, slots=True)
class Retrieval:
    """The hits for one question: the one retrieval that feeds both sides of a comparison."""

    question: str
    collection: Collection
    hits: tuple[Hit, ...]
    timings_ms: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens as the model server counted them; ``None`` where it did not say."""

    prompt_tokens: int | None
    completion_tokens: int | None


@dataclass(frozen=True, slots=True)
class Citation:
    """A ``[n]`` in an answer that names a passage of the prompt actually sent."""

    number: int
    document_id: str
    title: str
    page: int | None


@dataclass(frozen=True, slots=True)
class Answer:
    """A finished, or cut off, answer."""

    text: str
    citations: tuple[Citation, ...]
    finish: str
    """``stop``; ``length`` when cut by the limit; ``repetition`` when stopped because it
    repeated itself; ``incomplete`` when the stream broke off."""
    usage: Usage
    model: str
    first_token_seconds: float | None
    total_seconds: float
    cost: float | None
    """In the currency of the configured prices; ``None`` without prices or usage."""


# What a chat model yields, in order: any number of deltas, then at most one end.


@dataclass(frozen=True, slots=True)
class TextDelta:
    """Some more text of the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class StreamEnd:
    """How the stream ended."""

    finish: str
    usage: Usage
    model: str


# What asking yields: one stream for screen, command line and tests.


@dataclass(frozen=True, slots=True)
class Progress:
    """Work goes on. ``done`` of ``total`` (0 to 1) where that is known."""

    message: str
    fraction: float | None = None


@dataclass(frozen=True, slots=True)
class Notice:
    """Something the user should know; the work goes on."""

    message: str


@dataclass(frozen=True, slots=True)
class Retrieved:
    """The context is ready; it is what will be sent."""

    context: Context


@dataclass(frozen=True, slots=True)
class Token:
    """Some more text of the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class Finished:
    """The answer is complete, or marked as cut off."""

    answer: Answer


@dataclass(frozen=True, slots=True)
class Failed:
    """The answer failed; what arrived before stays valid."""

    message: str
    partial: str


AskEvent = Progress | Notice | Retrieved | Token | Finished | Failed


# What adding a file yields.


@dataclass(frozen=True, slots=True)
class Added:
    """One file is done: ``ready``, ``unchanged`` (the same bytes are there) or ``failed``."""

    name: str
    source: str | None
    status: str
    document: Document | None
    error: str | None


AddEvent = Progress | Added
