"""The whole path on real parts: files, SQLite, Chroma, MiniLM; only the chat is scripted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rag.adapters.sentence_transformer import SentenceTransformerEmbedder
from rag.compose import open_library
from rag.domain import Added, ChunkSettings, Context, Document, Progress, Strategy
from rag.errors import EmbeddingMismatch, LibraryBusy, NotFound, SettingsError
from rag.library import Library, Selection
from rag.settings import load_settings
from rag.testing import HashEmbedder, ScriptedChat

MINILM = SentenceTransformerEmbedder()

GUIDE = (
    "# Access\n\nAll API requests require authentication. Generate a bearer token from your "
    "dashboard under Settings > API Keys. Use the bearer token in the Authorization header. "
    "Tokens expire after 90 days and should be rotated regularly.\n\n# Limits\n\n"
    "Each key may send 600 requests in a minute. More are answered with status 429.\n"
)
FARM = "\n\n".join(
    f"Field {i} grows barley variety {i * 7}. It was sown in week {i}." for i in range(40)
)


@pytest.fixture
def library(home: Path) -> Iterator[Library]:
    with open_library(load_settings(), embedder=MINILM, chat=ScriptedChat()) as opened:
        yield opened


def add(library: Library, name: str, text: str, **more: str) -> Document:
    """Add a text; return the document that came of it."""
    *progress, added = list(library.add(name, text.encode(), **more))
    assert all(isinstance(event, Progress) for event in progress)
    assert isinstance(added, Added)
    assert added.error is None
    assert added.document is not None
    return added.document


def check(library: Library, context: Context) -> None:
    """What holds for every context."""
    shown = {p.document_id: library.show(p.document_id) for p in context.passages}
    for number, passage in enumerate(context.passages, start=1):
        _, text, chunks = shown[passage.document_id]
        assert passage.number == number
        assert passage.text == text.text[passage.start : passage.end]
        if not any("cut to the part" in sentence for sentence in context.dropped):
            assert passage.start == chunks[passage.first].start
            assert passage.end == chunks[passage.last].end
        assert "".join(segment.text for segment in passage.segments) == passage.text
        assert passage.text in context.prompt
        assert passage.tokens == MINILM.count([passage.text])[0]
    assert context.token_count == sum(passage.tokens for passage in context.passages)
    assert all(0 <= hit.similarity <= 1 for hit in context.hits)
    scores = [hit.score for hit in context.hits]
    assert scores == sorted(scores, reverse=True)


def test_the_example_that_windows_are_for(library: Library) -> None:
    library.ensure_collection("API", ChunkSettings(16))
    add(library, "guide.md", GUIDE, collection="API")
    question = "Where do I get the token and how long is it valid?"
    isolated, window = library.pair(
        question,
        "API",
        Selection(Strategy.ISOLATED, top_n=1),
        Selection(Strategy.WINDOW, top_n=1),
    )
    assert isolated.hits == window.hits
    for wanted in ("Settings > API Keys", "90 days"):
        assert wanted in window.passages[0].text
    assert not all(w in isolated.passages[0].text for w in ("Settings > API Keys", "90 days"))
    assert window.passages[0].section == "Access"
    check(library, isolated)
    check(library, window)


@pytest.mark.parametrize("overlap", [0, 8])
def test_every_strategy_window_and_budget(library: Library, overlap: int) -> None:
    library.ensure_collection("Farm", ChunkSettings(24, overlap))
    add(library, "farm.md", FARM, collection="Farm")
    add(library, "guide.md", GUIDE, collection="Farm")
    retrieval = library.retrieve("Which barley grows on field 12?", "Farm", 200)
    hits = library.search(retrieval.question, "Farm", Selection(top_n=4)).hits
    assert hits == retrieval.hits[:4]
    for strategy in Strategy:
        for window in (1, 2, 4, 99):
            for budget in (None, 1, 7, 60, 500):
                for top_n in (4, None):
                    if top_n is None and budget is None:
                        continue
                    selection = Selection(strategy, window, top_n, budget)
                    context = library.context(retrieval, selection)
                    check(library, context)
                    assert context.passages
                    assert context.hits[:4] == hits[: len(context.hits)]
                    assert context.token_count <= (budget or library.settings.context_tokens)


def test_window_one_sends_the_isolated_prompt_byte_for_byte(library: Library) -> None:
    add(library, "farm.md", FARM)
    for top_n in (1, 3, 20):
        isolated, window = library.pair(
            "Which barley grows on field 12?",
            "My documents",
            Selection(Strategy.ISOLATED, window=7, top_n=top_n),
            Selection(Strategy.WINDOW, window=1, top_n=top_n),
        )
        assert isolated.prompt.encode() == window.prompt.encode()
        assert isolated.messages == window.messages


def test_the_same_question_gives_the_same_context(library: Library) -> None:
    add(library, "farm.md", FARM)
    add(library, "copy of a part.md", FARM[: len(FARM) // 2])
    first = library.search("barley of field 3", "My documents", Selection(top_n=6))
    again = library.search("barley of field 3", "My documents", Selection(top_n=6))
    assert first.messages == again.messages
    assert first.hits == again.hits


def test_top_n_beyond_the_collection_gives_what_there_is(library: Library) -> None:
    document = add(library, "guide.md", GUIDE)
    context = library.search("token", "My documents", Selection(Strategy.ISOLATED, top_n=50))
    assert len(context.hits) == document.chunks
    assert len(context.passages) == document.chunks


def test_the_same_bytes_are_already_there(library: Library) -> None:
    first = add(library, "guide.md", GUIDE)
    (*_, added) = list(library.add("copy.md", GUIDE.encode()))
    assert isinstance(added, Added)
    assert (added.status, added.document) == ("unchanged", first)
    assert [d.name for d in library.documents()] == ["guide.md"]


def test_two_files_of_one_name_are_two_documents(library: Library) -> None:
    add(library, "README.md", "The heron stands in the shallow water.")
    add(library, "README.md", "The otter sleeps on the river bank.")
    assert [d.name for d in library.documents()] == ["README.md", "README.md"]


def test_a_new_version_of_a_path_replaces_the_old_one(library: Library, tmp_path: Path) -> None:
    path = tmp_path / "farm.md"
    path.write_text(FARM)
    list(library.add_path(path))
    path.write_text("Field 1 now grows quinoa.")
    list(library.add_path(path))
    (document,) = library.documents()
    assert document.chunks == 1
    context = library.search("barley field", "My documents", Selection(top_n=20, window=9))
    assert [hit.document_id for hit in context.hits] == [document.id]
    assert "barley" not in context.passages[0].text


@pytest.mark.parametrize("changed", ["a.md", "b.md"])
def test_files_with_the_same_bytes_are_each_kept_until_they_change(
    library: Library, tmp_path: Path, changed: str
) -> None:
    paths = [tmp_path / "a.md", tmp_path / "b.md"]
    for path in paths:
        path.write_text(GUIDE)
        list(library.add_path(path))
    (tmp_path / changed).write_text(FARM)
    for path in paths:
        list(library.add_path(path))
    assert len(library.documents()) == 2
    for words in ("Settings > API Keys", "Field 12 grows barley"):
        context = library.search(words, "My documents", Selection(Strategy.ISOLATED, top_n=3))
        assert any(words in passage.text for passage in context.passages)
    for path in paths:
        path.write_text(f"Nothing is left of {path.name}.")
        list(library.add_path(path))
    assert [document.chunks for document in library.documents()] == [1, 1]


def test_a_bad_version_of_a_path_leaves_the_old_one(library: Library, tmp_path: Path) -> None:
    path = tmp_path / "farm.md"
    path.write_text(FARM)
    list(library.add_path(path))
    path.write_bytes(b"")
    (*_, added) = list(library.add_path(path))
    assert isinstance(added, Added)
    assert added.status == "failed"
    assert [d.name for d in library.documents()] == ["farm.md"]
    assert library.search("barley", "My documents", Selection(top_n=1)).passages


def test_a_removed_document_is_neither_hit_nor_neighbour(library: Library) -> None:
    farm = add(library, "farm.md", FARM)
    guide = add(library, "guide.md", GUIDE)
    assert library.remove([farm.id]) == [farm.id]
    context = library.search("barley on field 12", "My documents", Selection(top_n=50, window=9))
    assert {hit.document_id for hit in context.hits} == {guide.id}
    assert [d.id for d in library.documents()] == [guide.id]
    with pytest.raises(NotFound):
        library.show(farm.id)


def test_removing_something_unknown_removes_nothing(library: Library) -> None:
    guide = add(library, "guide.md", GUIDE)
    with pytest.raises(NotFound, match="no-such-id"):
        library.remove([guide.id, "no-such-id"])
    assert [d.id for d in library.documents()] == [guide.id]


def test_an_abandoned_add_leaves_nothing(library: Library) -> None:
    events = library.add("farm.md", FARM.encode())
    for event in events:
        if isinstance(event, Progress) and event.message.startswith("Indexing"):
            break
    events.close()
    assert library.documents() == []
    add(library, "farm.md", FARM)
    assert len(library.documents()) == 1


@pytest.mark.parametrize("question", ["", "   ", "\n\t", "\x00", "x" * 8001])
def test_a_question_that_cannot_be_asked(library: Library, question: str) -> None:
    add(library, "guide.md", GUIDE)
    with pytest.raises(SettingsError):
        library.search(question, "My documents", Selection())


@pytest.mark.parametrize(
    "question", ["bad \ud83d x", "😀" * 50, "'; DROP TABLE documents; --", "{x} %s {{}}", "?"]
)
def test_an_odd_question_is_answered(library: Library, question: str) -> None:
    add(library, "guide.md", GUIDE)
    assert library.search(question, "My documents", Selection(top_n=2)).passages


def test_a_question_before_any_document(library: Library) -> None:
    add(library, "guide.md", GUIDE, collection="Guides")
    with pytest.raises(NotFound, match="My documents"):
        library.search("Anything?", "My documents", Selection())
    library.ensure_collection("Empty")
    with pytest.raises(NotFound, match="Add documents"):
        library.search("Anything?", "Empty", Selection())


@pytest.mark.parametrize("change", [{"window": 0}, {"top_n": 0}, {"budget": 0}, {"window": 10**9}])
def test_a_selection_out_of_range(change: dict[str, int]) -> None:
    with pytest.raises(SettingsError, match="Choose"):
        Selection(**change)


@pytest.mark.parametrize(
    "name", ["ab", "my docs", "日本語", "我的知识库", "你的知识库", "x" * 200, "a/b"]
)
def test_a_collection_may_have_any_name(library: Library, name: str) -> None:
    library.ensure_collection(name)
    add(library, "guide.md", GUIDE, collection=name)
    assert library.search("token", name, Selection(top_n=1)).passages
    assert library.documents("My documents") == [] if name == "My documents" else True


@pytest.mark.parametrize("name", ["", "  ", "x" * 201, "a\nb"])
def test_a_collection_name_that_is_refused(library: Library, name: str) -> None:
    with pytest.raises(SettingsError, match="name"):
        library.ensure_collection(name)


def test_another_owner_sees_nothing(library: Library) -> None:
    document = add(library, "guide.md", GUIDE)
    other = library.as_owner("b")
    assert other.collections() == []
    assert other.documents() == []
    for call in (
        lambda: other.show(document.id),
        lambda: other.remove([document.id]),
        lambda: other.search("token", "My documents", Selection()),
    ):
        with pytest.raises(NotFound):
            call()
    assert len(library.documents()) == 1


def test_windows_work_from_disk_alone(home: Path) -> None:
    with open_library(load_settings(), embedder=MINILM, chat=ScriptedChat()) as library:
        add(library, "farm.md", FARM)
        before = library.search("field 12", "My documents", Selection(top_n=2))
    with open_library(load_settings(), embedder=MINILM, chat=ScriptedChat()) as library:
        after = library.search("field 12", "My documents", Selection(top_n=2))
    assert after.messages == before.messages
    assert [(h.document_id, h.index) for h in after.hits] == [
        (h.document_id, h.index) for h in before.hits
    ]


def test_a_rebuilt_index_gives_the_same_hits(library: Library) -> None:
    add(library, "farm.md", FARM)
    add(library, "guide.md", GUIDE)
    before = library.search("field 12", "My documents", Selection(top_n=9))
    progress = list(library.rebuild())
    assert progress[-1].fraction == 1.0
    after = library.search("field 12", "My documents", Selection(top_n=9))
    assert after.messages == before.messages


def test_another_embedding_model_is_noticed_before_searching(home: Path) -> None:
    with open_library(load_settings(), embedder=MINILM, chat=ScriptedChat()) as library:
        add(library, "guide.md", GUIDE)
    with open_library(load_settings(), embedder=HashEmbedder(), chat=ScriptedChat()) as library:
        with pytest.raises(EmbeddingMismatch, match="all-MiniLM-L6-v2"):
            library.search("token", "My documents", Selection())
        (*_, added) = list(library.add("other.md", b"Some other text."))
        assert isinstance(added, Added)
        assert added.status == "failed"
        assert "all-MiniLM-L6-v2" in (added.error or "")


def test_a_second_process_is_told_who_has_the_library(library: Library) -> None:
    with pytest.raises(LibraryBusy, match=r"process \d+.*--home"):
        open_library(load_settings(), embedder=MINILM, chat=ScriptedChat())
    add(library, "guide.md", GUIDE)


def test_a_home_that_cannot_be_written(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    with pytest.raises(SettingsError, match=str(blocked)):
        open_library(load_settings(blocked / "home"))


@pytest.mark.parametrize(
    "name",
    [
        "漢" * 90 + ".txt",
        "a" * 250 + ".txt",
        "../x.md",
        "a/b.txt",
        "con.txt",
        "x\n**_$.txt",
        "\ud800.txt",
    ],
)
def test_names_are_shown_in_full_and_never_used_as_paths(
    library: Library, home: Path, name: str
) -> None:
    document = add(library, name, GUIDE)
    assert document.name == name.replace("\ud800", "?")
    assert library.show(document.id)[0].name == document.name
    assert not (home.parent / "x.md").exists()
    library.remove([document.id])
    assert library.documents() == []


def test_the_whole_path_with_the_catalog_on_postgresql(
    home: Path, new_postgres_url: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FENESTRA_DATABASE_URL", new_postgres_url())
    question = "Which barley grows on field 12?"
    with open_library(load_settings(), embedder=MINILM, chat=ScriptedChat()) as library:
        farm = add(library, "farm.md", FARM)
        add(library, "guide.md", GUIDE)
        before = library.search(question, "My documents", Selection(top_n=3))
        check(library, before)
        assert "Field 12 grows barley" in before.prompt
    with open_library(load_settings(), embedder=MINILM, chat=ScriptedChat()) as library:
        after = library.search(question, "My documents", Selection(top_n=3))
        assert after.messages == before.messages
        library.remove([farm.id])
        assert [document.name for document in library.documents()] == ["guide.md"]
    assert not (home / "catalog.sqlite").exists()


@pytest.mark.parametrize(
    "bulk", ["กรุงเทพมหานครเป็นเมืองหลวง" * 800, "0123456789abcdef" * 1500, " " * 30_000]
)
def test_a_budget_bounds_the_characters_too(library: Library, bulk: str) -> None:
    add(library, "bulk.txt", f"The herons nest here.\n\n{bulk}\n\nThe herons left in May.")
    for strategy in Strategy:
        for selection in (Selection(strategy, top_n=3), Selection(strategy, 9, budget=100)):
            context = library.search("Where do the herons nest?", "My documents", selection)
            check(library, context)
            budget = selection.budget or library.settings.context_tokens
            assert sum(len(passage.text) for passage in context.passages) <= 16 * budget


def test_the_first_question_of_all_says_to_add_documents(library: Library) -> None:
    with pytest.raises(NotFound, match="no document in the library yet"):
        library.search("Anything?", "My documents", Selection())


def test_a_collection_name_is_trimmed_wherever_it_is_given(library: Library) -> None:
    add(library, "guide.md", GUIDE, collection=" Guides ")
    assert library.search("token", "  Guides", Selection(top_n=1)).passages
    assert len(library.documents(" Guides ")) == 1


def test_a_budget_beyond_the_setting_is_said(library: Library) -> None:
    add(library, "guide.md", GUIDE)
    context = library.search("token", "My documents", Selection(budget=10**6))
    assert any("FENESTRA_CONTEXT_TOKENS" in sentence for sentence in context.dropped)
