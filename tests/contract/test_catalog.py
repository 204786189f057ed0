"""What every catalog does, on SQLite and on PostgreSQL."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine, event

from rag.adapters.catalog_sql import file_url, make_engine, open_catalog, parse_url
from rag.adapters.catalog_sql.schema import metadata
from rag.domain import (
    Chunk,
    ChunkSettings,
    Collection,
    Document,
    DocumentText,
    Heading,
    Span,
    SpanText,
    Status,
)
from rag.errors import NotFound, SettingsError, StoreError
from rag.ports import Catalog, Vectors

NewUrl = Callable[[], str]
Parts = tuple[Document, DocumentText, list[Chunk], Vectors]


@pytest.fixture(scope="session", params=["sqlite", "postgresql"])
def new_url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> NewUrl:
    """Makes an empty database at each call and returns its URL."""
    if request.param == "postgresql":
        made: NewUrl = request.getfixturevalue("new_postgres_url")
        return made
    return lambda: file_url(tmp_path_factory.mktemp("catalog ü%41?#") / "catalog.sqlite")


@pytest.fixture(scope="session")
def url(new_url: NewUrl) -> str:
    """One database for all tests: each has an owner of its own."""
    return new_url()


@pytest.fixture(scope="session")
def catalog(url: str) -> Iterator[Catalog]:
    """The catalog under test."""
    opened = open_catalog(url)
    yield opened
    opened.close()


@pytest.fixture
def owner() -> str:
    """Somebody who owns nothing yet."""
    return f"owner-{uuid.uuid4().hex}"


@pytest.fixture
def collection(catalog: Catalog, owner: str) -> Collection:
    """An empty collection."""
    return catalog.create_collection(owner, "Papers", ChunkSettings(64, 8), "model@1")


def make(
    collection: Collection,
    pieces: Sequence[str],
    *,
    added_at: float | None = None,
    dimensions: int = 8,
    overlap: int = 0,
) -> Parts:
    """A document made of chunks that each reach ``overlap`` characters back."""
    text = "".join(pieces)
    chunks: list[Chunk] = []
    end = 0
    for index, piece in enumerate(pieces):
        start, end = max(0, end - overlap), end + len(piece)
        page, section = (None, None) if index % 2 else (index + 1, f"Part > {index}")
        chunks.append(Chunk(index, start, end, text[start:end], len(piece), page, section))
    document = Document(
        id=uuid.uuid4().hex,
        owner=collection.owner,
        collection_id=collection.id,
        name="Grüße 漢字 👋.md",
        source=None,
        sha256="ab" * 32,
        media_type="text/markdown",
        bytes=5_000_000_000,
        status=Status.INDEXING,
        chunks=len(chunks),
        tokens=sum(chunk.tokens for chunk in chunks),
        pages=2,
        warnings=("Page 2 has no text.",),
        added_at=time.time() if added_at is None else added_at,
    )
    headings = (Heading(0, 1, "Über “uns”"),)
    return document, DocumentText(text, (0, len(text) // 2), headings), chunks, unit(len(chunks))


def unit(rows: int, dimensions: int = 8) -> Vectors:
    """Random unit vectors."""
    vectors = np.random.default_rng(rows).normal(size=(rows, dimensions)).astype(np.float32)
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), dtype=np.float32)


def add(catalog: Catalog, collection: Collection, pieces: Sequence[str]) -> Parts:
    """Make a document and write it."""
    parts = make(collection, pieces)
    catalog.insert_document(collection.owner, *parts)
    return parts


@contextmanager
def statements() -> Iterator[list[str]]:
    """The statements that any engine executes in the block, those of transactions left out."""
    seen: list[str] = []

    def note(_c: object, _k: object, statement: str, *_: object) -> None:
        if not statement.startswith("BEGIN"):
            seen.append(statement)

    event.listen(Engine, "before_cursor_execute", note)
    try:
        yield seen
    finally:
        event.remove(Engine, "before_cursor_execute", note)


def rows_of(url: str, owner: str) -> dict[str, int]:
    """How many rows of each table belong to an owner."""
    engine = make_engine(parse_url(url))
    with engine.connect() as connection:
        counts = {
            table.name: len(connection.execute(table.select().where(table.c.owner == owner)).all())
            for table in metadata.sorted_tables
        }
    engine.dispose()
    return counts


# collections


def test_collections_come_back_oldest_first(catalog: Catalog, owner: str) -> None:
    names = ["zz", "a", "我的知识库", "你的知识库", "A", " a ", "x" * 300]
    made = [catalog.create_collection(owner, name, ChunkSettings(), "m@1") for name in names]
    assert catalog.collections(owner) == made
    assert [catalog.collection(owner, name) for name in names] == made
    assert len({one.id for one in made}) == len({one.space for one in made}) == len(names)


def test_a_name_is_taken_once_by_each_owner(
    catalog: Catalog, collection: Collection, owner: str
) -> None:
    with pytest.raises(SettingsError, match="Papers"):
        catalog.create_collection(owner, "Papers", ChunkSettings(), "m@1")
    assert catalog.create_collection(f"{owner}-2", "Papers", ChunkSettings(), "m@1") != collection
    assert catalog.collections(owner) == [collection]


def test_a_collection_that_is_not_there(catalog: Catalog, owner: str) -> None:
    with pytest.raises(NotFound, match="Nowhere"):
        catalog.collection(owner, "Nowhere")
    assert catalog.collections(owner) == []


def test_owners_are_those_of_collections(
    catalog: Catalog, collection: Collection, owner: str
) -> None:
    catalog.create_collection(owner, "Second", ChunkSettings(), "m@1")
    assert catalog.owners().count(owner) == 1


# documents


def test_a_document_comes_back_as_it_went_in(
    catalog: Catalog, collection: Collection, owner: str
) -> None:
    document, text, chunks, vectors = add(catalog, collection, ["One. ", "Two. ", "Three."])
    assert catalog.document(owner, document.id) == document
    assert catalog.document_text(owner, document.id) == text
    assert catalog.chunks(owner, document.id) == chunks
    stored = catalog.vectors(owner, document.id)
    assert stored.dtype == np.float32
    assert stored.shape == vectors.shape
    np.testing.assert_allclose(np.linalg.norm(stored, axis=1), 1.0, atol=1e-6)
    np.testing.assert_allclose(stored, vectors, atol=1e-3)


def test_vectors_written_again_stay_the_same(catalog: Catalog, collection: Collection) -> None:
    owner = collection.owner
    document, text, chunks, _ = add(catalog, collection, ["One. ", "Two. "])
    stored = catalog.vectors(owner, document.id)
    again = replace(document, id=uuid.uuid4().hex)
    catalog.insert_document(owner, again, text, chunks, stored)
    np.testing.assert_allclose(catalog.vectors(owner, again.id), stored, atol=5e-4)


def test_a_document_without_chunks(catalog: Catalog, collection: Collection, owner: str) -> None:
    document, *_ = add(catalog, collection, [])
    assert catalog.chunks(owner, document.id) == []
    assert len(catalog.vectors(owner, document.id)) == 0


def test_lists_are_oldest_first_and_filtered(
    catalog: Catalog, collection: Collection, owner: str
) -> None:
    other = catalog.create_collection(owner, "Other", ChunkSettings(), "m@1")
    made = []
    for added_at, where in ((30.0, collection), (10.0, other), (20.0, collection)):
        parts = make(where, ["x"], added_at=added_at)
        catalog.insert_document(owner, *parts)
        made.append(parts[0])
    third, first, second = made
    assert catalog.documents(owner) == [first, second, third]
    assert catalog.documents(owner, collection.id) == [second, third]
    catalog.set_status(owner, [second.id], Status.READY)
    ready = replace(second, status=Status.READY)
    assert catalog.documents(owner, status=Status.READY) == [ready]
    assert catalog.documents(owner, collection.id, Status.INDEXING) == [third]
    assert catalog.documents(owner, other.id, Status.READY) == []


def test_lists_never_touch_texts_or_chunks(
    catalog: Catalog, collection: Collection, owner: str
) -> None:
    document, *_ = add(catalog, collection, ["x"])
    with statements() as seen:
        catalog.documents(owner)
        catalog.documents_by_id(owner, [document.id])
    assert len(seen) == 2
    assert not any("document_texts" in one or "FROM chunks" in one for one in seen)


def test_thousands_of_ids_at_once(catalog: Catalog, collection: Collection, owner: str) -> None:
    document, *_ = add(catalog, collection, ["x"])
    ids = [uuid.uuid4().hex for _ in range(40_000)] + [document.id]
    assert catalog.documents_by_id(owner, ids) == {document.id: document}
    assert catalog.documents_by_id(owner, []) == {}
    with pytest.raises(NotFound):
        catalog.set_status(owner, ids, Status.READY)
    assert catalog.document(owner, document.id).status is Status.INDEXING


def test_statuses_are_set_together_or_not_at_all(
    catalog: Catalog, collection: Collection, owner: str
) -> None:
    ids = [add(catalog, collection, ["x"])[0].id for _ in range(3)]
    catalog.set_status(owner, [*ids, ids[0]], Status.READY)
    assert {one.status for one in catalog.documents(owner)} == {Status.READY}
    with pytest.raises(NotFound):
        catalog.set_status(owner, [ids[0], "gone"], Status.DELETING)
    assert {one.status for one in catalog.documents(owner)} == {Status.READY}
    catalog.set_status(owner, [], Status.DELETING)


def from_source(catalog: Catalog, collection: Collection, source: str | None) -> str:
    """A new document that came from ``source``."""
    document, *parts = make(collection, ["x"])
    catalog.insert_document(document.owner, replace(document, source=source), *parts)
    return document.id


def test_a_new_version_replaces_the_old_one_in_one_step(
    catalog: Catalog, collection: Collection, owner: str
) -> None:
    old, new, other = (from_source(catalog, collection, s) for s in ("/a", "/a", "/b"))
    assert catalog.promote(owner, old) == []
    assert catalog.promote(owner, other) == []
    assert catalog.promote(owner, old) == []
    assert catalog.promote(owner, new) == [old]
    assert {one.id: one.status for one in catalog.documents(owner)} == {
        old: Status.DELETING,
        new: Status.READY,
        other: Status.READY,
    }
    with pytest.raises(NotFound):
        catalog.promote(owner, "gone")
    assert catalog.document(owner, new).status is Status.READY


def test_a_document_stays_as_long_as_any_source_stands_for_it(
    catalog: Catalog, collection: Collection, owner: str
) -> None:
    shared, new, newer = (from_source(catalog, collection, s) for s in ("/a", "/a", "/c"))
    catalog.promote(owner, shared)
    assert catalog.claim_source(owner, shared, "/c") == []
    assert catalog.claim_source(owner, shared, "/c") == []
    assert catalog.promote(owner, new) == []
    assert catalog.document(owner, shared).status is Status.READY
    assert catalog.document(owner, shared).source == "/c"
    assert catalog.promote(owner, newer) == [shared]
    with pytest.raises(NotFound):
        catalog.claim_source(owner, "gone", "/c")


def test_an_upload_stays_whatever_files_held_the_same_bytes(
    catalog: Catalog, collection: Collection, owner: str
) -> None:
    upload, new = (from_source(catalog, collection, s) for s in (None, "/a"))
    assert catalog.promote(owner, upload) == []
    assert catalog.claim_source(owner, upload, "/a") == []
    assert catalog.promote(owner, new) == []
    assert catalog.document(owner, upload).status is Status.READY


def test_the_source_of_a_removed_document_is_free(
    catalog: Catalog, collection: Collection, owner: str
) -> None:
    old, new = (from_source(catalog, collection, "/a") for _ in range(2))
    catalog.promote(owner, old)
    catalog.delete_document(owner, old)
    assert catalog.promote(owner, new) == []


def test_one_source_in_two_collections_is_two(
    catalog: Catalog, collection: Collection, owner: str
) -> None:
    second = catalog.create_collection(owner, "Second", ChunkSettings(), "m@1")
    here, there = (from_source(catalog, place, "/a") for place in (collection, second))
    assert catalog.promote(owner, here) == []
    assert catalog.promote(owner, there) == []


def test_a_deleted_document_leaves_nothing_behind(
    catalog: Catalog, collection: Collection, owner: str, url: str
) -> None:
    document, *_ = add(catalog, collection, ["One. ", "Two. "])
    kept, kept_text, kept_chunks, _ = add(catalog, collection, ["Three. "])
    catalog.delete_document(owner, document.id)
    assert rows_of(url, owner) == {
        "collections": 1,
        "documents": 1,
        "document_texts": 1,
        "chunks": 1,
        "sources": 0,
    }
    for call in (catalog.document, catalog.document_text, catalog.chunks, catalog.vectors):
        with pytest.raises(NotFound):
            call(owner, document.id)
    with pytest.raises(NotFound):
        catalog.read_spans(owner, [Span(document.id, 0, 0, ())])
    assert catalog.document_text(owner, kept.id) == kept_text
    assert catalog.chunks(owner, kept.id) == kept_chunks
    catalog.delete_document(owner, document.id)


def test_inserting_is_all_or_nothing(
    catalog: Catalog, collection: Collection, owner: str, url: str
) -> None:
    document, text, chunks, vectors = make(collection, ["One. ", "Two. "])
    with pytest.raises(ValueError, match="2 chunks"):
        catalog.insert_document(owner, document, text, chunks, vectors[:1])
    with pytest.raises(StoreError):  # the second chunk has the index of the first
        catalog.insert_document(owner, document, text, [chunks[0], chunks[0]], vectors)
    with pytest.raises(NotFound):
        catalog.insert_document(
            owner, replace(document, collection_id="gone"), text, chunks, vectors
        )
    for bad in ("a\0b", "a\ud83db"):
        with pytest.raises(StoreError, match="Save the file again"):
            catalog.insert_document(owner, document, replace(text, text=bad), chunks, vectors)
    assert rows_of(url, owner)["documents"] == rows_of(url, owner)["chunks"] == 0
    catalog.insert_document(owner, document, text, chunks, vectors)
    with pytest.raises(StoreError):
        catalog.insert_document(owner, document, text, chunks, vectors)
    assert catalog.chunks(owner, document.id) == chunks


# spans

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1)
AWKWARD = [
    "%s :x 'q' \\",
    "👨‍👩‍👧‍👦",
    "e\u0301",
    "漢字かな",
    "🇩🇪🇫🇷",
    "𝒳\r\n",
    "สวัสดี",
    "\ufeff",
    "ﬁ",
    "a",
    "%s :x 'q' \\",
]


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_spans_are_slices_in_the_order_asked_for(catalog: Catalog, data: st.DataObject) -> None:
    owner = f"owner-{uuid.uuid4().hex}"
    collection = catalog.create_collection(owner, "c", ChunkSettings(), "m@1")
    piece = TEXTS | st.sampled_from(AWKWARD)
    documents = []
    for _ in range(data.draw(st.integers(1, 2))):
        pieces = data.draw(st.lists(piece, min_size=1, max_size=14))
        documents.append(make(collection, pieces, overlap=data.draw(st.integers(0, 3))))
        catalog.insert_document(owner, *documents[-1])
    spans, expected = [], []
    for _ in range(data.draw(st.integers(0, 8))):
        document, text, chunks, _ = data.draw(st.sampled_from(documents))
        first = data.draw(st.integers(0, len(chunks) - 1))
        last = data.draw(st.integers(first, len(chunks) - 1))
        spans.append(Span(document.id, first, last, (first,)))
        cut = text.text[chunks[first].start : chunks[last].end]
        expected.append(SpanText(document.id, tuple(chunks[first : last + 1]), cut))
    assert catalog.read_spans(owner, spans) == expected


def test_all_spans_are_one_query(catalog: Catalog, collection: Collection, owner: str) -> None:
    document, *_ = add(catalog, collection, [f"{i}. " for i in range(30)])
    with statements() as seen:
        catalog.read_spans(owner, [Span(document.id, i, i + 3, ()) for i in range(20)])
    assert len(seen) == 1


def test_thousands_of_spans(catalog: Catalog, collection: Collection, owner: str) -> None:
    document, text, chunks, _ = add(catalog, collection, [f"{i}漢 " for i in range(30)])
    spans = [Span(document.id, i % 29, i % 29 + 1, ()) for i in range(12_000)]
    read = catalog.read_spans(owner, spans)
    assert [one.text for one in read] == [
        text.text[chunks[span.first].start : chunks[span.last].end] for span in spans
    ]


def test_order_is_by_number_in_long_documents(
    catalog: Catalog, collection: Collection, owner: str
) -> None:
    for n in (12, 10_050):
        document, text, chunks, vectors = add(catalog, collection, [f"{i}. " for i in range(n)])
        assert catalog.chunks(owner, document.id) == chunks
        np.testing.assert_allclose(catalog.vectors(owner, document.id), vectors, atol=1e-3)
        [whole] = catalog.read_spans(owner, [Span(document.id, 0, n - 1, ())])
        assert whole.chunks == tuple(chunks)
        assert whole.text == text.text


@pytest.mark.parametrize(("first", "last"), [(2, 3), (3, 3), (-1, 0), (1, 0), (0, 9)])
def test_a_span_that_is_not_all_there(
    catalog: Catalog, collection: Collection, owner: str, first: int, last: int
) -> None:
    document, *_ = add(catalog, collection, ["One. ", "Two. ", "Three. "])
    good = Span(document.id, 0, 2, ())
    with pytest.raises(NotFound, match=f"{first} to {last}"):
        catalog.read_spans(owner, [good, Span(document.id, first, last, ())])


# owners

CALLS: dict[str, Callable[[Catalog, str, Parts], object]] = {
    "collection": lambda catalog, who, parts: catalog.collection(who, "Papers"),
    "insert_document": lambda catalog, who, parts: catalog.insert_document(
        who, replace(parts[0], id="new"), *parts[1:]
    ),
    "set_status": lambda catalog, who, parts: catalog.set_status(
        who, [parts[0].id], Status.DELETING
    ),
    "promote": lambda catalog, who, parts: catalog.promote(who, parts[0].id),
    "claim_source": lambda catalog, who, parts: catalog.claim_source(who, parts[0].id, "/a"),
    "document": lambda catalog, who, parts: catalog.document(who, parts[0].id),
    "document_text": lambda catalog, who, parts: catalog.document_text(who, parts[0].id),
    "chunks": lambda catalog, who, parts: catalog.chunks(who, parts[0].id),
    "vectors": lambda catalog, who, parts: catalog.vectors(who, parts[0].id),
    "read_spans": lambda catalog, who, parts: catalog.read_spans(
        who, [Span(parts[0].id, 0, 1, ())]
    ),
}


@pytest.fixture
def theirs(catalog: Catalog, collection: Collection) -> Iterator[Parts]:
    """Somebody else's document; it must be as it was at the end."""
    parts = add(catalog, collection, ["One. ", "Two. "])
    yield parts
    document, text, chunks, _ = parts
    owner = document.owner
    assert catalog.documents(owner) == [document]
    assert catalog.document_text(owner, document.id) == text
    assert catalog.chunks(owner, document.id) == chunks
    assert len(catalog.vectors(owner, document.id)) == 2


@pytest.mark.parametrize("call", CALLS)
def test_another_owner_finds_nothing(catalog: Catalog, theirs: Parts, call: str) -> None:
    with pytest.raises(NotFound):
        CALLS[call](catalog, "somebody else", theirs)


def test_another_owner_lists_and_changes_nothing(catalog: Catalog, theirs: Parts) -> None:
    document = theirs[0]
    me = f"owner-{uuid.uuid4().hex}"
    mine = catalog.create_collection(me, "Mine", ChunkSettings(), "m@1")
    own = add(catalog, mine, ["x"])[0]
    assert catalog.collections(me) == [mine]
    assert catalog.documents(me) == [own]
    assert catalog.documents(me, document.collection_id) == []
    assert catalog.documents_by_id(me, [document.id, own.id]) == {own.id: own}
    catalog.delete_document(me, document.id)
    catalog.promote(me, own.id)
    with pytest.raises(NotFound):
        catalog.set_status(me, [own.id, document.id], Status.DELETING)
    with pytest.raises(StoreError):  # an id that is taken, by whomever
        catalog.insert_document(
            me, replace(own, id=document.id), DocumentText("x", (), ()), [], unit(0)
        )
    assert catalog.document(me, own.id).status is Status.READY


# many at once, and cut off


def test_several_threads(catalog: Catalog, collection: Collection, owner: str) -> None:
    errors: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(5):
                document, text, _, _ = add(catalog, collection, ["One. ", "Two. "])
                catalog.promote(owner, document.id)
                [span] = catalog.read_spans(owner, [Span(document.id, 0, 1, ())])
                assert span.text == text.text
                catalog.documents(owner)
        except BaseException as error:  # noqa: BLE001 - shown by the assertion below
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert len(catalog.documents(owner, status=Status.READY)) == 30


WRITER = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from test_catalog import add
from rag.adapters.catalog_sql import open_catalog
catalog = open_catalog(sys.argv[2])
collection = catalog.collection(sys.argv[3], "Papers")
while True:
    document = add(catalog, collection, [f"{i}. " for i in range(500)])[0]
    catalog.promote(sys.argv[3], document.id)
    print(document.id, flush=True)
"""


@pytest.mark.parametrize("after", [1, 7])
def test_what_was_ready_outlives_a_kill(
    catalog: Catalog, collection: Collection, owner: str, url: str, after: int
) -> None:
    here = str(Path(__file__).parent)
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, here, url, owner], stdout=subprocess.PIPE, text=True
    )
    assert writer.stdout is not None
    ready = [writer.stdout.readline().strip() for _ in range(after)]
    writer.send_signal(signal.SIGKILL)
    ready += writer.stdout.read().split()
    writer.wait()
    writer.stdout.close()
    reopened = open_catalog(url)
    found = {one.id: one for one in reopened.documents(owner)}
    for document_id in ready:
        assert found[document_id].status is Status.READY
    # Whatever is there is there as a whole.
    for document in found.values():
        chunks = reopened.chunks(owner, document.id)
        assert len(chunks) == len(reopened.vectors(owner, document.id)) == 500
        text = reopened.document_text(owner, document.id).text
        assert "".join(chunk.text for chunk in chunks) == text
    reopened.close()


def test_closing_twice_and_opening_again(new_url: NewUrl) -> None:
    url = new_url()
    first = open_catalog(url)
    made = first.create_collection("a", "Papers", ChunkSettings(12, 3), "m@1")
    first.close()
    first.close()
    second = open_catalog(url)
    assert second.collections("a") == [made]
    second.close()
