"""What all visits share: one library and one worker, opened once in this process."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

import streamlit as st

from rag.errors import RagError
from rag.jobs import Worker
from rag.library import Library
from rag.ui.readiness import Readiness

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Resources:
    """The open library, the worker that adds documents to it, and how its model is."""

    library: Library
    worker: Worker
    readiness: Readiness


def _from_settings() -> Library:
    from rag.compose import open_library
    from rag.settings import load_settings

    return open_library(load_settings(), background_models=True)


_provider: Callable[[], Library] = _from_settings


def use(provider: Callable[[], Library] | None = None) -> None:
    """Take the library from ``provider`` from now on, or from the settings again if ``None``.

    What was open is closed.
    """
    global _provider
    close()
    _provider = provider or _from_settings


def _release(resources: Resources) -> None:
    resources.worker.close()
    resources.library.close()


@st.cache_resource(show_spinner=False, on_release=_release)
def _open() -> Resources:
    library = _provider()
    return Resources(library, Worker(library), Readiness(library.chat))


def opened() -> Resources:
    """Return what is open; open it first if it is not.

    Raises:
        RagError: it cannot be opened; the next call tries again.
    """
    return _open()


def prepare() -> None:
    """Open the library before the first visit; what is wrong is told to every visit."""
    try:
        opened()
    except RagError as error:
        _log.warning("%s", error)


def close() -> None:
    """Close the library if it is open."""
    _open.clear()
