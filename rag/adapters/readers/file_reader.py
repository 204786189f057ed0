"""Reads files in processes of their own, with limits on time and memory.

Every format is read there, plain text too: decoding it in a doubtful encoding or looking for its
headings can take long as well, and one way for all is one way to get right. Handing a file over
and its text back costs a few milliseconds a megabyte.

A process is kept for further files. What it replies is not trusted: it is checked as if the file
itself had written it.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence
from itertools import pairwise

import rag.errors
from rag.adapters.readers.child import OUT_OF_MEMORY
from rag.adapters.readers.child_process import COMMAND, ChildDied, ChildProcess, ChildTimedOut
from rag.adapters.readers.formats import FORMATS
from rag.domain import ExtractedText, Heading
from rag.errors import DocumentError, DocumentTooLarge, NoText, UnreadableDocument

_KEPT_IDLE = 2
_READS_PER_PROCESS = 100
_MIB = 1 << 20


class FileReader:
    """Satisfies :class:`rag.ports.Reader`. Any number of threads may read at once."""

    def __init__(
        self, *, seconds: float, memory_mb: int, max_bytes: int, command: Sequence[str] = COMMAND
    ) -> None:
        """Set the limits; the first process is started when it is needed.

        Args:
            seconds: time limit for one file.
            memory_mb: MiB that reading one file may take, where the system has such limits.
            max_bytes: size of the largest file accepted.
            command: starts the process that reads; for tests, which start one that misbehaves.
        """
        self._seconds = seconds
        self._memory_mb = memory_mb
        self._max_bytes = max_bytes
        self._command = tuple(command)
        self._lock = threading.Lock()
        self._closed = False
        self._idle: list[ChildProcess] = []
        self._busy: set[ChildProcess] = set()
        # A reader that is forgotten rather than closed leaves no process behind.
        weakref.finalize(self, _close_all, self._idle)

    def read(self, name: str, data: bytes) -> ExtractedText:
        """Return the text of a file.

        Args:
            name: the name as uploaded; a hint about the format, never a path.
            data: the whole file.

        Raises:
            UnsupportedFormat: there is no reader for it.
            UnreadableDocument: it is damaged, protected, or takes too long or too much memory.
            DocumentTooLarge: it is larger, or holds more text, than is accepted.
            NoText: it is empty or holds no text, as a scan.
        """
        shown = _fit_to_show(name)
        if not data:
            raise NoText(f"{shown} is empty. Add a file with text in it.")
        if len(data) > self._max_bytes:
            raise DocumentTooLarge(
                f"{shown} has {_size(len(data))}, more than the {_size(self._max_bytes)} accepted. "
                "Split it, or raise FENESTRA_MAX_FILE_MB."
            )
        head, text = self._ask(shown, data)
        return _checked(head, text, shown, self._memory_mb)

    def close(self) -> None:
        """End all processes; a file that is being read fails. Safe to call twice."""
        with self._lock:
            self._closed = True
            for child in self._busy:
                child.kill()
            _close_all(self._idle)

    def _ask(self, shown: str, data: bytes) -> tuple[object, bytes]:
        while True:
            child = self._take(shown)
            used = child.reads > 0
            try:
                head, text = child.read(shown, data, self._seconds, _text_limit(self._max_bytes))
            except ChildTimedOut:
                raise UnreadableDocument(
                    f"{shown} could not be read within {self._seconds:g} seconds. Split it, or "
                    "raise FENESTRA_PARSE_SECONDS."
                ) from None
            except ChildDied:
                if self._closed:
                    raise _closed(shown) from None
                if used:
                    # Files read before must not decide what becomes of this one.
                    continue
                raise UnreadableDocument(
                    f"{shown} could not be read: its reader broke down. It may be damaged, or "
                    f"need more than {self._memory_mb} MiB of memory (FENESTRA_PARSE_MEMORY_MB). "
                    "Open it in the program that made it, save it anew and add that."
                ) from None
            finally:
                with self._lock:
                    self._busy.discard(child)
            if used and isinstance(head, dict) and head.get("error") == OUT_OF_MEMORY:
                child.close()
                continue
            self._give_back(child)
            return head, text

    def _take(self, shown: str) -> ChildProcess:
        with self._lock:
            if self._closed:
                raise _closed(shown)
            if self._idle:
                child = self._idle.pop()
                self._busy.add(child)
                return child
        try:
            child = ChildProcess(self._command, self._memory_mb)
        except (ChildDied, ChildTimedOut, OSError) as error:
            raise UnreadableDocument(
                f"{shown} could not be read: the process that reads files does not start. Free "
                "some memory, check the installation with “fenestra doctor” and add it again."
            ) from error
        with self._lock:
            self._busy.add(child)
        return child

    def _give_back(self, child: ChildProcess) -> None:
        with self._lock:
            if (
                not self._closed
                and child.reads < _READS_PER_PROCESS
                and len(self._idle) < _KEPT_IDLE
            ):
                self._idle.append(child)
                return
        child.close()


def _close_all(children: list[ChildProcess]) -> None:
    while children:
        children.pop().close()


def _closed(shown: str) -> UnreadableDocument:
    return UnreadableDocument(f"{shown} was not read: reading was stopped. Add it again.")


def _fit_to_show(name: str) -> str:
    """Return a name on one line, without what cannot be written."""
    printable = "".join(
        character if character.isprintable() else " "
        for character in name.encode("utf-8", "replace").decode()
    )
    return " ".join(printable.split()) or "The file"


def _size(count: int) -> str:
    return f"{count / _MIB:,.1f} MiB" if count >= _MIB else f"{count:,} bytes"


def _text_limit(max_bytes: int) -> int:
    # Text in a file may be compressed; the limit only keeps a hostile process from filling ours.
    return max(2 * max_bytes, 256 * _MIB)


def _checked(head: object, text: bytes, shown: str, memory_mb: int) -> ExtractedText:
    """Turn a reply into what it says.

    Raises:
        DocumentError: the reply says so, or it is not one that a reader gives.
    """
    nonsense = UnreadableDocument(
        f"{shown} could not be read: its reader gave no sensible answer. Open it in the program "
        "that made it, save it anew and add that."
    )
    if not isinstance(head, dict):
        raise nonsense
    if "error" in head:
        if head["error"] == OUT_OF_MEMORY:
            raise UnreadableDocument(
                f"{shown} needs more than {memory_mb} MiB of memory to be read. Split it, or raise "
                "FENESTRA_PARSE_MEMORY_MB."
            )
        kind = getattr(rag.errors, str(head["error"]), None)
        if isinstance(kind, type) and issubclass(kind, DocumentError):
            raise kind(str(head.get("message")))
        raise nonsense
    try:
        found = ExtractedText(
            text=text.decode(),
            media_type=str(head["media_type"]),
            page_starts=tuple(int(start) for start in head["page_starts"]),
            headings=tuple(
                Heading(start=int(start), level=int(level), title=str(title))
                for start, level, title in head["headings"]
            ),
            warnings=tuple(str(warning) for warning in head["warnings"]),
        )
    except (KeyError, TypeError, ValueError):
        raise nonsense from None
    places = [heading.start for heading in found.headings]
    sensible = (
        found.text.strip()
        and found.media_type in {row.media_type for row in FORMATS}
        and all(1 <= heading.level <= 6 for heading in found.headings)
        and all(_rising(offsets, len(found.text)) for offsets in (found.page_starts, places))
        and found.page_starts[:1] in ((), (0,))
    )
    if not sensible:
        raise nonsense
    return found


def _rising(offsets: Sequence[int], end: int) -> bool:
    bounds = [0, *offsets, end]
    return all(a <= b for a, b in pairwise(bounds))
