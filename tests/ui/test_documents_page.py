"""The Documents page: files go in once, say how they are, and leave only when confirmed."""

from __future__ import annotations

from typing import Any

import pytest

from rag.library import Library
from rag.samples import sample_collections
from rag.ui import resources

NOTE = ("note.md", b"# Note\n\nThe token lasts 90 days.\n")


@pytest.fixture
def page(pages: Any) -> Any:
    return pages.go("documents")


def button(page: Any, label: str) -> Any:
    return next(b for b in page.button if b.label == label)


def test_an_empty_library_says_so_and_offers_the_samples(page: Any) -> None:
    assert "no documents yet" in page.info[0].value
    button(page, "Load the sample documents").click().run()
    assert not page.exception
    assert not page.error
    names = [file.name for sample in sample_collections() for file in sample.files]
    rows = page.shown("fen-document")
    assert len(rows) == len(names)
    assert all(any(name in row for row in rows) for name in names)
    assert not [b for b in page.button if b.label == "Load the sample documents"]


def test_a_dropped_file_is_added_and_listed(page: Any, library: Library) -> None:
    page.drop(NOTE)
    assert [document.name for document in library.documents("My documents")] == ["note.md"]
    document = library.documents()[0]
    (row,) = page.shown("fen-document")
    for text in ("note.md", "My documents", "Ready", str(document.chunks), "33 B"):
        assert text in row
    assert "Ready" in page.shown("fen-job fen-ready")[0]


def test_the_limit_and_the_formats_are_stated_beforehand(page: Any) -> None:
    uploader = page.get("file_uploader")[0]
    assert "200 MiB" in uploader.label
    assert {".pdf", ".docx", ".md", ".txt", ".html"} <= set(uploader.allowed_type)


def test_a_rerun_submits_nothing_again_and_the_drop_zone_is_empty(page: Any) -> None:
    page.drop(NOTE)
    before = resources.opened().worker.jobs()
    page.run()
    page.go("chat").go("documents")
    assert resources.opened().worker.jobs() == before
    assert page.session_state[page.get("file_uploader")[0].key] == []


def test_the_same_bytes_are_already_there(page: Any, library: Library) -> None:
    page.drop(NOTE)
    page.drop(NOTE, ("copy.md", NOTE[1]))
    assert len(library.documents()) == 1
    assert len(page.shown("fen-job fen-unchanged")) == 2
    assert "Already there" in page.shown("fen-job fen-unchanged")[0]


def test_a_bad_file_says_why_and_the_others_go_on(page: Any, library: Library) -> None:
    page.drop(("broken.pdf", b"%PDF-1.7"), ("empty.txt", b""), NOTE)
    failed = page.shown("fen-job fen-failed")
    assert ["broken.pdf" in failed[0], "empty.txt" in failed[1]] == [True, True]
    assert all(text.endswith(".") for text in failed)
    assert [document.name for document in library.documents()] == ["note.md"]
    assert not page.exception


def test_the_list_of_jobs_can_be_cleared(page: Any) -> None:
    page.drop(NOTE)
    button(page, "Clear this list").click().run()
    assert not resources.opened().worker.jobs()
    assert not page.shown("fen-job fen-ready")


def test_files_go_into_the_chosen_collection(page: Any, library: Library) -> None:
    library.ensure_collection("手册")
    page.run()
    page.selectbox(key="into").set_value("手册").run()
    page.drop(NOTE)
    assert [document.name for document in library.documents("手册")] == ["note.md"]


def test_deleting_asks_first_and_names_the_document(page: Any, library: Library) -> None:
    page.drop(NOTE, ("other.md", b"# Other\n\nSomething else.\n"))
    kept, gone = library.documents()
    page.button(key=f"delete-{gone.id}").click().run()
    assert page.shown("fen-name") == [gone.name]
    assert len(library.documents()) == 2
    page.button(key="keep").click().run()
    assert len(library.documents()) == 2
    page.button(key=f"delete-{gone.id}").click().run()
    page.button(key="sure").click().run()
    assert library.documents() == [kept]
    assert page.toast[0].value == "Deleted\\: " + gone.name
    assert len(page.shown("fen-document")) == 1


def test_a_document_that_is_gone_already_is_a_sentence(page: Any, library: Library) -> None:
    page.drop(NOTE)
    (document,) = library.documents()
    page.button(key=f"delete-{document.id}").click().run()
    library.remove([document.id])
    page.button(key="sure").click().run()
    assert len(page.error) == 1
    assert not page.exception


def test_hostile_names_are_shown_as_they_are(page: Any, library: Library) -> None:
    names = ["../../etc/x.md", "**b** $x$ _i_.md", "<img src=x onerror=alert(1)>.md", "a\nb.md"]
    page.drop(*((name, f"# T\n\nText {n}.\n".encode()) for n, name in enumerate(names)))
    assert sorted(document.name for document in library.documents()) == sorted(names)
    rows = "".join(page.shown("fen-document"))
    assert all(name in rows for name in names)
    for document in library.documents():
        page.button(key=f"delete-{document.id}").click().run()
        assert page.shown("fen-name") == [document.name]
        page.button(key="sure").click().run()
    assert not library.documents()
    assert not page.exception


def test_equal_names_get_their_own_rows(page: Any, library: Library) -> None:
    page.drop(("same.md", b"# A\n\nOne text.\n"), ("same.md", b"# B\n\nAnother text.\n"))
    assert not page.exception
    assert len(page.shown("fen-document")) == len(library.documents()) == 2


def test_a_long_list_comes_in_pages(page: Any, library: Library) -> None:
    for number in range(23):
        list(library.add(f"{number}.md", f"# {number}\n\nText {number}.\n".encode(), "Many"))
    page.run()
    assert len(page.shown("fen-document")) == 20
    page.get("pagination")[0].set_value(2).run()
    assert len(page.shown("fen-document")) == 3
