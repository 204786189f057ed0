"""The library: what a screen, a command line or a program does with documents and questions.

It knows no vendor and no screen. Everything that takes time yields events.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from rag.answering import Answerer, CompareEvents
from rag.chunking import validate
from rag.domain import (
    DEFAULT_COLLECTION,
    LOCAL_OWNER,
    Added,
    Chunk,
    ChunkSettings,
    Collection,
    Context,
    Document,
    DocumentText,
    Retrieval,
    Retrieved,
    Status,
)
from rag.errors import DocumentError, DocumentTooLarge, NotFound, SettingsError
from rag.ingest import Ingest
from rag.ports import AddEvents, AskEvents, Catalog, ChatModel, Embedder, Reader, Steps, VectorIndex
from rag.recovery import rebuild
from rag.retrieval import Retriever, Selection
from rag.settings import Settings

__all__ = ["Library", "Parts", "Selection"]

MAX_NAME = 200


@dataclass(frozen=True)
class Parts:
    """What a library is made of; shared by the views of all owners."""

    settings: Settings
    catalog: Catalog
    index: VectorIndex
    embedder: Embedder
    reader: Reader
    chat: ChatModel
    on_close: Callable[[], None] = lambda: None
    """Lets go of what belongs to all parts together, such as the lock on the home."""

    @cached_property
    def ingest(self) -> Ingest:
        """Adds and removes, one document at a time for all owners."""
        return Ingest(self.catalog, self.index, self.embedder, self.reader)

    @cached_property
    def retriever(self) -> Retriever:
        """Finds hits and reads around them."""
        tokens = self.settings.context_tokens
        return Retriever(self.catalog, self.index, self.embedder, tokens)

    @cached_property
    def answerer(self) -> Answerer:
        """Asks the language model; its turns are those of the whole process."""
        settings = self.settings
        prices = None
        if settings.price_prompt is not None and settings.price_completion is not None:
            prices = (settings.price_prompt, settings.price_completion)
        return Answerer(
            self.chat,
            max_tokens=settings.max_answer_tokens,
            temperature=settings.temperature,
            prices=prices,
        )


class Library:
    """One owner's documents. Safe to use from several threads."""

    def __init__(self, parts: Parts, owner: str = LOCAL_OWNER) -> None:
        self._parts = parts
        self.owner = owner

    @property
    def settings(self) -> Settings:
        """The settings it was opened with."""
        return self._parts.settings

    @property
    def chat(self) -> ChatModel:
        """The language model."""
        return self._parts.chat

    def as_owner(self, owner: str) -> Library:
        """The same library as another owner sees it."""
        return Library(self._parts, owner)

    # Collections and documents

    def collections(self) -> list[Collection]:
        """The owner's collections, oldest first."""
        return self._parts.catalog.collections(self.owner)

    def collection(self, name: str) -> Collection:
        """The collection of that name. Raises ``NotFound``."""
        return self._parts.catalog.collection(self.owner, name.strip())

    def ensure_collection(self, name: str, chunking: ChunkSettings | None = None) -> Collection:
        """Return the collection of that name, created if there is none.

        Args:
            name: any text of 1 to 200 characters.
            chunking: for a new collection; of an existing one it must be unset or the same.

        Raises:
            SettingsError: the name or the chunk settings are not acceptable.
        """
        name = name.strip()
        if not 0 < len(name) <= MAX_NAME or not name.isprintable():
            raise SettingsError(
                f"A collection's name has 1 to {MAX_NAME} printable characters. Choose another."
            )
        for collection in self.collections():
            if collection.name == name:
                if chunking not in (None, collection.chunking):
                    raise SettingsError(
                        f"The collection {name!r} has chunks of {collection.chunking.tokens} "
                        f"tokens with an overlap of {collection.chunking.overlap}. "
                        "Leave its chunk settings out, or choose another name."
                    )
                return collection
        chunking = chunking or ChunkSettings()
        embedder = self._parts.embedder
        validate(chunking, embedder.max_tokens)
        return self._parts.catalog.create_collection(self.owner, name, chunking, embedder.model)

    def documents(self, collection: str | None = None) -> list[Document]:
        """Ready documents, oldest first; of all collections if none is named."""
        collection_id = None if collection is None else self.collection(collection).id
        return self._parts.catalog.documents(self.owner, collection_id, Status.READY)

    def add(
        self,
        name: str,
        data: bytes,
        collection: str = DEFAULT_COLLECTION,
        source: str | None = None,
    ) -> AddEvents:
        """Bring a file in; yields progress, then exactly one :class:`Added`.

        Args:
            name: the name to show; never used as a path.
            data: the whole file.
            collection: its name; created with default chunks if there is none.
            source: what identifies the file from one version to the next, such as its path:
                a new version replaces the older one once it is wholly in.

        Closing the iterator early takes back what was begun.
        """
        name = _storable(name)
        limit = self.settings.max_file_mb
        if len(data) > limit * 1024 * 1024:
            yield Added(name, source, "failed", None, str(_too_large(name, limit)))
            return
        target = self.ensure_collection(collection)
        yield from self._parts.ingest.add(target, name, data, source)

    def add_path(self, path: Path, collection: str = DEFAULT_COLLECTION) -> AddEvents:
        """Bring one file in from disk; its absolute path is its identity."""
        source = _storable(str(path.absolute()))
        try:
            if path.stat().st_size > self.settings.max_file_mb * 1024 * 1024:
                raise _too_large(path.name, self.settings.max_file_mb)
            data = path.read_bytes()
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            sentence = f"{_storable(path.name)} cannot be read: {reason}. Check path and rights."
            yield Added(_storable(path.name), source, "failed", None, sentence)
            return
        except DocumentError as error:
            yield Added(_storable(path.name), source, "failed", None, str(error))
            return
        yield from self.add(path.name, data, collection, source)

    def remove(self, ids: Sequence[str]) -> list[str]:
        """Remove documents; returns their ids. Raises ``NotFound`` before any is touched."""
        unique = list(dict.fromkeys(ids))
        with self._parts.ingest.writing:
            self._parts.ingest.remove(self.owner, unique)
        return unique

    def show(self, document_id: str) -> tuple[Document, DocumentText, list[Chunk]]:
        """A document, its text and its chunks. Raises ``NotFound``."""
        catalog = self._parts.catalog
        document = catalog.document(self.owner, document_id)
        if document.status is not Status.READY:
            raise NotFound(
                f"The document {document.name} is not ready. Wait for it, or start again."
            )
        text = catalog.document_text(self.owner, document_id)
        return document, text, catalog.chunks(self.owner, document_id)

    def rebuild(self) -> Steps:
        """Build the vector index anew from the catalog; nothing is embedded again."""
        with self._parts.ingest.writing:
            yield from rebuild(self._parts.catalog, self._parts.index)

    # Questions

    def warm_up(self) -> None:
        """Load the embedding model and start the language model, in the calling thread."""
        self.chat.start()
        self._parts.embedder.load()

    def retrieve(self, question: str, collection: str, top_n: int) -> Retrieval:
        """The ``top_n`` best hits in a collection.

        Raises:
            SettingsError: the question is blank or too long.
            NotFound: there is no such collection, or no document in it.
            EmbeddingMismatch: it was indexed with another embedding model.
        """
        if not self.documents():
            raise NotFound(
                "There is no document in the library yet. Add some (fenestra add PATH, or the "
                "Documents page), then ask again."
            )
        return self._parts.retriever.retrieve(self.collection(collection), question, top_n)

    def context(self, retrieval: Retrieval, selection: Selection) -> Context:
        """What one side sends for a retrieval."""
        default = self.settings.default_top_n
        return self._parts.retriever.context(retrieval, selection, default)

    def search(self, question: str, collection: str, selection: Selection) -> Context:
        """Retrieve and select, without asking a language model."""
        wanted = selection.hits_wanted(self.settings.default_top_n)
        return self.context(self.retrieve(question, collection, wanted), selection)

    def pair(
        self, question: str, collection: str, left: Selection, right: Selection
    ) -> tuple[Context, Context]:
        """The two sides of a comparison, from one retrieval."""
        default = self.settings.default_top_n
        wanted = max(left.hits_wanted(default), right.hits_wanted(default))
        retrieval = self.retrieve(question, collection, wanted)
        return self.context(retrieval, left), self.context(retrieval, right)

    def answer(self, context: Context) -> AskEvents:
        """Answer from a context: progress, tokens, then ``Finished`` or ``Failed``."""
        return self._parts.answerer.answer(context)

    def ask(self, question: str, collection: str, selection: Selection) -> AskEvents:
        """Search, then answer; the first event is ``Retrieved``."""
        context = self.search(question, collection, selection)
        yield Retrieved(context)
        yield from self.answer(context)

    def compare(
        self, question: str, collection: str, left: Selection, right: Selection
    ) -> CompareEvents:
        """Answer both sides from one retrieval; yields (side, event)."""
        return self._parts.answerer.compare(*self.pair(question, collection, left, right))

    # Life

    def close(self) -> None:
        """Stop the models and let go of all files. Safe to call twice."""
        parts = self._parts
        for part in (parts.chat, parts.reader, parts.index, parts.catalog):
            part.close()
        parts.on_close()

    def __enter__(self) -> Library:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _storable(name: str) -> str:
    """``name`` without what no database takes: NUL and lone surrogates."""
    return name.encode("utf-8", "replace").decode().replace("\x00", "\ufffd") or "unnamed"


def _too_large(name: str, limit_mb: int) -> DocumentTooLarge:
    return DocumentTooLarge(
        f"{name} is larger than {limit_mb} MiB. Split it, or raise FENESTRA_MAX_FILE_MB."
    )
