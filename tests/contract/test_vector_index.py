"""What every vector index does, the one in memory and the one on Chroma."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag.adapters.chroma_index import ChromaIndex
from rag.ports import VectorIndex, Vectors
from rag.testing import MemoryIndex

SPACE = "0123456789abcdef0123456789abcdef-0123456789ab"
OTHER = "fedcba9876543210fedcba9876543210-0123456789ab"


@pytest.fixture(params=["memory", "chroma"])
def index(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[VectorIndex]:
    """An empty index."""
    opened: VectorIndex = (
        MemoryIndex() if request.param == "memory" else ChromaIndex.open(tmp_path / "chroma")
    )
    yield opened
    opened.close()


def unit(vectors: Sequence[Sequence[float]] | np.ndarray) -> Vectors:
    """The same directions, of length 1."""
    rows = np.asarray(vectors, dtype=np.float32)
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), dtype=np.float32)


def some(rows: int, dimensions: int = 16, seed: int = 0) -> Vectors:
    """Random unit vectors."""
    return unit(np.random.default_rng(seed).normal(size=(rows, dimensions)))


def places(hits: Sequence[tuple[str, int, float]]) -> list[tuple[str, int]]:
    """Hits without cosines."""
    return [(document_id, place) for document_id, place, _ in hits]


def test_an_unknown_space_is_empty(index: VectorIndex) -> None:
    assert index.query(SPACE, some(1), 5) == []
    assert index.count(SPACE) == 0
    assert index.ids(SPACE) == {}
    index.delete(SPACE, "a")
    index.drop(SPACE)


def test_a_space_that_was_emptied(index: VectorIndex) -> None:
    index.upsert(SPACE, "a", range(3), some(3))
    index.delete(SPACE, "a")
    index.delete(SPACE, "a")
    assert index.query(SPACE, some(1), 5) == []
    assert index.count(SPACE) == 0
    assert index.ids(SPACE) == {}


def test_nothing_to_add(index: VectorIndex) -> None:
    index.upsert(SPACE, "a", [], some(3)[:0])
    assert index.count(SPACE) == 0


def test_indices_and_vectors_must_pair(index: VectorIndex) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        index.upsert(SPACE, "a", [0, 1, 2], some(2))


def test_nearest_first_with_the_cosine(index: VectorIndex) -> None:
    directions = [[1, 0, 0], [1, 1, 0], [0, 1, 0], [-1, 0, 0], [-1, 0.2, 0]]
    index.upsert(SPACE, "a", [0, 1, 2, 3, 4], unit(directions))
    hits = index.query(SPACE, unit([[1, 0, 0]]), 10)
    assert places(hits) == [("a", 0), ("a", 1), ("a", 2), ("a", 4), ("a", 3)]
    cosines = [cosine for _, _, cosine in hits]
    np.testing.assert_allclose(cosines, [1, 2**-0.5, 0, -0.980581, -1], atol=1e-5)
    assert all(isinstance(cosine, float) and -1 <= cosine <= 1 + 1e-6 for cosine in cosines)


@pytest.mark.parametrize(("n", "found"), [(-1, 0), (0, 0), (1, 1), (3, 3), (4, 3), (1000, 3)])
def test_as_many_as_there_are(index: VectorIndex, n: int, found: int) -> None:
    index.upsert(SPACE, "a", range(3), some(3))
    assert len(index.query(SPACE, some(1), n)) == found


def test_a_thousand(index: VectorIndex) -> None:
    vectors = some(1_500)
    index.upsert(SPACE, "a", range(1_500), vectors)
    hits = index.query(SPACE, vectors[:1], 1_000)
    nearest = {int(place) for place in np.argsort(-(vectors @ vectors[0]))[:1_000]}
    assert len(set(places(hits))) == len(hits) == 1_000
    assert len(nearest & {place for _, place, _ in hits}) >= 990


def test_equal_cosines_are_ordered_by_document_and_number(index: VectorIndex) -> None:
    same = np.repeat(some(1), 12, axis=0)
    for document_id in ("b", "a", "a:1"):
        index.upsert(SPACE, document_id, [11, 2, 10, 1, 0, 9, 8, 3, 7, 4, 6, 5], same)
    order = [(document_id, place) for document_id in ("a", "a:1", "b") for place in range(12)]
    assert places(index.query(SPACE, same[:1], 36)) == order
    # Those that come first are chosen even where equals are left out.
    assert places(index.query(SPACE, same[:1], 5)) == order[:5]
    index.delete(SPACE, "a")
    index.upsert(SPACE, "a", [3], same[:1])
    assert places(index.query(SPACE, same[:1], 3)) == [("a", 3), ("a:1", 0), ("a:1", 1)]


def test_a_document_of_ten_thousand_chunks(index: VectorIndex) -> None:
    vectors = some(10_050, 8)
    index.upsert(SPACE, "long", range(10_050), vectors)
    index.upsert(SPACE, "short", range(12), some(12, 8, seed=1))
    assert index.count(SPACE) == 10_062
    assert index.ids(SPACE) == {"long": 10_050, "short": 12}
    for place in (2, 10, 1_000, 9_999, 10_000, 10_049):
        assert places(index.query(SPACE, vectors[place : place + 1], 1)) == [("long", place)]
    index.delete(SPACE, "long")
    assert index.ids(SPACE) == {"short": 12}
    assert index.count(SPACE) == 12
    assert {hit[0] for hit in index.query(SPACE, vectors[:1], 50)} == {"short"}
    assert len(index.query(SPACE, vectors[:1], 50)) == 12


def test_upserting_again_overwrites(index: VectorIndex) -> None:
    east, north = unit([[1, 0, 0]]), unit([[0, 1, 0]])
    index.upsert(SPACE, "a", [0, 1], np.concatenate([east, north]))
    index.upsert(SPACE, "a", [0], north)
    assert index.count(SPACE) == 2
    assert index.query(SPACE, north, 2) == [("a", 0, 1.0), ("a", 1, 1.0)]


def test_a_shorter_version_leaves_nothing_of_the_longer(index: VectorIndex) -> None:
    index.upsert(SPACE, "a", range(10), some(10))
    index.delete(SPACE, "a")
    index.upsert(SPACE, "a", range(4), some(4))
    assert {place for _, place, _ in index.query(SPACE, some(1), 20)} == {0, 1, 2, 3}
    assert index.ids(SPACE) == {"a": 4}


def test_documents_whose_names_begin_alike(index: VectorIndex) -> None:
    for document_id in ("doc", "doc1", "doc:1", "DOC", "ü 漢 👋"):
        index.upsert(SPACE, document_id, range(2), some(2))
    index.delete(SPACE, "doc")
    assert index.ids(SPACE) == {"doc1": 2, "doc:1": 2, "DOC": 2, "ü 漢 👋": 2}


def test_spaces_do_not_see_each_other(index: VectorIndex) -> None:
    index.upsert(SPACE, "a", range(3), some(3, 8))
    index.upsert(OTHER, "a", range(5), some(5, 12))
    assert (index.count(SPACE), index.count(OTHER)) == (3, 5)
    index.delete(SPACE, "a")
    assert (index.count(SPACE), index.count(OTHER)) == (0, 5)
    index.drop(SPACE)
    index.drop(SPACE)
    assert len(index.query(OTHER, some(1, 12), 10)) == 5
    # Made again, with vectors of another length.
    index.upsert(SPACE, "b", range(2), some(2, 20))
    assert len(index.query(SPACE, some(1, 20), 10)) == 2


def test_any_name_is_a_space_of_its_own(index: VectorIndex) -> None:
    names = ["a", "ab", "A", "我的知识库", "你的知识库", "a b", "x" * 100, "x" * 101, "a..b", "-"]
    for number, name in enumerate(names):
        index.upsert(name, "d", range(number + 1), some(number + 1))
    assert [index.count(name) for name in names] == list(range(1, len(names) + 1))


def test_a_rebuild_beside_the_index_in_use(index: VectorIndex) -> None:
    index.upsert(SPACE, "old", range(5), some(5))
    index.upsert(OTHER, "old", range(5), some(5))
    fresh = index.begin_rebuild()
    assert fresh.count(SPACE) == 0
    fresh.upsert(SPACE, "new", range(3), some(3))
    assert index.ids(SPACE) == {"old": 5}
    assert fresh.ids(SPACE) == {"new": 3}
    index.switch(fresh)
    fresh.close()
    assert index.ids(SPACE) == {"new": 3}
    assert index.count(OTHER) == 0
    index.upsert(SPACE, "more", range(2), some(2))
    index.delete(SPACE, "new")
    assert index.ids(SPACE) == {"more": 2}


def test_a_rebuild_that_is_given_up(index: VectorIndex) -> None:
    index.upsert(SPACE, "old", range(5), some(5))
    given_up = index.begin_rebuild()
    given_up.upsert(SPACE, "new", range(3), some(3))
    given_up.close()
    assert index.ids(SPACE) == {"old": 5}
    second = index.begin_rebuild()
    assert second.count(SPACE) == 0
    second.upsert(SPACE, "second", range(2), some(2))
    index.switch(second)
    assert index.ids(SPACE) == {"second": 2}


def test_closing_twice(index: VectorIndex) -> None:
    index.close()
    index.close()


def test_several_threads(index: VectorIndex) -> None:
    vectors = some(40)
    index.upsert(SPACE, "fixed", range(40), vectors)
    errors: list[BaseException] = []

    def work(name: str) -> None:
        try:
            for _ in range(4):
                index.upsert(SPACE, name, range(40), some(40, seed=ord(name)))
                assert places(index.query(SPACE, vectors[:1], 1)) == [("fixed", 0)]
                index.delete(SPACE, name)
        except BaseException as error:  # noqa: BLE001 - shown by the assertion below
            errors.append(error)

    threads = [threading.Thread(target=work, args=(name,)) for name in "abcdef"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert index.ids(SPACE) == {"fixed": 40}


def test_practically_exact_on_random_vectors(index: VectorIndex) -> None:
    vectors, questions = some(5_000, 384), some(50, 384, seed=1)
    index.upsert(SPACE, "a", range(5_000), vectors)
    nearest = np.argsort(-(questions @ vectors.T), axis=1)[:, :10]
    found = sum(
        len(set(nearest[row].tolist()) & {hit[1] for hit in index.query(SPACE, question[None], 10)})
        for row, question in enumerate(questions)
    )
    assert found >= 495


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChromaIndex]:
    """An index that one test uses many times, with a space for each."""
    opened = ChromaIndex.open(tmp_path_factory.mktemp("index") / "chroma")
    yield opened
    opened.close()


GRID = unit([[x, y, 1] for x in (-1, 0, 1) for y in (-1, 0, 1)])
CHANGES = st.lists(
    st.tuples(
        st.sampled_from(["d1", "d2", "d10"]),
        st.lists(
            st.tuples(st.integers(0, 12), st.integers(0, len(GRID) - 1)),
            unique_by=lambda pair: pair[0],
            max_size=8,
        ),
    ),
    max_size=8,
)


@settings(max_examples=25, deadline=None)
@given(changes=CHANGES, question=st.integers(0, len(GRID) - 1), n=st.integers(1, 30))
def test_chroma_answers_as_the_double_does(
    kept: ChromaIndex, changes: list[tuple[str, list[tuple[int, int]]]], question: int, n: int
) -> None:
    double = MemoryIndex()
    kept.drop(SPACE)
    for document_id, pairs in changes:
        for index in (kept, double):
            if pairs:
                index.upsert(
                    SPACE,
                    document_id,
                    [place for place, _ in pairs],
                    GRID[[vector for _, vector in pairs]],
                )
            else:
                index.delete(SPACE, document_id)
    assert kept.ids(SPACE) == double.ids(SPACE)
    expected = [
        (document_id, place, round(cosine, 5))
        for document_id, place, cosine in double.query(SPACE, GRID[question][None], 100)
    ]
    expected.sort(key=lambda hit: (-hit[2], hit[0], hit[1]))
    hits = kept.query(SPACE, GRID[question][None], n)
    assert places(hits) == places(expected[:n])
    np.testing.assert_allclose(
        [hit[2] for hit in hits], [hit[2] for hit in expected[:n]], atol=2e-5
    )
