"""Killed at every commit boundary and at random moments, a library comes back by itself."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rag import checkpoints
from rag.compose import catalog_url, open_library
from rag.domain import LOCAL_OWNER, Status, Strategy
from rag.library import Library, Selection
from rag.settings import load_settings
from rag.testing import HashEmbedder, ScriptedChat

WRITER = Path(__file__).with_name("writer.py")
MARKERS = ("alder", "birch", "cedar", "dogwood")
# A removal is asked for, and a newer version put in place of an older one, before it is told;
# at that moment either state is right.
REPLACED_BY = {"alder": "cedar"}


def run_writer(home: Path, checkpoint: str, nth: int = 1) -> tuple[int, list[str]]:
    done = subprocess.run(
        [sys.executable, str(WRITER), str(home), checkpoint, str(nth)],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout.splitlines()


def found(library: Library, marker: str) -> bool:
    """Whether the one sentence of a document is found by search."""
    context = library.search(
        f"The secret word here is {marker}secret", "Faults", Selection(Strategy.ISOLATED, top_n=5)
    )
    return any(f"{marker}secret" in passage.text for passage in context.passages)


def check(home: Path, said: list[str]) -> None:
    """Start again, as a person would, and look at everything."""
    with open_library(load_settings(home), embedder=HashEmbedder(), chat=ScriptedChat()) as library:
        catalog = library._parts.catalog
        index = library._parts.index
        rows = catalog.documents(LOCAL_OWNER)
        assert all(row.status is Status.READY for row in rows)
        (collection,) = library.collections()
        assert index.ids(collection.space) == {row.id: row.chunks for row in rows}
        assert len({row.source for row in rows}) == len(rows), "an old version is left"
        present = {marker for marker in MARKERS if found(library, marker)}
        ready = {line.split()[1] for line in said if line.startswith("ready")}
        gone = {line.split()[1] for line in said if line.startswith("gone")}
        for marker in ready - gone:
            newer = REPLACED_BY.get(marker)
            asked_to_go = marker == "birch" and "gone alder" in said
            assert marker in present or newer in present or asked_to_go, marker
        assert not present & gone
        assert len(present) == len(rows)
        for row in rows:
            _, text, chunks = library.show(row.id)
            assert len(chunks) == row.chunks
            assert "".join(chunk.text for chunk in chunks) == text.text
        # And it goes on working.
        list(library.add("after.md", b"Life goes on after the storm.", "Faults"))
        assert found_text(library, "Life goes on")


def found_text(library: Library, words: str) -> bool:
    context = library.search(words, "Faults", Selection(Strategy.ISOLATED, top_n=3))
    return any(words in passage.text for passage in context.passages)


@pytest.mark.parametrize("checkpoint", checkpoints.NAMES)
def test_killed_at_a_commit_boundary(tmp_path: Path, checkpoint: str) -> None:
    code, said = run_writer(tmp_path / "home", checkpoint)
    assert code == -signal.SIGKILL, "the boundary was never reached"
    assert said[0] == "ready alder"
    check(tmp_path / "home", said)


def test_killed_again_while_recovering(tmp_path: Path) -> None:
    home = tmp_path / "home"
    _, said = run_writer(home, "ingest:index-batch", 2)
    for checkpoint in ("ingest:index-batch", "rebuild:started", "rebuild:filled"):
        subprocess.run(
            [sys.executable, "-c", RECOVER_AND_DIE, str(home), checkpoint], check=False, timeout=120
        )
    check(home, said)


RECOVER_AND_DIE = """
import os, signal, sys
from pathlib import Path
from rag import checkpoints
from rag.compose import open_library
from rag.settings import load_settings
from rag.testing import HashEmbedder, ScriptedChat
checkpoints.set_hook(lambda n: n == sys.argv[2] and os.kill(os.getpid(), signal.SIGKILL))
settings = load_settings(Path(sys.argv[1]))
with open_library(settings, embedder=HashEmbedder(), chat=ScriptedChat()) as library:
    for _ in library.rebuild():
        pass
"""


def kill_at_random(home: Path, seconds: float) -> list[str]:
    process = subprocess.Popen(
        [sys.executable, str(WRITER), str(home), "-", "0"], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    said = [process.stdout.readline().strip()]
    time.sleep(seconds)
    process.kill()
    said += process.stdout.read().splitlines()
    process.wait()
    return said


@pytest.mark.parametrize("seed", range(6))
def test_killed_at_a_random_moment(tmp_path: Path, seed: int) -> None:
    home = tmp_path / "home"
    said = kill_at_random(home, random.Random(seed).uniform(0.0, 3.0))
    assert said[0] == "ready alder"
    check(home, said)


@pytest.mark.long
@pytest.mark.timeout(3000)
def test_killed_at_many_random_moments(tmp_path: Path) -> None:
    for seed in range(60):
        home = tmp_path / f"home-{seed}"
        said = kill_at_random(home, random.Random(1000 + seed).uniform(0.0, 5.0))
        check(home, said)


def test_a_damaged_index_is_rebuilt_without_a_person(tmp_path: Path) -> None:
    home = tmp_path / "home"
    code, said = run_writer(home, "-")
    assert code == 0
    files = [path for path in (home / "chroma").rglob("*") if path.is_file() and path.suffix]
    assert files
    for path in files:
        data = bytearray(path.read_bytes())
        for at in range(0, len(data), 97):
            data[at] ^= 0xFF
        path.write_bytes(data)
    check(home, said)


def test_a_lost_index_is_rebuilt_without_a_person(tmp_path: Path) -> None:
    import shutil

    home = tmp_path / "home"
    code, said = run_writer(home, "-")
    assert code == 0
    shutil.rmtree(home / "chroma")
    check(home, said)


def test_a_damaged_catalog_is_said_plainly(tmp_path: Path) -> None:
    from rag.errors import StoreError

    home = tmp_path / "home"
    settings = load_settings(home)
    home.mkdir()
    path = Path(catalog_url(settings).removeprefix("sqlite:///"))
    path.write_bytes(b"this is no database " * 500)
    with pytest.raises(StoreError, match=r"\."):
        open_library(settings, embedder=HashEmbedder(), chat=ScriptedChat())
    assert path.read_bytes().startswith(b"this is no database")
