"""Builds a library from settings: the one place where ports meet their implementations."""

from __future__ import annotations

import threading
from contextlib import ExitStack

from rag.domain import Progress
from rag.errors import StoreError
from rag.library import Library, Parts
from rag.ports import ChatModel, Embedder, Reader, Report, VectorIndex
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

    Whatever an earlier process left half done is finished or undone first.

    Args:
        settings: see :class:`Settings`.
        report: told about recovery, which may take time.
        background_models: start loading the models at once, in the background.
        embedder: used instead of the one that the settings name.
        chat: used instead of the one that the settings name.

    Raises:
        LibraryBusy: another process has it open.
        SettingsError: the home cannot be written, or a setting does not fit.
        StoreError: the catalog cannot be opened.
    """
    from rag.adapters.catalog_sql import open_catalog
    from rag.adapters.home_lock import HomeLock
    from rag.recovery import recover

    tell = report or (lambda progress: None)
    with ExitStack() as opened:
        lock = HomeLock(settings.home)
        lock.acquire()
        opened.callback(lock.release)
        catalog = open_catalog(catalog_url(settings))
        opened.callback(catalog.close)
        index, lost = _open_index(settings, tell)
        opened.callback(index.close)
        for progress in recover(catalog, index, index_lost=lost):
            tell(progress)
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


def _open_index(settings: Settings, tell: Report) -> tuple[VectorIndex, bool]:
    """The vector index, and whether it had to be started anew."""
    from rag.adapters.chroma_index import ChromaIndex

    folder = settings.home / "chroma"
    try:
        return ChromaIndex.open(folder), False
    except StoreError:
        tell(Progress("The search index cannot be opened; it is rebuilt from the catalog"))
        ChromaIndex.set_aside(folder)
        return ChromaIndex.open(folder), True


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
