"""Named moments of writing at which a process may be killed.

Every commit boundary of ingest, delete and rebuild calls :func:`reached` with its name. In
production nothing listens. Tests install a hook that kills the process there, so that each
boundary is proven to be survivable.
"""

from __future__ import annotations

from collections.abc import Callable

NAMES = (
    "ingest:parsed",
    "ingest:chunked",
    "ingest:embedded",
    "ingest:before-catalog-commit",
    "ingest:catalog-committed",
    "ingest:index-batch",
    "ingest:indexed",
    "ingest:ready",
    "delete:marked",
    "delete:index-cleared",
    "delete:done",
    "rebuild:started",
    "rebuild:filled",
    "rebuild:switched",
    "rebuild:old-removed",
)

_hook: Callable[[str], None] | None = None


def set_hook(hook: Callable[[str], None] | None) -> None:
    """Have ``hook`` called with the name of every checkpoint passed; ``None`` removes it."""
    global _hook
    _hook = hook


def reached(name: str) -> None:
    """Say that the moment ``name`` has come. Raises ``KeyError`` for a name not in ``NAMES``."""
    if _hook is not None:
        if name not in NAMES:
            raise KeyError(name)
        _hook(name)
