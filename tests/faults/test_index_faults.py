"""A vector index that cannot be used does not keep people from their documents, and comes back."""

from __future__ import annotations

import errno
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from rag.adapters import chroma_folder
from rag.adapters.catalog_sql import file_url, open_catalog
from rag.adapters.catalog_sql.catalog import SqlCatalog
from rag.adapters.chroma_failures import disk_full, refused, unreadable
from rag.adapters.unavailable_index import UnavailableIndex
from rag.compose import open_library
from rag.domain import LOCAL_OWNER, Added, ChunkSettings, Status, Strategy
from rag.errors import IndexDamaged, IndexUnavailable, StoreError
from rag.library import Library, Selection
from rag.ports import Vectors
from rag.recovery import agrees, recover
from rag.settings import load_settings
from rag.testing import HashEmbedder, MemoryIndex, ScriptedChat

COLLECTION = "Faults"
TREES = ("alder", "birch")


def opened(home: Path, said: list[str] | None = None) -> Library:
    """The library in ``home``; what it reports goes to ``said``."""
    return open_library(
        load_settings(home),
        embedder=HashEmbedder(),
        chat=ScriptedChat(),
        report=None if said is None else lambda progress: said.append(progress.message),
    )


def text(tree: str) -> bytes:
    """A document of some 10 chunks with one sentence that nothing else has."""
    lines = [f"Line {number} of {tree} tells nothing new.\n\n" for number in range(20)]
    return "".join([*lines, f"The secret word here is {tree}secret.\n\n"]).encode()


def add(library: Library, tree: str) -> Added:
    """Add the document of a tree."""
    *_, last = library.add(f"{tree}.md", text(tree), COLLECTION)
    assert isinstance(last, Added)
    return last


def finds(library: Library, tree: str) -> bool:
    """Whether search finds the secret of a tree."""
    words = f"The secret word here is {tree}secret"
    context = library.search(words, COLLECTION, Selection(Strategy.ISOLATED, top_n=3))
    return any(f"{tree}secret" in passage.text for passage in context.passages)


@pytest.fixture
def library_home(home: Path) -> Path:
    """A closed library with a document for each tree."""
    with opened(home) as library:
        library.ensure_collection(COLLECTION, ChunkSettings(16))
        for tree in TREES:
            assert add(library, tree).status == "ready"
    return home


def lose(home: Path) -> None:
    shutil.rmtree(home / "chroma")


def leftovers(home: Path) -> list[str]:
    """What lies in the index's folder besides one generation and its pointer."""
    names = sorted(path.name for path in (home / "chroma").iterdir())
    expected = {"current", "in-use", *[name for name in names if name.startswith("gen-")][:1]}
    return [name for name in names if name not in expected]


def check_all_is_well(home: Path, trees: Sequence[str]) -> None:
    """Start again and look at catalog, index and search."""
    with opened(home) as library:
        parts = library._parts
        rows = parts.catalog.documents(LOCAL_OWNER)
        assert all(row.status is Status.READY for row in rows)
        assert sorted(row.name for row in rows) == [f"{tree}.md" for tree in trees]
        space = library.collection(COLLECTION).space
        assert parts.index.ids(space) == {row.id: row.chunks for row in rows}
        assert [tree for tree in TREES if finds(library, tree)] == list(trees)
    assert [name for name in leftovers(home) if not name.startswith("broken-")] == []


# A full disk, played by a limit on the size of files: the catalog's are within it.

LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (180_000, 180_000))
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from test_index_faults import add, finds, opened
from rag.errors import IndexUnavailable
said = []
with opened(Path(sys.argv[2]), said) as library:
    print(*said, sep="\\n")
    documents = library.documents()
    print("documents", *[document.name for document in documents])
    print("chunks", len(library.show(documents[0].id)[2]) == documents[0].chunks)
    for act in (lambda: finds(library, "alder"), lambda: list(library.rebuild())):
        try:
            print(act())
        except IndexUnavailable as error:
            print("refused", error)
    library.remove([documents[0].id])
with opened(Path(sys.argv[2])) as library:
    print("added", add(library, "cedar").status)
    print("left", *[document.name for document in library.documents()])
"""


def on_a_full_disk(home: Path) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(Path(__file__).parent), str(home)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_full_disk_leaves_the_documents_in_reach(library_home: Path) -> None:
    lose(library_home)
    for _ in range(2):
        catalog = library_home / "catalog.sqlite"
        assert catalog.stat().st_size < 180_000, "the limit is meant for the index alone"
        kept = catalog.read_bytes()
        said = on_a_full_disk(library_home)
        assert "documents alder.md birch.md" in said
        assert "chunks True" in said
        refusals = [line for line in said if line.startswith("refused")]
        assert len(refusals) == 2
        assert all("is full. Free some space" in line for line in refusals)
        reason = refusals[0].removeprefix("refused ").partition(" The search index is mended")[0]
        assert reason in said, "the reason was not reported"
        assert "added failed" in said
        assert said[-1] == "left birch.md"
        assert leftovers(library_home) == []
        catalog.write_bytes(kept)
    with opened(library_home) as library:
        library.remove([library.documents()[0].id])
    check_all_is_well(library_home, ["birch"])


def test_an_index_on_a_full_disk_makes_room(library_home: Path) -> None:
    (library_home / "chroma" / "gen-000001" / "chroma.sqlite3").unlink()
    (library_home / "chroma" / "broken-000000").mkdir()
    assert "left birch.md" in on_a_full_disk(library_home)
    assert not list((library_home / "chroma").glob("*-0*"))
    check_all_is_well(library_home, ["birch"])


# Rights. Root has all, so the refusal is played.


def test_missing_rights_leave_index_and_documents_alone(
    library_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = sorted((library_home / "chroma").rglob("*"))

    def refuse(folder: chroma_folder.IndexFolder) -> None:
        raise refused(folder.root, errno.EACCES)

    said: list[str] = []
    with monkeypatch.context() as patch:
        patch.setattr(chroma_folder.IndexFolder, "enter", refuse)
        with opened(library_home, said) as library:
            assert len(library.documents()) == 2
            with pytest.raises(IndexUnavailable, match=r"Permission denied.* Check"):
                finds(library, "alder")
            library.remove([library.documents()[0].id])
    assert len(said) == 1
    assert "Permission denied" in said[0]
    assert sorted((library_home / "chroma").rglob("*")) == files
    check_all_is_well(library_home, ["birch"])


# Damage.


def put_file(path: Path) -> None:
    path.write_text("no index")


def put_folder(path: Path) -> None:
    path.mkdir()


def put_link_to_nothing(path: Path) -> None:
    path.symlink_to(path.with_name("nowhere"))


@pytest.mark.parametrize(
    ("name", "put"),
    [
        ("chroma", put_file),
        ("chroma", put_link_to_nothing),
        ("chroma/current", put_file),
        ("chroma/current", put_folder),
        ("chroma/current", put_link_to_nothing),
        ("chroma/gen-000001", put_file),
        ("chroma/gen-000001/chroma.sqlite3", put_file),
        ("chroma/gen-000001/chroma.sqlite3", put_folder),
    ],
)
def test_what_lies_in_the_place_of_the_index_is_put_aside(
    library_home: Path, name: str, put: Callable[[Path], None]
) -> None:
    path = library_home / name
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()
    put(path)
    check_all_is_well(library_home, TREES)
    check_all_is_well(library_home, TREES)


@pytest.mark.parametrize(
    "reason",
    [
        "error returned from database: (code: 13) database or disk is full",
        "error returned from database: (code: 8) attempt to write a readonly database",
        "error returned from database: (code: 1802) disk I/O error",
        "No space left on device (os error 28)",
        'Os { code: 13, kind: PermissionDenied, message: "Permission denied" }',
        "Too many open files (os error 24)",
    ],
)
def test_a_refusal_is_no_damage(tmp_path: Path, reason: str) -> None:
    assert type(unreadable(tmp_path, reason)) is IndexUnavailable
    assert list(tmp_path.iterdir()) == []


def test_damage_where_files_can_be_written(tmp_path: Path) -> None:
    assert type(unreadable(tmp_path, "database disk image is malformed")) is IndexDamaged
    assert type(unreadable(tmp_path, "No such file or directory (os error 2)")) is IndexDamaged
    assert type(unreadable(tmp_path / "gone", "anything")) is IndexUnavailable
    assert not disk_full(tmp_path)
    assert list(tmp_path.iterdir()) == []


# The catalog.


def test_a_catalog_that_cannot_be_read_is_not_taken_for_the_index(
    library_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> Vectors:
        raise StoreError("The library file is damaged. Restore it from a backup.")

    with monkeypatch.context() as patch:
        patch.setattr(SqlCatalog, "vectors", fail)
        with pytest.raises(StoreError, match="Restore it from a backup") as error:
            opened(library_home)
        assert not isinstance(error.value, IndexUnavailable)
    check_all_is_well(library_home, TREES)


@pytest.mark.parametrize("method", ["promote", "delete_document"])
def test_a_catalog_that_can_only_be_read(
    library_home: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    status = Status.INDEXING if method == "promote" else Status.DELETING
    with opened(library_home) as library:
        catalog = library._parts.catalog
        catalog.set_status(LOCAL_OWNER, [library.documents()[0].id], status)

    def fail(*_: object) -> None:
        raise StoreError("The disk is full. Free some space.")

    with monkeypatch.context() as patch:
        patch.setattr(SqlCatalog, method, fail)
        with opened(library_home) as library:
            assert [document.name for document in library.documents()] == ["birch.md"]
            with pytest.raises(IndexUnavailable, match="Free some space"):
                finds(library, "birch")
    check_all_is_well(library_home, TREES if method == "promote" else ["birch"])


# Recovery itself, on doubles.


class FailingIndex(MemoryIndex):
    """An index whose rebuilds fail half-way."""

    def __init__(self, writes: int) -> None:
        super().__init__()
        self.writes = writes
        self.fresh: list[FailingIndex] = []
        self.closed = False

    def upsert(
        self, space: str, document_id: str, indices: Sequence[int], vectors: Vectors
    ) -> None:
        if not self.writes:
            raise IndexUnavailable("The disk is full. Free some space.")
        self.writes -= 1
        super().upsert(space, document_id, indices, vectors)

    def begin_rebuild(self) -> MemoryIndex:
        self.fresh.append(FailingIndex(self.writes))
        return self.fresh[-1]

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def catalog(library_home: Path) -> Iterator[SqlCatalog]:
    opened_catalog = open_catalog(file_url(library_home / "catalog.sqlite"))
    yield opened_catalog
    opened_catalog.close()


@pytest.mark.parametrize("writes", [0, 1])
def test_a_rebuild_that_fails_is_closed(catalog: SqlCatalog, writes: int) -> None:
    index = FailingIndex(writes)
    with pytest.raises(IndexUnavailable, match="Free some space"):
        list(recover(catalog, index, index_lost=False))
    assert [fresh.closed for fresh in index.fresh] == [True]


def test_a_rebuild_that_is_left_is_closed(catalog: SqlCatalog) -> None:
    index = FailingIndex(9)
    steps = recover(catalog, index, index_lost=True)
    next(steps)
    steps.close()
    assert [fresh.closed for fresh in index.fresh] == [True]


def test_as_many_vectors_of_other_documents_do_not_agree(catalog: SqlCatalog) -> None:
    index = MemoryIndex()
    list(recover(catalog, index, index_lost=False))
    assert agrees(catalog, index)
    [collection] = catalog.collections(LOCAL_OWNER)
    first, second = catalog.documents(LOCAL_OWNER)
    assert first.chunks == second.chunks
    index.delete(collection.space, second.id)
    catalog.delete_document(LOCAL_OWNER, first.id)
    assert index.count(collection.space) == second.chunks
    assert not agrees(catalog, index)


def test_the_stand_in_refuses_what_needs_vectors() -> None:
    index = UnavailableIndex("The disk is full. Free some space.")
    vectors = HashEmbedder().embed_query("x")
    acts: list[Callable[[], object]] = [
        lambda: index.upsert("s", "a", [0], vectors),
        lambda: index.query("s", vectors, 1),
        lambda: index.count("s"),
        lambda: index.ids("s"),
        index.begin_rebuild,
        lambda: index.switch(MemoryIndex()),
    ]
    for act in acts:
        with pytest.raises(IndexUnavailable, match=r"^The disk is full\. Free some space\. .+\.$"):
            act()
    index.delete("s", "a")
    index.drop("s")
    index.close()
    index.close()
