"""The process that reads files, so that a hostile one can only bring down this process.

It reads requests from its standard input and writes replies to its standard output, both as
frames: a request is JSON (``{"name"}``) and the file; a reply is JSON and the text. It ends when
its input ends, in the middle of a file too, so it never outlives the application. Nothing
heavier than a parser is ever imported here.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable
from queue import SimpleQueue

from rag.adapters.readers.characters import NotText
from rag.adapters.readers.detection import detect, unsupported
from rag.adapters.readers.frames import read_frame, write_frame
from rag.adapters.readers.source import Source
from rag.domain import ExtractedText
from rag.errors import DocumentError, NoText

READY = b"ready"
OUT_OF_MEMORY = "OutOfMemory"

_ADDRESS_SPACE_MB = 768
"""What libraries, thread stacks and reserved heaps take of the address space when idle."""
_UNLIMITED = 1 << 62


def read(source: Source) -> ExtractedText:
    """Read a file of any format in the table.

    Raises:
        DocumentError: it cannot be read; the message says why and what to do.
    """
    try:
        extracted = detect(source).read(source)
    except NotText:
        raise unsupported(source) from None
    if not extracted.text.strip():
        raise NoText(f"{source.name} has no text in it. Add a file that has.")
    return extracted


def main(memory_mb: int, reader: Callable[[Source], ExtractedText] = read) -> None:
    """Serve requests until the input ends; never returns.

    Args:
        memory_mb: MiB that reading one file may take.
        reader: what reads; tests put one here that misbehaves.
    """
    _limit_memory(memory_mb)
    replies = os.fdopen(os.dup(1), "wb")
    # What a library prints must not get among the replies.
    os.dup2(2, 1)
    requests: SimpleQueue[tuple[bytes, bytes]] = SimpleQueue()
    threading.Thread(target=_receive, args=(requests,), daemon=True).start()
    try:
        write_frame(replies, READY)
        while True:
            head, data = requests.get()
            answer, text = _answer(Source(json.loads(head)["name"], data), reader)
            del data
            write_frame(replies, json.dumps(answer).encode())
            write_frame(replies, text)
            if answer.get("error") == OUT_OF_MEMORY:
                return
    finally:
        # Native threads may still run; an orderly end of the interpreter would trip over them.
        os._exit(1)


def _receive(requests: SimpleQueue[tuple[bytes, bytes]]) -> None:
    """Pass requests on; end the process with the input, whatever is being read just then."""
    stream = sys.stdin.buffer
    try:
        while (head := read_frame(stream, _UNLIMITED)) is not None:
            data = read_frame(stream, _UNLIMITED)
            if data is None:
                break
            requests.put((head, data))
    finally:
        os._exit(0)


def _answer(
    source: Source, reader: Callable[[Source], ExtractedText]
) -> tuple[dict[str, object], bytes]:
    try:
        found = reader(source)
        text = found.text.encode()
    except DocumentError as error:
        return {"error": type(error).__name__, "message": str(error)}, b""
    except MemoryError:
        return {"error": OUT_OF_MEMORY}, b""
    return {
        "media_type": found.media_type,
        "page_starts": found.page_starts,
        "headings": [(heading.start, heading.level, heading.title) for heading in found.headings],
        "warnings": found.warnings,
    }, text


def _limit_memory(memory_mb: int) -> None:
    try:
        import resource
    except ImportError:
        return  # Windows has no such limits; the time limit still holds.
    most = (memory_mb + _ADDRESS_SPACE_MB) << 20
    for limit, value in ((resource.RLIMIT_AS, most), (resource.RLIMIT_CORE, 0)):
        try:
            resource.setrlimit(limit, (value, value))
        except (ValueError, OSError):
            # A lower limit is in force already, or the system (macOS) refuses this one.
            continue
