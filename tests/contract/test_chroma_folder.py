"""Chroma's folder survives whatever happens to the process that writes it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from rag import checkpoints
from rag.adapters.chroma_check import readable
from rag.adapters.chroma_index import ChromaIndex
from rag.errors import EmbeddingMismatch, IndexDamaged, IndexUnavailable, StoreError
from rag.ports import Vectors
from rag.testing import MemoryIndex

SPACE = "0123456789abcdef0123456789abcdef-0123456789ab"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder that does not exist yet, with a name that needs care."""
    return tmp_path / "home ü%41" / "chroma"


def some(rows: int) -> Vectors:
    """Random unit vectors."""
    vectors = np.random.default_rng(rows).normal(size=(rows, 8)).astype(np.float32)
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), dtype=np.float32)


def fill(folder: Path, rows: int = 1_500) -> None:
    """Make an index of a document ``a`` and close it."""
    index = ChromaIndex.open(folder)
    index.upsert(SPACE, "a", range(rows), some(rows))
    index.close()


def contents(folder: Path) -> list[str]:
    """Names in the folder."""
    return sorted(path.name for path in folder.iterdir())


def test_an_index_stays(folder: Path) -> None:
    fill(folder)
    assert contents(folder) == ["current", "gen-000001"]
    index = ChromaIndex.open(folder)
    assert contents(folder) == ["current", "gen-000001", "in-use"]
    assert index.ids(SPACE) == {"a": 1_500}
    assert index.query(SPACE, some(1_500)[7:8], 1) == [("a", 7, 1.0)]
    index.close()


def test_large_documents_are_written_in_batches(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    index = ChromaIndex.open(folder)
    checkpoints.set_hook(seen.append)
    try:
        index.upsert(SPACE, "a", range(12_000), some(12_000))
    finally:
        checkpoints.set_hook(None)
    assert index.count(SPACE) == 12_000
    assert len(seen) >= 2
    assert set(seen) == {"ingest:index-batch"}
    index.close()


def test_a_switch_removes_the_old_generation(folder: Path) -> None:
    fill(folder)
    seen: list[tuple[str, list[str]]] = []
    index = ChromaIndex.open(folder)
    fresh = index.begin_rebuild()
    fresh.upsert(SPACE, "b", range(3), some(3))
    checkpoints.set_hook(lambda name: seen.append((name, contents(folder))))
    try:
        index.switch(fresh)
    finally:
        checkpoints.set_hook(None)
    assert seen == [
        ("rebuild:switched", ["current", "gen-000001", "gen-000002", "in-use"]),
        ("rebuild:old-removed", ["current", "gen-000002", "in-use"]),
    ]
    # No restart is needed to write on.
    index.upsert(SPACE, "c", range(3), some(3))
    index.close()
    assert contents(folder) == ["current", "gen-000002"]
    again = ChromaIndex.open(folder)
    assert again.ids(SPACE) == {"b": 3, "c": 3}
    again.close()


def test_only_an_index_of_the_same_kind_can_be_switched_to(folder: Path) -> None:
    index = ChromaIndex.open(folder)
    with pytest.raises(TypeError):
        index.switch(MemoryIndex())
    index.close()


KILLED = """
import os, signal, sys
from pathlib import Path
import numpy as np
from rag import checkpoints
from rag.adapters.chroma_index import ChromaIndex
space, moment = sys.argv[2:]
index = ChromaIndex.open(Path(sys.argv[1]))
vectors = np.eye(8, dtype=np.float32)
fresh = index.begin_rebuild()
fresh.upsert(space, "b", range(8), vectors)
checkpoints.set_hook(lambda name: name == moment and os.kill(os.getpid(), signal.SIGKILL))
checkpoints.reached("rebuild:filled")
index.switch(fresh)
checkpoints.set_hook(None)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize(
    ("moment", "document_id"),
    [("rebuild:filled", "a"), ("rebuild:switched", "b"), ("rebuild:old-removed", "b")],
)
def test_a_rebuild_cut_off(folder: Path, moment: str, document_id: str) -> None:
    fill(folder)
    subprocess.run([sys.executable, "-c", KILLED, str(folder), SPACE, moment], check=False)
    assert "in-use" in contents(folder)
    index = ChromaIndex.open(folder)
    assert list(index.ids(SPACE)) == [document_id]
    assert len([name for name in contents(folder) if name.startswith("gen-")]) == 1
    index.close()


WRITER = """
import sys
from collections.abc import Callable
from pathlib import Path
import numpy as np
from rag.adapters.chroma_index import ChromaIndex
index = ChromaIndex.open(Path(sys.argv[1]))
rng = np.random.default_rng()
for number in range(10_000):
    vectors = rng.normal(size=(300, 64)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    index.upsert(sys.argv[2], f"d{number}", range(300), vectors)
    print(number, flush=True)
"""


def test_killed_while_writing(folder: Path) -> None:
    """Whether Chroma's files can be read afterwards is luck; that we go on is not."""
    for batches in (1, 5, 9):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(folder), SPACE], stdout=subprocess.PIPE
        )
        assert writer.stdout is not None
        for _ in range(batches):
            assert writer.stdout.readline()
        writer.kill()
        writer.wait()
        writer.stdout.close()
        assert "in-use" in contents(folder)
        try:
            index = ChromaIndex.open(folder)
            assert index.count(SPACE) >= 300
        except IndexDamaged:
            ChromaIndex.set_aside(folder)
            index = ChromaIndex.open(folder)
            assert index.count(SPACE) == 0
        index.upsert(SPACE, "after", range(3), np.eye(64, dtype=np.float32)[:3])
        assert index.query(SPACE, np.eye(64, dtype=np.float32)[1:2], 1) == [("after", 1, 1.0)]
        index.drop(SPACE)
        index.close()


def damage(folder: Path, pattern: str) -> None:
    """Cut a file of the only generation in half, as if its writer had been killed."""
    [file] = folder.glob(f"gen-*/{pattern}")
    data = file.read_bytes()
    file.write_bytes(data[: len(data) // 2])


@pytest.mark.parametrize(
    "pattern", ["chroma.sqlite3", "*/index_metadata.pickle", "*/data_level0.bin"]
)
def test_a_torn_folder_is_set_aside(folder: Path, pattern: str) -> None:
    fill(folder)
    damage(folder, pattern)
    (folder / "in-use").touch()
    with pytest.raises(IndexDamaged, match="fenestra rebuild"):
        ChromaIndex.open(folder)
    ChromaIndex.set_aside(folder)
    assert contents(folder) == ["broken-000001"]
    index = ChromaIndex.open(folder)
    assert index.count(SPACE) == 0
    index.upsert(SPACE, "b", range(3), some(3))
    index.close()
    assert contents(folder) == ["broken-000001", "current", "gen-000002"]


def test_only_the_newest_broken_generation_is_kept(folder: Path) -> None:
    for _ in range(3):
        fill(folder, 10)
        ChromaIndex.set_aside(folder)
    assert contents(folder) == ["broken-000003"]


def test_damage_in_a_folder_that_was_closed_properly(folder: Path) -> None:
    fill(folder)
    damage(folder, "chroma.sqlite3")
    with pytest.raises(IndexDamaged, match="fenestra rebuild"):
        ChromaIndex.open(folder)
    # The next start knows that this one did not end well.
    assert "in-use" in contents(folder)


def test_damage_that_shows_only_in_use(folder: Path) -> None:
    fill(folder)
    damage(folder, "*/index_metadata.pickle")
    index = ChromaIndex.open(folder)
    with pytest.raises(IndexDamaged, match="fenestra rebuild"):
        index.query(SPACE, some(1), 5)
    # It can be replaced while it is open.
    fresh = index.begin_rebuild()
    fresh.upsert(SPACE, "b", range(3), some(3))
    index.switch(fresh)
    assert index.ids(SPACE) == {"b": 3}
    index.close()


@pytest.mark.parametrize("pointer", ["", "gen-000009", "../gen-000001", "\udcff"])
def test_a_pointer_to_nothing_gives_an_empty_index(folder: Path, pointer: str) -> None:
    fill(folder)
    (folder / "current").write_bytes(pointer.encode("utf-8", "surrogateescape"))
    index = ChromaIndex.open(folder)
    assert index.count(SPACE) == 0
    index.close()
    assert contents(folder) == ["current", "gen-000002"]


def put_file(path: Path) -> None:
    path.write_text("no index")


def put_folder(path: Path) -> None:
    path.mkdir()
    (path / "something").write_text("in it")


def put_link_to_nothing(path: Path) -> None:
    path.symlink_to(path.with_name("nowhere"))


def remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


@pytest.mark.parametrize("put", [put_file, put_link_to_nothing])
def test_something_else_in_place_of_the_folder(folder: Path, put: Callable[[Path], None]) -> None:
    folder.parent.mkdir(parents=True)
    for _ in range(2):
        remove(folder)
        put(folder)
        with pytest.raises(IndexDamaged, match="fenestra rebuild"):
            ChromaIndex.open(folder)
        ChromaIndex.set_aside(folder)
        fill(folder, 10)
        assert contents(folder.parent) == ["chroma", "chroma.broken"]


def test_a_folder_in_place_of_the_pointer(folder: Path) -> None:
    for number in (2, 4):
        fill(folder, 10)
        remove(folder / "current")
        put_folder(folder / "current")
        with pytest.raises(IndexDamaged, match="fenestra rebuild"):
            ChromaIndex.open(folder)
        ChromaIndex.set_aside(folder)
        assert (folder / f"broken-{number:06d}" / "something").exists()
        fill(folder, 10)
        assert len([name for name in contents(folder) if name.startswith("broken-")]) == 1
        assert len([name for name in contents(folder) if name.startswith("gen-")]) == 1


def test_a_link_to_nothing_in_place_of_the_pointer(folder: Path) -> None:
    fill(folder, 10)
    remove(folder / "current")
    put_link_to_nothing(folder / "current")
    index = ChromaIndex.open(folder)
    assert index.count(SPACE) == 0
    index.close()
    assert contents(folder) == ["current", "gen-000002"]
    assert not (folder / "current").is_symlink()


def test_a_rebuild_that_is_given_up_leaves_nothing(folder: Path) -> None:
    fill(folder, 10)
    index = ChromaIndex.open(folder)
    fresh = index.begin_rebuild()
    fresh.upsert(SPACE, "b", range(3), some(3))
    fresh.close()
    assert contents(folder) == ["current", "gen-000001", "in-use"]
    index.close()


def test_no_room_is_made_on_a_disk_that_has_some(folder: Path) -> None:
    fill(folder, 10)
    assert not ChromaIndex.make_room(folder)
    assert contents(folder) == ["current", "gen-000001"]


def test_the_check_has_a_time_limit(folder: Path) -> None:
    fill(folder, 10)
    [generation] = folder.glob("gen-*")
    assert readable(generation, 60)
    assert not readable(generation, 0)


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(IndexUnavailable, match="FENESTRA_HOME") as error:
        ChromaIndex.open(tmp_path / "file" / "chroma")
    assert not isinstance(error.value, IndexDamaged)


def test_a_folder_that_went_away(folder: Path) -> None:
    index = ChromaIndex.open(folder)
    shutil.rmtree(folder)
    with pytest.raises(IndexUnavailable):
        index.upsert(SPACE, "a", range(3), some(3))
    index.close()


FILLED = """
import faulthandler, resource, sys
from pathlib import Path
import numpy as np
from rag.adapters.chroma_index import ChromaIndex
from rag.errors import IndexDamaged, IndexUnavailable
faulthandler.dump_traceback_later(60, exit=True)
space = sys.argv[2]
vectors = np.random.default_rng(1).normal(size=(1_000, 384)).astype(np.float32)
vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
index = ChromaIndex.open(Path(sys.argv[1]))
index.upsert(space, "a", range(10), vectors[:10])
resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, resource.RLIM_INFINITY))
for _ in range(4):
    try:
        index.upsert(space, "b", range(1_000), vectors)
    except IndexUnavailable as error:
        assert not isinstance(error, IndexDamaged)
        print("full" if "is full. Free some space" in str(error) else error)
    index.delete(space, "b")
    assert index.ids(space) == {"a": 10}
    assert index.query(space, vectors[3:4], 1) == [("a", 3, 1.0)]
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
index.upsert(space, "b", range(1_000), vectors)
assert index.ids(space) == {"a": 10, "b": 1_000}
index.close()
"""


def test_an_index_goes_on_after_a_full_disk(folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FILLED, str(folder), SPACE],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["full"] * 4


def test_a_closed_index_says_so(folder: Path) -> None:
    index = ChromaIndex.open(folder)
    index.close()
    for act in (index.count, index.ids, index.drop):
        with pytest.raises(StoreError, match="closed"):
            act(SPACE)


def test_vectors_of_another_length(folder: Path) -> None:
    fill(folder, 10)
    index = ChromaIndex.open(folder)
    with pytest.raises(EmbeddingMismatch):
        index.query(SPACE, np.eye(5, dtype=np.float32)[:1], 1)
    index.close()
