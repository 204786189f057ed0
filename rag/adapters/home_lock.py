"""One process owns a home directory; a second one is told who."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from filelock import FileLock, Timeout

from rag.errors import LibraryBusy, SettingsError

_command = ""
_CLUSTER = re.compile(r"-[a-zA-Z?]*?([cmWX])(.*)")
"""Options of the interpreter, the last of which has a value: here, or in the next word."""


def set_command(name: str) -> None:
    """Name the command that this process runs, for whoever finds a home in use by it."""
    global _command
    _command = name


class HomeLock:
    """The lock on a home. The system frees it when the process ends, however it ends."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._holder = home / "owner.json"
        self._lock = FileLock(home / "lock", timeout=0)

    def acquire(self) -> None:
        """Take the lock.

        Raises:
            SettingsError: the home cannot be made or written.
            LibraryBusy: another process holds it; the message names it.
        """
        try:
            self._home.mkdir(parents=True, exist_ok=True)
            self._lock.acquire()
            self._holder.write_text(
                json.dumps(
                    {
                        "pid": os.getpid(),
                        "command": f"{program(sys.orig_argv)} {_command}".strip(),
                        "since": time.time(),
                    }
                )
            )
        except Timeout:
            raise LibraryBusy(
                f"The library in {self._home} is in use by {describe_holder(self._home)}. "
                "Stop that first, or use another library with --home or FENESTRA_HOME."
            ) from None
        except OSError as error:
            self._lock.release()
            raise SettingsError(self._refused(error)) from error

    def _refused(self, error: OSError) -> str:
        other = "choose another with --home or FENESTRA_HOME."
        if isinstance(error, FileExistsError | NotADirectoryError):
            return f"The home {self._home} is not a folder, nor can it become one. Please {other}"
        where = "" if error.filename in (None, str(self._home)) else f" at {error.filename}"
        return (
            f"The home directory {self._home} cannot be written: {error.strerror or error}{where}. "
            f"Correct that, or {other}"
        )

    def release(self) -> None:
        """Let go. Safe to call twice."""
        if self._lock.is_locked:
            try:
                self._holder.unlink(missing_ok=True)
            finally:
                self._lock.release()


def program(words: Sequence[str]) -> str:
    """What a command line starts, without folders, options and what it is to work on.

    Args:
        words: the whole command line, the interpreter first: ``sys.orig_argv``, as ``sys.argv``
            is rewritten by programs that run scripts.
    """
    rest = iter(words[1:])
    name = "python"
    for word in rest:
        if cluster := _CLUSTER.fullmatch(word):
            option, value = cluster[1], cluster[2] or next(rest, "")
            if option == "m":
                name = f"python -m {value}"
            if option in "cm":
                break
        elif not word.startswith("-"):
            name = Path(word).name
            break
    if name.endswith("streamlit"):
        script = next((Path(word).name for word in rest if word.endswith(".py")), "")
        return f"{name} run {script}" if script else name
    return name


def describe_holder(home: Path) -> str:
    """Who holds the lock on ``home``, in words."""
    try:
        holder = json.loads((home / "owner.json").read_text())
        since = time.strftime("%H:%M on %d %B %Y", time.localtime(float(holder["since"])))
        return f"process {int(holder['pid'])} ({holder['command']}, since {since})"
    except (OSError, ValueError, KeyError, TypeError, OverflowError):
        return "another process"
