"""Messages over a pipe: each is its length, 8 bytes, and then its bytes."""

from __future__ import annotations

import struct
from typing import IO

_LENGTH = struct.Struct(">Q")


class BrokenFrame(ValueError):
    """The stream ended inside a message, or the message is longer than is accepted."""


def write_frame(stream: IO[bytes], data: bytes) -> None:
    """Write one message. Raises ``OSError`` if nobody reads any more."""
    stream.write(_LENGTH.pack(len(data)))
    stream.write(data)
    stream.flush()


def read_frame(stream: IO[bytes], limit: int) -> bytes | None:
    """Read one message of up to ``limit`` bytes; ``None`` if the stream has ended.

    Raises:
        BrokenFrame: it ended inside the message, or the message is longer than ``limit``.
    """
    head = stream.read(_LENGTH.size)
    if not head:
        return None
    if len(head) < _LENGTH.size:
        raise BrokenFrame("the stream ended inside a length")
    (length,) = _LENGTH.unpack(head)
    if length > limit:
        raise BrokenFrame(f"a message of {length} bytes is longer than {limit}")
    data = stream.read(length)
    if len(data) < length:
        raise BrokenFrame("the stream ended inside a message")
    return data
