"""The application's end of one reading process: start it, ask it, end it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import rag
from rag.adapters.readers.child import READY
from rag.adapters.readers.frames import BrokenFrame, read_frame, write_frame

COMMAND = (
    sys.executable,
    "-P",
    "-c",
    "import sys; sys.path.append(sys.argv[1]); "
    "from rag.adapters.readers import child; child.main(int(sys.argv[2]))",
)
"""Starts the process; the package's folder and the memory limit in MiB follow.

Not ``multiprocessing``: that would run the application's main script again, which Streamlit and
``python -c`` do not bear.
"""

_PACKAGES = str(Path(rag.__file__).parent.parent)
_START_SECONDS = 60.0
_HEAD_BYTES = 64 << 20
# A process that parses hostile files is not handed the keys in the environment.
_KEPT = re.compile(
    "PATH|HOME|USERPROFILE|(LOCAL)?APPDATA|SYSTEMROOT|WINDIR|TEMP|TMP|TMPDIR|LANG|LC_.*|"
    "(LD|DYLD)_LIBRARY_PATH|PYTHON.*",
    re.IGNORECASE,
)


class ChildDied(Exception):
    """The process ended, or what it said was no reply."""


class ChildTimedOut(Exception):
    """The process took too long and was ended."""


class ChildProcess:
    """One process that reads files, one at a time.

    Attributes:
        reads: number of files it was asked to read.
    """

    def __init__(self, command: Sequence[str], memory_mb: int) -> None:
        """Start the process and wait until it can read.

        Raises:
            ChildDied, ChildTimedOut, OSError: it does not start.
        """
        self.reads = 0
        self._process = subprocess.Popen(
            [*command, _PACKAGES, str(memory_mb)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=_environment(),
            # Ctrl-C in a terminal is for the application to handle.
            start_new_session=True,
        )
        with self._deadline(_START_SECONDS):
            if self._receive(len(READY)) != READY:
                raise ChildDied

    def read(self, name: str, data: bytes, seconds: float, most: int) -> tuple[object, bytes]:
        """Have a file read; return the head of the reply (parsed JSON) and the text (UTF-8).

        Args:
            name: for messages.
            data: the file.
            seconds: time limit.
            most: bytes of text accepted.

        Raises:
            ChildDied, ChildTimedOut: no reply; the process has ended.
        """
        self.reads += 1
        process = self._process
        assert process.stdin is not None
        with self._deadline(seconds):
            try:
                write_frame(process.stdin, json.dumps({"name": name}).encode())
                write_frame(process.stdin, data)
                head = json.loads(self._receive(_HEAD_BYTES))
            except (OSError, ValueError, RecursionError) as error:
                raise ChildDied from error
            return head, self._receive(most)

    def kill(self) -> None:
        """End the process, whatever it does; the thread that waits for it gets ``ChildDied``."""
        self._process.kill()

    def close(self) -> None:
        """End the process while nobody waits for it, and let go of its pipes."""
        self.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                # What was not written yet has nobody to go to.
                with contextlib.suppress(OSError):
                    pipe.close()

    def _receive(self, most: int) -> bytes:
        assert self._process.stdout is not None
        try:
            frame = read_frame(self._process.stdout, most)
        except (OSError, ValueError, BrokenFrame) as error:
            raise ChildDied from error
        if frame is None:
            raise ChildDied
        return frame

    @contextlib.contextmanager
    def _deadline(self, seconds: float) -> Iterator[None]:
        """End the process when the time is over, and if the block fails for any reason."""
        over = threading.Event()

        def end() -> None:
            over.set()
            self._process.kill()

        timer = threading.Timer(seconds, end)
        timer.daemon = True
        timer.start()
        finished = False
        try:
            yield
            finished = True
        except ChildDied as error:
            if over.is_set():
                raise ChildTimedOut from error
            raise
        finally:
            timer.cancel()
            if not finished:
                self.close()


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if _KEPT.fullmatch(name)}
    # Each further heap would reserve 64 MiB of the limited address space.
    return kept | {"MALLOC_ARENA_MAX": "2"}
