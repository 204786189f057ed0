"""What a reader is given: the bytes of a file and a name that is fit to be shown."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Source:
    """A file to read.

    Attributes:
        name: its name for messages; never used as a path.
        data: the whole file, at least one byte.
    """

    name: str
    data: bytes

    @property
    def extension(self) -> str:
        """The name's last extension, lower case, with its dot; empty if it has none."""
        stem, dot, extension = self.name.rpartition(".")
        return f".{extension.strip().lower()}" if dot and stem else ""
