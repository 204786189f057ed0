"""Builds a library from settings: the one place where ports meet their implementations."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from pathlib import Path

from rag.domain import Progress
from rag.errors import IndexDamaged, IndexUnavailable
from rag.library import Library, Parts
from rag.ports import Catalog, ChatModel, Embedder, Reader, Report, VectorIndex
from rag.settings import Settings


def open_library(
    settings: Settings,
    *,
    report: Report | None = None,
    background_models: bool = False,
    embedder: Embedder | None = None,
    chat: ChatModel | None = None,
) -> Library:
    """Open the library in ``settings.home``, creating it if there is none.

    Whatever an earlier process left half done is finished or undone first. Where the disk is
    full or rights are missing, documents can be listed and removed, and searching says why not.

    Args:
        settings: see :class:`Settings`.
        report: told about recovery, which may take time.
        background_models: start loading the models at once, in the background.
        embedder: used instead of the one that the settings name.
        chat: used instead of the one that the settings name.

    Raises:
        LibraryBusy: another process has it open.
        SettingsError: the home cannot be written, or a setting does not fit.
        StoreError: the catalog cannot be opened or read.
    """
    from rag.adapters.catalog_sql import open_catalog
    from rag.adapters.home_lock import HomeLock

    tell = report or (lambda progress: None)
    with ExitStack() as opened:
        lock = HomeLock(settings.home)
        lock.acquire()
        opened.callback(lock.release)
        catalog = open_catalog(catalog_url(settings))
        opened.callback(catalog.close)
        index = _open_index(settings, catalog, tell)
        opened.callback(index.close)
        library = Library(
            Parts(
                settings=settings,
                catalog=catalog,
                index=index,
                embedder=embedder or make_embedder(settings),
                reader=make_reader(settings),
                chat=chat or make_chat(settings),
                on_close=lock.release,
            )
        )
        opened.pop_all()
    if background_models:
        threading.Thread(target=library.warm_up, name="fenestra-warm-up", daemon=True).start()
    return library


def catalog_url(settings: Settings) -> str:
    """The catalog's address: the one that is set, or a SQLite file in the home."""
    from rag.adapters.catalog_sql import file_url

    return settings.database_url or file_url(settings.home / "catalog.sqlite")


def _open_index(settings: Settings, catalog: Catalog, tell: Report) -> VectorIndex:
    """The vector index, brought to agree with the catalog, or a stand-in that says why not."""
    from rag.adapters.chroma_index import ChromaIndex
    from rag.adapters.unavailable_index import UnavailableIndex

    folder = settings.home / "chroma"
    try:
        try:
            return _recovered_index(folder, catalog, tell, lost=False)
        except IndexUnavailable:
            # On a full disk a new index may fit where it does not fit beside the old one.
            if not ChromaIndex.make_room(folder):
                raise
            tell(Progress("The disk is full; the search index makes room and is rebuilt"))
        try:
            return _recovered_index(folder, catalog, tell, lost=True)
        except IndexUnavailable:
            # The catalog needs some room, be it to remove documents.
            ChromaIndex.make_room(folder)
            raise
    except IndexUnavailable as error:
        tell(Progress(str(error)))
        return UnavailableIndex(str(error))


def _recovered_index(folder: Path, catalog: Catalog, tell: Report, *, lost: bool) -> VectorIndex:
    from rag.adapters.chroma_index import ChromaIndex
    from rag.recovery import recover

    with ExitStack() as opened:
        try:
            index = ChromaIndex.open(folder)
        except IndexDamaged:
            tell(Progress("The search index cannot be opened; it is rebuilt from the catalog"))
            ChromaIndex.set_aside(folder)
            index, lost = ChromaIndex.open(folder), True
        opened.callback(index.close)
        for progress in recover(catalog, index, index_lost=lost):
            tell(progress)
        opened.pop_all()
    return index


def make_embedder(settings: Settings) -> Embedder:
    """The embedding model; it loads at first use."""
    from rag.adapters.sentence_transformer import SentenceTransformerEmbedder

    return SentenceTransformerEmbedder(settings.embedding_model)


def make_reader(settings: Settings) -> Reader:
    """The file reader."""
    from rag.adapters.readers import FileReader

    return FileReader(
        seconds=settings.parse_seconds,
        memory_mb=settings.parse_memory_mb,
        max_bytes=settings.max_file_mb * 1024 * 1024,
    )


def make_chat(settings: Settings) -> ChatModel:
    """The configured endpoint, or the embedded language model."""
    if settings.embedded:
        from rag.adapters.embedded_llm import EmbeddedChat

        return EmbeddedChat(
            cache=settings.cache, gguf=settings.gguf, timeout=settings.answer_timeout
        )
    from rag.adapters.openai_chat import OpenAIChat

    key = settings.api_key.get_secret_value() if settings.api_key is not None else None
    return OpenAIChat(
        base_url=settings.base_url,
        api_key=key,
        model=settings.model,
        timeout=settings.answer_timeout,
    )


def check_home(settings: Settings) -> None:
    """Say now what would keep a library from being opened in ``settings.home`` later.

    Raises:
        LibraryBusy: another process has it open.
        SettingsError: the home cannot be made or written.
    """
    from rag.adapters.home_lock import HomeLock

    lock = HomeLock(settings.home)
    lock.acquire()
    lock.release()
