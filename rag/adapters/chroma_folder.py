"""Where Chroma's files lie: generations of the index beside each other, one of them current.

::

    FOLDER/current        names the generation in use
    FOLDER/gen-000001/    Chroma's files
    FOLDER/in-use         there while a process has the index open
    FOLDER/broken-000001/ the last generation that could not be read, kept for diagnosis

Nothing here is forced to the disk: whatever a power cut loses is noticed at the next start, as
a disagreement with the catalog, and the index is rebuilt.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rag.errors import StoreError

_GENERATION = re.compile(r"gen-\d{6,}")


class IndexFolder:
    """The folder of one index. All methods raise ``StoreError`` where the disk refuses."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._pointer = root / "current"
        self._in_use = root / "in-use"

    def current(self) -> Path | None:
        """The generation in use, if there is one."""
        with self._translated():
            if not self._pointer.is_file():
                return None
            name = self._pointer.read_text("utf-8", errors="replace").strip()
            generation = self.root / name
            return generation if _GENERATION.fullmatch(name) and generation.is_dir() else None

    def new_generation(self) -> Path:
        """Make the next generation; it is not current yet."""
        with self._translated():
            self.root.mkdir(parents=True, exist_ok=True)
            numbers = [int(path.name.rpartition("-")[2]) for path in self._numbered()]
            generation = self.root / f"gen-{max(numbers, default=0) + 1:06d}"
            generation.mkdir()
            return generation

    def make_current(self, generation: Path) -> None:
        """Switch to a generation, at once or not at all."""
        with self._translated():
            written = self._pointer.with_suffix(".new")
            written.write_text(generation.name, "utf-8")
            os.replace(written, self._pointer)

    def remove_others(self, generation: Path) -> None:
        """Remove all generations but this one."""
        for path in self._numbered():
            if path != generation and _GENERATION.fullmatch(path.name):
                # What cannot be removed now does no harm; the next start tries again.
                shutil.rmtree(path, ignore_errors=True)

    def set_aside(self) -> None:
        """Put the current generation aside as broken and make an empty one current.

        Only the newest broken generation is kept.
        """
        broken = self.current()
        self.make_current(self.new_generation())
        with self._translated():
            for path in self._numbered():
                if path.name.startswith("broken-"):
                    shutil.rmtree(path)
            if broken is not None:
                broken.rename(self.root / broken.name.replace("gen-", "broken-"))
            self._in_use.unlink(missing_ok=True)

    @property
    def in_use(self) -> bool:
        """Whether a process has the index open, or had when it was killed."""
        return self._in_use.exists()

    def enter(self) -> None:
        """Say that this process has the index open."""
        with self._translated():
            self._in_use.touch()

    def leave(self) -> None:
        """Say that the index was closed properly."""
        with self._translated():
            self._in_use.unlink(missing_ok=True)

    def _numbered(self) -> list[Path]:
        return [path for path in self.root.iterdir() if re.fullmatch(r"\w+-\d+", path.name)]

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StoreError(
                f"The folder {self.root} cannot be written to ({error.strerror}). Check its "
                "permissions and the free space of its disk, or choose another folder with "
                "FENESTRA_HOME."
            ) from error
