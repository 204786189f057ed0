"""One process owns a home directory; a second one is told who."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from filelock import FileLock, Timeout

from rag.errors import LibraryBusy, SettingsError


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
                json.dumps({"pid": os.getpid(), "command": _command(), "since": time.time()})
            )
        except Timeout:
            raise LibraryBusy(
                f"The library in {self._home} is in use by {describe_holder(self._home)}. "
                "Stop that first, or use another library with --home or FENESTRA_HOME."
            ) from None
        except OSError as error:
            self._lock.release()
            raise SettingsError(
                f"The home directory {self._home} cannot be written: {error.strerror}. "
                "Correct its rights, or choose another with --home or FENESTRA_HOME."
            ) from error

    def release(self) -> None:
        """Let go. Safe to call twice."""
        if self._lock.is_locked:
            self._holder.unlink(missing_ok=True)
            self._lock.release()


def _command() -> str:
    """What this process was started as, without folders: ``fenestra serve``."""
    # sys.argv is rewritten by programs that run scripts; the original is not.
    words = [Path(word).name for word in sys.orig_argv[1:] if not word.startswith("-")]
    return " ".join(words[:3]) or "python"


def describe_holder(home: Path) -> str:
    """Who holds the lock on ``home``, in words."""
    try:
        holder = json.loads((home / "owner.json").read_text())
        since = time.strftime("%H:%M on %d %B %Y", time.localtime(float(holder["since"])))
        return f"process {int(holder['pid'])} ({holder['command']}, since {since})"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"
