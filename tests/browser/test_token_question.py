"""The first example, answered by the embedded language model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from playwright.sync_api import Page, expect

TOKEN = "Where do I get the token and how long is it valid?"


def test_only_the_window_can_tell_where_and_how_long(
    start: Callable[..., Any], visit: Callable[..., Page], shot: Callable[[Page, str], None]
) -> None:
    page = visit(start().url)
    page.get_by_role("button", name=TOKEN).click()
    expect(page.get_by_text("Waiting for the other answer")).to_be_visible()
    expect(page.locator(".fen-figures")).to_have_count(2, timeout=240_000)
    isolated, windowed = (text.lower() for text in page.locator(".fen-answer").all_inner_texts())
    assert "settings > api keys" in windowed
    assert "90 days" in windowed
    assert not ("settings > api keys" in isolated and "90 days" in isolated)
    for label, value in (("Collection", "API guide"), ("Window size", "4"), ("Matches", "1")):
        expect(page.get_by_role("combobox", name=label, exact=True)).to_have_value(value)
    for figures in page.locator(".fen-figures").all():
        expect(figures).not_to_contain_text("not reported")
    shot(page, "comparison")
