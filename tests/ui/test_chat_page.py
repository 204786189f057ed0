"""The chat page: controls, examples, both answers, and all that can go wrong with a question."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rag.compose import open_library
from rag.domain import Strategy
from rag.errors import ModelUnavailable
from rag.library import Library
from rag.samples import examples
from rag.settings import load_settings
from rag.testing import HashEmbedder, Reply, ScriptedChat
from rag.ui import resources
from rag.ui.state import Phase

TOKEN = examples()[0]


def controls(pages: Any) -> tuple[Any, ...]:
    keys = ("collection", "left", "right", "window", "top_n")
    return tuple(pages.selectbox(key=key).value for key in keys)


def test_the_first_visit_says_what_this_is_and_offers_examples(pages: Any) -> None:
    assert pages.title[0].value == "Ask your documents"
    labels = [pages.button(key=f"example-{n}").label for n in range(len(examples()))]
    assert [label.replace("\\", "") for label in labels] == [e.question for e in examples()]
    assert controls(pages) == (None, Strategy.ISOLATED, Strategy.WINDOW, 4, 3)
    assert pages.selectbox(key="collection").disabled


def test_an_example_loads_its_samples_sets_the_controls_and_asks(
    pages: Any, library: Library, chat: ScriptedChat
) -> None:
    pages.button(key="example-0").click().run()
    assert not pages.exception
    assert not pages.error
    assert [c.name for c in library.collections()] == [TOKEN.collection]
    expected = (TOKEN.collection, Strategy.ISOLATED, Strategy.WINDOW, TOKEN.window, TOKEN.top_n)
    assert controls(pages) == expected
    assert pages.query_params["top_n"] == "1"
    assert pages.shown("fen-question") == [TOKEN.question]
    assert [text.strip() for text in pages.shown("fen-answer")] == [
        "Under Settings > API Keys [1]."
    ] * 2
    left, right = pages.session_state["turns"][0].sides
    assert (left.context.strategy, right.context.strategy) == tuple(expected[1:3])
    assert left.context.hits == right.context.hits
    assert {left.context.messages, right.context.messages} == set(chat.calls)


def test_an_example_that_is_loaded_is_not_loaded_again(
    pages: Any, open_pages: Callable[..., Any], library: Library
) -> None:
    pages.button(key="example-0").click().run()
    before = library.documents()
    again = open_pages()
    again.button(key="example-0").click().run()
    assert library.documents() == before
    assert again.shown("fen-question") == [TOKEN.question]


def test_every_example_is_asked_of_its_collection(pages: Any) -> None:
    for number, example in enumerate(examples()):
        pages.session_state["turns"] = []
        pages.run()
        pages.button(key=f"example-{number}").click().run()
        assert not pages.error
        assert controls(pages)[0] == example.collection
        assert controls(pages)[3:] == (example.window, example.top_n)


def test_under_each_answer_stands_what_it_took(pages: Any) -> None:
    pages.button(key="example-0").click().run()
    figures = pages.shown("fen-figures")
    assert len(figures) == 2
    for side, text in zip(pages.session_state["turns"][0].sides, figures, strict=True):
        assert f"Tokens sent{side.answer.usage.prompt_tokens}" in text
        assert f"Tokens in passages{side.context.token_count}" in text
        assert "Cost" not in text


def test_with_prices_an_answer_shows_its_cost(
    open_pages: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FENESTRA_PRICE_PROMPT", "2")
    monkeypatch.setenv("FENESTRA_PRICE_COMPLETION", "8")
    pages = open_pages(ScriptedChat("Yes."))
    pages.button(key="example-0").click().run()
    for side, text in zip(
        pages.session_state["turns"][0].sides, pages.shown("fen-figures"), strict=True
    ):
        assert f"Cost{side.answer.cost:.6f}".rstrip("0") in text


def test_the_exact_prompt_is_shown_twice_marked_and_plain(pages: Any) -> None:
    pages.button(key="example-0").click().run()
    sides = pages.session_state["turns"][0].sides
    assert [code.value for code in pages.code] == [side.context.prompt for side in sides]
    for side, shown in zip(sides, pages.shown("fen-prompt"), strict=True):
        assert shown.endswith(side.context.prompt)


def test_a_window_of_one_sends_the_isolated_prompt(pages: Any) -> None:
    pages.button(key="example-0").click().run()
    pages.selectbox(key="window").set_value(1).run()
    pages.ask("How long is a token valid?")
    left, right = pages.session_state["turns"][-1].sides
    assert left.context.prompt == right.context.prompt


def test_earlier_turns_stay_above(pages: Any) -> None:
    pages.button(key="example-0").click().run()
    pages.ask("And what about $5 errors?")
    assert pages.shown("fen-question") == [TOKEN.question, "And what about $5 errors?"]
    assert len(pages.shown("fen-answer")) == 4


def test_controls_come_back_from_the_url(pages: Any, open_pages: Callable[..., Any]) -> None:
    pages.button(key="example-1").click().run()
    query = {"left": "Chunk windows", "right": "Whole documents", "window": "6", "top_n": "2"}
    again = open_pages(**query, collection="Sample documents")
    assert controls(again) == ("Sample documents", Strategy.WINDOW, Strategy.DOCUMENT, 6, 2)
    again.ask("When does the deposit come back?")
    left, right = again.session_state["turns"][0].sides
    assert (left.selection.window, right.selection.top_n) == (6, 2)
    assert again.query_params["window"] == "6"


def test_controls_outlast_a_visit_to_the_other_page(pages: Any) -> None:
    pages.button(key="example-0").click().run()
    pages.selectbox(key="window").set_value(6).run()
    before = controls(pages)
    pages.go("documents").go("chat")
    assert controls(pages) == before
    assert pages.query_params["window"] == "6"
    assert pages.shown("fen-question") == [TOKEN.question]


@pytest.mark.parametrize(
    "query",
    [
        {"window": "0", "top_n": "-1"},
        {"window": "9" * 5000, "top_n": "1e9"},
        {"window": "nan", "top_n": "４"},
        {"left": "<script>alert(1)</script>", "right": "../../etc/passwd"},
        {"collection": "no such collection", "left": "", "window": ""},
        {"collection": "'; DROP TABLE documents; --", "question": "x", "page": "nowhere"},
    ],
)
def test_hostile_values_in_the_url_fall_back(
    query: dict[str, str], pages: Any, open_pages: Callable[..., Any], library: Library
) -> None:
    list(library.add("a.md", b"# A\n\nSome words about tokens.\n", "Notes"))
    again = open_pages(**query)
    assert controls(again)[:3] == ("Notes", Strategy.ISOLATED, Strategy.WINDOW)
    assert controls(again)[3] == 4
    assert 1 <= controls(again)[4] <= 20
    again.ask("tokens?")
    assert not again.exception
    assert not again.error


def test_a_question_before_any_document_says_what_to_do(pages: Any, library: Library) -> None:
    pages.ask("Where is the token?")
    assert "no document to look in yet" in pages.info[0].value
    assert not pages.session_state["turns"]
    load = next(b for b in pages.button if b.label == "Load the samples")
    load.click().run()
    assert not pages.error
    assert library.documents()
    pages.ask("Where is the token?")
    assert len(pages.shown("fen-answer")) == 2


def test_a_blank_question_is_a_plain_sentence(pages: Any) -> None:
    pages.button(key="example-0").click().run()
    pages.ask("   ")
    assert "question is empty" in pages.error[0].value
    assert not pages.exception


def test_an_emptied_collection_is_a_plain_sentence(pages: Any, library: Library) -> None:
    pages.button(key="example-0").click().run()
    list(library.add("a.md", b"# A\n\nSome words about tokens.\n", "Notes"))
    library.remove([document.id for document in library.documents(TOKEN.collection)])
    pages.ask("Where is the token?")
    assert "no document in the collection" in pages.error[0].value


def test_one_side_failing_leaves_the_other(open_pages: Callable[..., Any]) -> None:
    def reply(messages: Any) -> Reply:
        if len(messages[-1].content.split("[end source")[0]) > 200:  # the window's
            return Reply("Settings > API Keys.")
        return Reply(error=ModelUnavailable("The model is down: <b>$5</b>. Start it."))

    pages = open_pages(ScriptedChat(reply))
    pages.button(key="example-0").click().run()
    left, right = pages.session_state["turns"][0].sides
    assert (left.phase, right.phase) == (Phase.FAILED, Phase.DONE)
    assert [text.strip() for text in pages.shown("fen-answer")] == ["Settings > API Keys."]
    assert len(pages.error) == 1
    assert "\\<b\\>\\$5\\</b\\>" in pages.error[0].value


def test_an_answer_that_breaks_off_keeps_its_text(open_pages: Callable[..., Any]) -> None:
    pages = open_pages(ScriptedChat(Reply("one two three four", cut=2)))
    pages.button(key="example-0").click().run()
    assert [text.strip() for text in pages.shown("fen-answer")] == ["one two"] * 2
    assert all("Ask again" in note for note in pages.shown("fen-note"))


def test_a_stopped_answer_keeps_its_text_and_says_so(pages: Any) -> None:
    pages.button(key="example-0").click().run()
    for side in pages.session_state["turns"][0].sides:
        side.phase, side.text, side.answer = Phase.OPEN, "Half an ans", None
    pages.run()
    assert [text.strip() for text in pages.shown("fen-answer")] == ["Half an ans"] * 2
    assert [note.split(".")[0] for note in pages.shown("fen-note")] == ["Stopped"] * 2


def test_a_model_that_answers_one_at_a_time_answers_both(open_pages: Callable[..., Any]) -> None:
    pages = open_pages(ScriptedChat("Yes.", parallel=False))
    pages.button(key="example-0").click().run()
    assert [text.strip() for text in pages.shown("fen-answer")] == ["Yes."] * 2


def test_hostile_documents_and_answers_are_shown_as_text(open_pages: Callable[..., Any]) -> None:
    hostile = 'Costs $5 and $6, :red[x] <img src="http://example.org/x"> [a](javascript:b)'
    pages = open_pages(ScriptedChat(hostile))
    library = resources.opened().library
    name = "**bold** $x$ <script>.md"
    list(library.add(name, f"# Costs\n\n{hostile}\n".encode(), "<b>Notes</b>"))
    pages.run()
    pages.ask("What are the costs?")
    assert [text.strip() for text in pages.shown("fen-answer")] == [hostile] * 2
    assert all(f"[1] {name}" in text for text in pages.shown("fen-sources"))
    assert controls(pages)[0] == "<b>Notes</b>"
    assert not pages.exception


def test_a_busy_library_is_a_sentence_and_a_button_that_tries_again(
    open_pages: Callable[..., Any],
) -> None:
    settings = load_settings()
    holder = open_library(settings, embedder=HashEmbedder(), chat=ScriptedChat())
    try:
        pages = open_pages(ScriptedChat("Yes."))
        assert len(pages.error) == 1
        assert not pages.title
    finally:
        holder.close()
    next(b for b in pages.button if b.label == "Try again").click().run()
    assert not pages.error
    assert pages.title


def test_a_wrong_setting_is_a_sentence(
    open_pages: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    resources.use(None)
    monkeypatch.setenv("FENESTRA_TEMPERATURE", "warm")
    pages = open_pages()
    assert "FENESTRA\\_TEMPERATURE" in pages.error[0].value


def test_visits_share_documents_but_not_their_chat(
    pages: Any, open_pages: Callable[..., Any]
) -> None:
    pages.button(key="example-0").click().run()
    other = open_pages()
    assert not other.session_state["turns"]
    assert controls(other)[0] == TOKEN.collection
