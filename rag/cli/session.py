"""Opening the library that a command works on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rag.cli.arguments import Arguments
from rag.cli.console import Console

if TYPE_CHECKING:
    from rag.library import Library


def open_session(arguments: Arguments, console: Console) -> Library:
    """Open the library in the home that was asked for; close it after use (``with``).

    Raises:
        SettingsError: a setting is wrong.
        StoreError: the library is in use by another process, or cannot be opened.
    """
    from rag.compose import open_library
    from rag.settings import load_settings

    return open_library(load_settings(arguments.home), report=console.progress)
