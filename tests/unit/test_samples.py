"""The sample documents and questions: complete, true to the documents, and fit to show windows."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from rag import samples
from rag.adapters.catalog_sql import open_catalog
from rag.adapters.readers import FileReader
from rag.adapters.sentence_transformer import SentenceTransformerEmbedder
from rag.chunking import validate
from rag.domain import Added, Strategy
from rag.errors import SettingsError
from rag.evals.judge import holds_all, normalise
from rag.library import Library, Parts, Selection
from rag.samples import KINDS, SampleQuestion, load_samples
from rag.settings import Settings
from rag.testing import HashEmbedder, MemoryIndex, ScriptedChat

COLLECTIONS = {sample.name: sample for sample in samples.sample_collections()}
QUESTIONS = samples.questions()
GUIDE = "API guide"
PARAGRAPH = (
    "All API requests require authentication. Generate a bearer token from your dashboard under "
    "Settings > API Keys. Use the bearer token in the Authorization header. Tokens expire after "
    "90 days and should be rotated regularly."
)
TOKEN_QUESTION = "Where do I get the token and how long is it valid?"


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    """All samples, read and embedded for real."""
    folder = tmp_path_factory.mktemp("samples")
    parts = Parts(
        Settings(home=folder),
        open_catalog(f"sqlite:///{folder / 'catalog.sqlite'}"),
        MemoryIndex(),
        SentenceTransformerEmbedder(),
        FileReader(seconds=60, memory_mb=4096, max_bytes=10_000_000),
        ScriptedChat(),
    )
    with Library(parts) as library:
        added = [event for event in load_samples(library) if isinstance(event, Added)]
        assert [(a.name, a.status, a.error) for a in added] == [
            (path.name, "ready", None) for sample in COLLECTIONS.values() for path in sample.files
        ]
        yield library


@pytest.fixture(scope="module")
def texts(library: Library) -> dict[str, str]:
    """Text of every sample document by its name."""
    return {d.name: library.show(d.id)[1].text for d in library.documents()}


# The descriptions


def test_every_file_is_there_and_in_one_collection_only() -> None:
    files = [path for sample in COLLECTIONS.values() for path in sample.files]
    assert len(files) == len(set(files)) >= 6
    assert all(path.is_file() for path in files)
    kinds = Counter(path.suffix for path in files)
    assert {".md", ".txt", ".html", ".docx", ".pdf"} <= set(kinds)
    described = {path.name for path in files} | {"samples.json", "questions.json"}
    assert described == {p.name for p in samples.FOLDER.iterdir() if p.name[0] != "."}


def test_the_chunk_settings_are_possible() -> None:
    for sample in COLLECTIONS.values():
        validate(sample.chunking, SentenceTransformerEmbedder().max_tokens)
    assert COLLECTIONS[GUIDE].chunking.tokens < 20
    assert COLLECTIONS["Sample documents"].chunking.tokens == 64


def test_the_examples_use_collections_that_exist() -> None:
    examples = samples.examples()
    assert len(examples) >= 4
    assert (examples[0].question, examples[0].top_n, examples[0].window) == (TOKEN_QUESTION, 1, 4)
    assert examples[0].collection == GUIDE
    for example in examples:
        assert example.collection in COLLECTIONS
    asked = {(q.question, q.collection): q.kind for q in QUESTIONS}
    kinds = [asked[e.question, e.collection] for e in examples]
    assert kinds.count("neighbour") >= 2
    assert kinds.count("absent") == 1


def test_the_questions_are_enough_and_well_formed() -> None:
    kinds = Counter(q.kind for q in QUESTIONS)
    assert len(QUESTIONS) >= 24
    assert set(kinds) == set(KINDS)
    assert min(kinds.values()) >= 6
    assert len({q.id for q in QUESTIONS}) == len({q.question for q in QUESTIONS}) == len(QUESTIONS)
    for question in QUESTIONS:
        names = {path.name for path in COLLECTIONS[question.collection].files}
        if question.kind == "absent":
            assert (question.expected, question.document, question.evidence) == ((), None, None)
        else:
            assert question.document in names
            assert question.evidence
            assert question.expected
            assert all(group and all(group) for group in question.expected)


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda q: q.id)
def test_no_question_gives_its_answer_away(question: SampleQuestion) -> None:
    assert not question.expected or not holds_all(question.question, question.expected)


# The documents


def test_the_guide_has_the_bearer_token_paragraph(texts: dict[str, str]) -> None:
    assert f"\n\n{PARAGRAPH}\n\n" in texts["api-guide.md"]


def test_documents_have_two_to_eight_printed_pages(library: Library) -> None:
    for document in library.documents():
        words = len(library.show(document.id)[1].text.split())
        assert 2 <= (document.pages or words / 425) <= 8, document.name


def test_pdfs_have_pages_and_all_but_the_plain_text_have_headings(library: Library) -> None:
    for document in library.documents():
        _, text, _ = library.show(document.id)
        assert (len(text.page_starts) >= 2) == document.name.endswith(".pdf")
        assert (len(text.headings) >= 5) == (not document.name.endswith(".txt")), document.name
        assert document.warnings == ()


@pytest.mark.parametrize(
    "question", [q for q in QUESTIONS if q.kind != "absent"], ids=lambda q: q.id
)
def test_the_evidence_stands_in_the_document(
    question: SampleQuestion, texts: dict[str, str]
) -> None:
    assert question.document is not None
    assert question.evidence is not None
    text = texts[question.document]
    assert _bare(question.evidence) in _bare(text)
    assert holds_all(text, question.expected)


def _bare(text: str) -> str:
    return re.sub(r"\s*\|\s*", " ", normalise(text))


# What retrieval makes of them


def test_every_sentence_of_the_paragraph_is_a_chunk(library: Library) -> None:
    (guide,) = library.documents(GUIDE)
    chunks = [chunk.text.strip() for chunk in library.show(guide.id)[2]]
    first = next(i for i, text in enumerate(chunks) if text.endswith("require authentication."))
    sentences = re.split(r"(?<=\.) ", PARAGRAPH)
    assert [chunks[first].split("\n")[-1], *chunks[first + 1 : first + 4]] == sentences


def test_the_token_question_needs_the_window(library: Library) -> None:
    """The match alone does not say where; the window of four says where and how long."""
    isolated, window = library.pair(
        TOKEN_QUESTION,
        GUIDE,
        Selection(Strategy.ISOLATED, top_n=1),
        Selection(Strategy.WINDOW, 4, top_n=1),
    )
    (alone,), (around,) = isolated.passages, window.passages
    assert "Settings > API Keys" in around.text
    assert "90 days" in around.text
    assert "Settings > API Keys" not in alone.text


def test_kinds_say_what_the_best_match_holds(library: Library) -> None:
    """Another reader or chunker may move a few; most must be as they are said to be."""
    wrong = [q.id for q in QUESTIONS if q.kind != "absent" and not _is_of_its_kind(library, q)]
    assert len(wrong) <= 4, wrong


def _is_of_its_kind(library: Library, question: SampleQuestion) -> bool:
    selection = Selection(Strategy.ISOLATED, top_n=1)
    best = library.search(question.question, question.collection, selection).passages[0]
    return holds_all(best.text, question.expected) == (question.kind == "chunk")


# Loading


def test_loading_again_changes_nothing_and_an_unknown_name_is_refused(tmp_path: Path) -> None:
    parts = Parts(
        Settings(home=tmp_path),
        open_catalog(f"sqlite:///{tmp_path / 'catalog.sqlite'}"),
        MemoryIndex(),
        HashEmbedder(),
        FileReader(seconds=60, memory_mb=4096, max_bytes=10_000_000),
        ScriptedChat(),
    )
    with Library(parts) as library:
        statuses = []
        for _ in range(2):
            events = load_samples(library, [GUIDE])
            statuses += [event.status for event in events if isinstance(event, Added)]
        assert statuses == ["ready", "unchanged"]
        assert [c.name for c in library.collections()] == [GUIDE]
        assert library.collection(GUIDE).chunking == COLLECTIONS[GUIDE].chunking
        with pytest.raises(SettingsError, match='no sample collection "Recipes"; choose from API'):
            list(load_samples(library, ["Recipes"]))


def test_missing_samples_are_one_plain_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(samples, "FOLDER", tmp_path)
    for read in (samples.sample_collections, samples.examples, samples.questions):
        with pytest.raises(SettingsError, match=r"cannot be read .* run Fenestra from there"):
            read()
