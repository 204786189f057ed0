"""Looks at everything Fenestra needs and says what to do about each fault.

It changes nothing on disk, takes no part in a library that another process has open, and ends
whatever state it finds things in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from rag.doctor.check import Check, Status, fail, ok
from rag.doctor.library import check_catalog, check_index, check_lock
from rag.doctor.machine import check_disk, check_home, check_python, check_sqlite
from rag.doctor.models import cache_needed, check_embedding_model, check_language_model
from rag.errors import RagError, SettingsError
from rag.settings import Settings, load_settings

__all__ = ["Check", "Status", "diagnose"]


def diagnose(home: Path | None = None) -> Iterator[Check]:
    """Yield what was found, check by check, as each is done.

    Args:
        home: the library to look at; that of the settings if ``None``.
    """
    yield _guarded("python", check_python)
    yield _guarded("sqlite", check_sqlite)
    try:
        settings = load_settings(home)
    except SettingsError as error:
        yield _failed("settings", error)
        return
    yield ok("settings", "All settings are valid.")
    yield from _with_settings(settings)


def _with_settings(settings: Settings) -> Iterator[Check]:
    home, cache = settings.home, settings.cache
    yield _guarded("home", lambda: check_home(home))
    yield _guarded("lock", lambda: check_lock(home))
    yield _guarded("disk home", lambda: check_disk("home", home))
    yield _guarded("disk cache", lambda: check_disk("cache", cache, cache_needed(settings)))
    catalog = _guarded("catalog", lambda: check_catalog(settings))
    yield catalog
    yield _guarded("index", lambda: check_index(settings, catalog))
    yield _guarded("embedding model", lambda: check_embedding_model(settings))
    yield _guarded("language model", lambda: check_language_model(settings))


def _guarded(name: str, check: Callable[[], Check]) -> Check:
    """A diagnosis outlives whatever it looks at: what a check raises is what it found."""
    try:
        return check()
    except RagError as error:
        return _failed(name, error)
    except OSError as error:
        place = error.filename or "it"
        return fail(
            name,
            f"The system refused to open {place}: {error.strerror or error}.",
            "Correct its permissions, or move away what stands in its place.",
        )
    except Exception as error:  # noqa: BLE001
        return fail(
            name,
            f"It could not be checked ({type(error).__name__}: {error}).",
            "Correct what the message names; reinstall Fenestra if it names a part of it.",
        )


def _failed(name: str, error: RagError) -> Check:
    detail, _, advice = str(error).partition(". ")
    return fail(name, f"{detail}." if advice else detail, advice)
