"""Where Chroma's files lie: generations of the index beside each other, one of them current.

::

    FOLDER/current        names the generation in use
    FOLDER/gen-000001/    Chroma's files
    FOLDER/in-use         there while a process has the index open
    FOLDER/broken-000001/ what was last found damaged, kept for diagnosis
    FOLDER.broken         a file that lay where the folder belongs, likewise

Nothing here is forced to the disk: whatever a power cut loses is noticed at the next start, as
a disagreement with the catalog, and the index is rebuilt.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from rag.adapters.chroma_failures import damaged, refused

_GENERATION = re.compile(r"gen-\d{6,}")


class IndexFolder:
    """The folder of one index. All methods raise ``IndexUnavailable`` where the disk refuses."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._pointer = root / "current"
        self._in_use = root / "in-use"

    def current(self) -> Path | None:
        """The generation in use, if there is one.

        Raises:
            IndexDamaged: something else lies where the folder or its pointer belongs.
        """
        with self._translated():
            if self._obstructed() or self._pointer.is_dir():
                raise damaged(self.root)
            return self._pointed_to()

    def new_generation(self) -> Path:
        """Make the next generation; it is not current yet."""
        with self._translated():
            self.root.mkdir(parents=True, exist_ok=True)
            generation = self.root / f"gen-{self._next():06d}"
            generation.mkdir()
            return generation

    def make_current(self, generation: Path) -> None:
        """Switch to a generation, at once or not at all."""
        written = self._pointer.with_suffix(".new")
        with self._translated():
            try:
                written.write_text(generation.name, "utf-8")
                os.replace(written, self._pointer)
            except OSError:
                written.unlink(missing_ok=True)
                raise

    def remove(self, generation: Path) -> None:
        """Remove a generation that nobody has open."""
        # What cannot be removed now does no harm; the next start tries again.
        with suppress(OSError):
            if generation.is_dir() and not generation.is_symlink():
                shutil.rmtree(generation, ignore_errors=True)
            else:
                generation.unlink()

    def remove_others(self, generation: Path) -> None:
        """Remove all generations but this one."""
        with self._translated():
            others = [path for path in self._numbered() if _GENERATION.fullmatch(path.name)]
        for path in others:
            if path != generation:
                self.remove(path)

    def discard(self) -> bool:
        """Remove every generation, what was set aside too; whether there were any."""
        with self._translated():
            paths = self._numbered() if self.root.is_dir() else []
        for path in paths:
            self.remove(path)
        return bool(paths)

    def set_aside(self) -> None:
        """Put what is damaged aside, so that there is no current generation.

        Only the newest is kept. No space is needed for it.
        """
        with self._translated():
            if self._obstructed():
                self.root.rename(self.root.with_name(f"{self.root.name}.broken"))
                return
            broken = self._pointer if self._pointer.is_dir() else self._pointed_to()
            number = self._next()
            for path in self._numbered():
                if path.name.startswith("broken-"):
                    self.remove(path)
            if broken is not None:
                if broken != self._pointer:
                    number = int(broken.name.rpartition("-")[2])
                broken.rename(self.root / f"broken-{number:06d}")
            self._pointer.unlink(missing_ok=True)
            self._in_use.unlink(missing_ok=True)

    def _obstructed(self) -> bool:
        """Whether a file, or a link to nothing, lies where the folder belongs."""
        return os.path.lexists(self.root) and not self.root.is_dir()

    def _pointed_to(self) -> Path | None:
        if not self._pointer.is_file():
            return None
        name = self._pointer.read_text("utf-8", errors="replace").strip()
        generation = self.root / name
        return generation if _GENERATION.fullmatch(name) and generation.is_dir() else None

    def _next(self) -> int:
        return max((int(path.name.rpartition("-")[2]) for path in self._numbered()), default=0) + 1

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
            raise refused(self.root, error.errno) from error
