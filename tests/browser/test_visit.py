"""A person's whole visit, in a real browser, at two widths and in both colour schemes."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from rag.testing_server import Play, ScriptedServer

TOKEN = "Where do I get the token and how long is it valid?"
RIGHT = "Under **Settings > API Keys**; it expires after 90 days [1]."
LEFT = "The sources do not contain the answer."


def by_side(left: Play, right: Play) -> Callable[[Mapping[str, Any]], Play]:
    """One play for each side, told apart by the length of the source in the request."""

    def play(request: Mapping[str, Any]) -> Play:
        source = request["messages"][-1]["content"].split("[end source")[0]
        return right if len(source) > 200 else left

    return play


def control(page: Page, label: str) -> Locator:
    return page.get_by_role("combobox", name=label, exact=True)


def idle(page: Page) -> None:
    """Nothing runs: what is chosen now is not overtaken by an earlier run."""
    page.wait_for_selector('[data-test-script-state="notRunning"]')


def choose(page: Page, label: str, option: str) -> None:
    idle(page)
    # A list closes when the page scrolls: let the scrolling end before it opens.
    page.evaluate(
        """() => { document.querySelector('.stMain').scrollTo(0, 0);
        return new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done))) }"""
    )
    control(page, label).click()
    page.get_by_role("option", name=option, exact=True).click()
    expect(control(page, label)).to_have_value(option)
    idle(page)


def ask(page: Page, question: str) -> None:
    box = page.get_by_placeholder("Ask a question about your documents")
    box.fill(question)
    box.press("Enter")


def go(page: Page, name: str) -> None:
    page.get_by_role("link", name=name).locator("visible=true").first.click()
    there = {
        "Chat": page.get_by_placeholder("Ask a question about your documents"),
        "Documents": page.get_by_role("heading", name="Documents"),
    }
    expect(there[name]).to_be_visible()
    idle(page)


def fits(page: Page) -> None:
    """Nothing sticks out to the side."""
    wide, narrow = page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
    assert wide <= narrow


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_a_whole_visit(
    width: int,
    scheme: str,
    app: Any,
    visit: Callable[..., Page],
    model: ScriptedServer,
    shot: Callable[[Page, str], None],
) -> None:
    model.play = by_side(Play(LEFT), Play(RIGHT))
    page = visit(app.url, width, scheme)
    expect(page).to_have_title("Fenestra")
    expect(page.get_by_role("heading", name="Ask your documents")).to_be_visible()
    idle(page)
    fits(page)
    shot(page, f"first-visit-{width}")

    page.get_by_role("button", name=TOKEN).click()
    answers = page.locator(".fen-answer")
    expect(page.locator(".fen-figures")).to_have_count(2)
    expect(answers).to_have_text([LEFT, RIGHT.replace("**", "")])
    expect(answers.nth(1).locator("strong")).to_have_text("Settings > API Keys")
    for label, value in (("Collection", "API guide"), ("Window size", "4"), ("Matches", "1")):
        expect(control(page, label)).to_have_value(value)
    assert "top_n=1" in page.url
    expect(page.get_by_role("heading", name="Ask your documents")).to_have_count(0)
    idle(page)
    fits(page)
    shot(page, f"answers-{width}")

    page.get_by_text("Exact prompt").nth(1).click()
    match, added = page.locator(".fen-prompt .fen-match"), page.locator(".fen-prompt .fen-added")
    expect(match.nth(1)).to_be_visible()
    page.wait_for_function("!document.getAnimations().length")  # it has opened fully
    look = "e => [getComputedStyle(e).fontWeight, getComputedStyle(e).borderLeftStyle]"
    assert match.nth(1).evaluate(look) == ["700", "solid"]
    assert added.first.evaluate(look) == ["400", "dotted"]
    label = "e => getComputedStyle(e, '::before').content"
    assert match.nth(1).evaluate(label) == '"match"'
    assert added.first.evaluate(label) == '"added by the window"'
    sent = "\n\n".join(
        message["content"] for message in max(model.requests, key=lambda r: len(str(r)))["messages"]
    )
    assert page.locator(".fen-prompt").nth(1).evaluate("e => e.textContent") == sent
    idle(page)
    fits(page)
    shot(page, f"prompt-{width}")
    page.get_by_role("tab", name="Plain text").last.click()
    plain = page.get_by_test_id("stCode").last.locator("code")
    expect(plain).to_be_visible()
    assert plain.evaluate("e => e.textContent") == sent

    gate = threading.Semaphore(3)
    model.play = Play("one two three four five six", gate=gate)
    ask(page, "What is $5 and :red[that]?")
    expect(page.locator(".fen-question").nth(1)).to_have_text("What is $5 and :red[that]?")
    expect(answers.nth(2)).to_have_text(re.compile("^one"))
    page.get_by_role("button", name="Stop script").click()
    expect(page.get_by_text("Stopped. What had arrived is kept.").first).to_be_visible()
    gate.release(20)
    expect(answers.nth(2)).to_have_text(re.compile("^one"))
    expect(answers.first).to_have_text(LEFT)
    page.wait_for_function(
        "document.querySelectorAll('.fen-question')[1].getBoundingClientRect().y < 300"
    )

    choose(page, "Window size", "6")
    choose(page, "Right answer reads", "Whole documents")
    expect(page).to_have_url(re.compile("window=6"))
    expect(page).to_have_url(re.compile("right=Whole"))
    page.reload()
    expect(control(page, "Window size")).to_have_value("6")
    expect(control(page, "Right answer reads")).to_have_value("Whole documents")
    expect(control(page, "Matches")).to_have_value("1")

    go(page, "Documents")
    expect(page.locator(".fen-document")).to_have_count(1)
    page.locator("input[type=file]").set_input_files(
        [
            {
                "name": "notes <b>$1</b>.md",
                "mimeType": "text/markdown",
                "buffer": b"# Notes\n\nThe workshop key hangs behind the door.\n",
            },
            {"name": "broken.pdf", "mimeType": "application/pdf", "buffer": b"%PDF-1.7"},
        ]
    )
    expect(page.get_by_role("button", name="Clear this list")).to_be_visible()
    expect(page.locator(".fen-failed")).to_contain_text("broken.pdf")
    row = page.locator(".fen-document", has_text="notes <b>$1</b>.md")
    expect(row).to_contain_text("Ready")
    idle(page)
    fits(page)
    shot(page, f"documents-{width}")

    page.get_by_role("button", name="Delete").last.click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("notes <b>$1</b>.md")
    dialog.get_by_role("button", name="Keep it").click()
    expect(dialog).to_have_count(0)
    expect(row).to_have_count(1)

    go(page, "Chat")
    choose(page, "Collection", "My documents")
    model.play = Play("Behind the door [1].")
    ask(page, "Where is the key of the workshop?")
    expect(answers).to_have_text(["Behind the door [1]."] * 2)
    expect(page.locator(".fen-sources").first).to_contain_text("notes <b>$1</b>.md")

    go(page, "Documents")
    page.get_by_role("button", name="Delete").last.click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.locator(".fen-document")).to_have_count(1)
    expect(page.get_by_text("Deleted: notes <b>$1</b>.md")).to_be_visible()
    page.reload()
    expect(page.locator(".fen-document")).to_have_count(1)


def test_both_answers_arrive_word_by_word_at_the_same_time(
    app: Any, visit: Callable[..., Page], model: ScriptedServer
) -> None:
    left, right = threading.Semaphore(1), threading.Semaphore(0)
    model.play = by_side(Play("left one two", gate=left), Play("right one two", gate=right))
    page = visit(app.url)
    page.get_by_role("button", name=TOKEN).click()
    answers = page.locator(".fen-answer")
    expect(answers).to_have_text(["left"])
    right.release()
    expect(answers).to_have_text(["left", "right"])
    left.release()
    expect(answers).to_have_text(["left one", "right"])
    right.release(5)
    expect(answers).to_have_text(["left one", "right one two"])
    left.release(5)
    expect(answers).to_have_text(["left one two", "right one two"])
    expect(page.locator(".fen-figures")).to_have_count(2)


def test_a_hostile_answer_fetches_nothing_and_shows_as_text(
    app: Any, visit: Callable[..., Page], model: ScriptedServer
) -> None:
    hostile = (
        "$114 and $115, ~5 and ~6, :red[x] :smile: "
        "![p](http://example.org/?q=secret) [l](http://example.org/) "
        '<img src="http://example.org/?q=2" onerror="document.title = 1"> <b>bold</b>'
    )
    model.play = Play(hostile)
    page = visit(app.url)
    page.get_by_role("button", name=TOKEN).click()
    answers = page.locator(".fen-answer")
    expect(answers).to_have_text([hostile, hostile])
    for inside in ("img", "a", "b", ".katex", "del"):
        expect(answers.locator(inside)).to_have_count(0)
    expect(page).to_have_title("Fenestra")


def test_one_side_fails_and_the_other_answers(
    app: Any, visit: Callable[..., Page], model: ScriptedServer
) -> None:
    model.play = by_side(
        Play(status=401, message="Incorrect API key", code="invalid_api_key"), Play(RIGHT)
    )
    page = visit(app.url)
    page.get_by_role("button", name=TOKEN).click()
    expect(page.locator(".fen-figures")).to_have_count(1)
    expect(page.locator(".fen-answer")).to_have_text([RIGHT.replace("**", "")])
    expect(page.get_by_test_id("stAlert")).to_have_count(1)
    expect(page.get_by_test_id("stAlert")).to_contain_text("key")


def test_a_visit_by_keyboard_alone(
    app: Any, visit: Callable[..., Page], model: ScriptedServer
) -> None:
    model.play = Play(RIGHT)
    page = visit(app.url)
    expect(page.get_by_role("button", name=TOKEN)).to_be_visible()

    def tab_to(locator: Locator) -> None:
        for _ in range(60):
            page.keyboard.press("Tab")
            if locator.evaluate("e => e === document.activeElement"):
                return
        raise AssertionError(f"no Tab leads to {locator}")

    tab_to(page.get_by_role("button", name=TOKEN))
    page.keyboard.press("Enter")
    expect(page.locator(".fen-figures")).to_have_count(2)
    tab_to(control(page, "Window size"))
    page.keyboard.type("6")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("window=6"))
    tab_to(page.get_by_placeholder("Ask a question about your documents"))
    page.keyboard.type("And for how long?")
    page.keyboard.press("Enter")
    expect(page.locator(".fen-figures")).to_have_count(4)
