"""Where the command line writes: results to standard output, everything else to standard error."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shutil
import sys
from typing import Any, TextIO

from rag.domain import Progress

# Text of documents and answers is not ours: shown on a terminal, its control characters could
# move the cursor, retitle the window or hide a passage. They are shown as pictures instead.
_CONTROLS = {code: 0x2400 + code for code in range(32) if chr(code) not in "\n\t"}
_CONTROLS |= {0x7F: 0x2421} | dict.fromkeys(range(0x80, 0xA0), 0xFFFD)

_PERCENT = re.compile(r"\s*\d+%$")
_FIGURES = re.compile(r"\d+")
_ERASE_LINE, _BOLD, _PLAIN = "\r\x1b[K", "\x1b[1m", "\x1b[0m"


class OutputLost(Exception):
    """Standard output takes nothing more. Says why, or nothing if its reader has just left."""


class Console:
    """Standard output and standard error of one command.

    As JSON, :meth:`result` prints the one document and :meth:`write` nothing; as text it is the
    other way round. While JSON is due, whatever a library prints goes to standard error.

    Every method that prints results raises :class:`OutputLost` where they cannot be written.
    What standard error does not take is left unsaid: there is nobody to tell.
    """

    def __init__(self, as_json: bool) -> None:
        self.as_json = as_json
        self._out, self._err = sys.stdout, sys.stderr
        if as_json and isinstance(self._out, io.TextIOWrapper):
            self._out.reconfigure(encoding="utf-8", errors="backslashreplace")
        self._live = self._err.isatty()
        self._colour = self._out.isatty()
        self._progress_shown = ""
        self._mid_line = False
        self._told: set[str] = set()
        self._open = contextlib.ExitStack()

    def __enter__(self) -> Console:
        if self.as_json:
            self._open.enter_context(contextlib.redirect_stdout(self._err))
        self._open.callback(self._erase_progress)
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def result(self, document: dict[str, Any]) -> None:
        """Print the JSON document, if JSON was asked for."""
        if self.as_json:
            self._erase_progress()
            self._print(json.dumps(document, ensure_ascii=False, indent=2) + "\n")

    def write(self, text: str = "", end: str = "\n") -> None:
        """Print text, unless JSON was asked for. Control characters are made visible."""
        if not self.as_json:
            self._erase_progress()
            shown = text.translate(_CONTROLS) + end
            self._print(shown)
            self.flush()
            self._mid_line = not shown.endswith("\n") if shown else self._mid_line

    def end_line(self) -> None:
        """Begin a new line of text, unless one has just begun."""
        if self._mid_line:
            self.write()

    def heading(self, text: str) -> None:
        """Print a heading after a blank line."""
        start, stop = (_BOLD, _PLAIN) if self._colour else ("", "")
        if not self.as_json:
            self._erase_progress()
            self._print(f"\n{start}{text.translate(_CONTROLS)}{stop}\n")

    def note(self, message: str) -> None:
        """Say something on standard error."""
        self._erase_progress()
        if self._colour:
            self.end_line()
        self._say(message.translate(_CONTROLS) + "\n")

    def progress(self, progress: Progress, stage: str = "") -> None:
        """Show how far the work is: one line that changes on a terminal, else a line per stage.

        ``stage`` names what the progress belongs to; the message itself if it is empty.
        """
        if self._live and self._mid_line:
            return  # it would wipe out the answer that is being written on the same line
        message = _PERCENT.sub("", progress.message)
        if self._live:
            share = "" if progress.fraction is None else f" {progress.fraction:.0%}"
            line = " ".join(part for part in (stage, message) if part) + share
            if line != self._progress_shown:
                self._say(_ERASE_LINE + line.translate(_CONTROLS)[: _width()])
                self._progress_shown = line
            return
        # Messages that differ in their figures alone tell of one stage.
        kind = stage or _FIGURES.sub("", message)
        if kind not in self._told:
            self._told.add(kind)
            self.note(stage or message)

    def flush(self) -> None:
        """Hand everything to the reader."""
        self._say("")
        self._print("", flush=True)

    def _print(self, text: str, flush: bool = False) -> None:
        try:
            self._out.write(text)
            if flush:
                self._out.flush()
        except BrokenPipeError as error:
            _discard(self._out)
            raise OutputLost from error
        except OSError as error:
            _discard(self._out)
            raise OutputLost(
                f"Standard output cannot be written to: {error.strerror or error}. "
                "Send it to another place and run the command again."
            ) from error

    def _say(self, text: str) -> None:
        try:
            self._err.write(text)
            self._err.flush()
        except OSError:
            _discard(self._err)

    def _erase_progress(self) -> None:
        if self._progress_shown:
            self._say(_ERASE_LINE)
            self._progress_shown = ""


def _discard(stream: TextIO) -> None:
    """Send what a stream still holds, and all that follows, nowhere: it is flushed at exit."""
    with contextlib.suppress(io.UnsupportedOperation):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def configure_streams() -> None:
    r"""Make the standard streams safe to write to, whatever they are.

    What a stream cannot encode comes out escaped instead of ending the program: a lone surrogate
    (in the name of a file that is not valid UTF-8) becomes ``\udc80``, which is also how JSON
    spells it. A closed standard error becomes one that nobody reads.
    """
    # The next file that is opened takes a closed stream's number, and is written into.
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(number)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _width() -> int:
    return shutil.get_terminal_size().columns - 1
