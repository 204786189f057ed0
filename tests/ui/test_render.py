"""Hostile text stays text: what a page shows is what came, and no markup but our own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rag.domain import Answer, Context, Document, Hit, Passage, Segment, Status, Strategy, Usage
from rag.jobs import Job
from rag.prompt import build_messages
from rag.ui import render

HOSTILE = [
    "costs $114 then $115",
    "about ~$5 and ~$9, ~~gone~~",
    ":red[loud] :smile: :material/home:",
    "# big",
    "1. first",
    "1986. A good year",
    "<b>bold</b> <script>alert(1)</script>",
    '<img src="http://example.org/?q=secret" onerror="alert(1)">',
    "![picture](http://example.org/?q=secret)",
    "[link](javascript:alert(1)) <http://example.org>",
    "[x]: http://example.org",
    "&lt;b&gt; &amp; &#10;",
    "Setext\n======",
    "> quoted",
]
SAFE = {"div", "p", "br", "strong", "em", "code", "pre", "ul", "ol", "li"} | {
    *("table", "thead", "tbody", "tr", "th", "td")
}


def words(text: str) -> list[str]:
    return text.split()


@pytest.mark.parametrize("text", HOSTILE)
def test_an_answer_shows_its_characters(text: str, shown: Callable[[str], Any]) -> None:
    seen = shown(render.answer(text))
    assert words(seen.text) == words(text)
    assert set(seen.tags) <= SAFE
    assert set(seen.attributes) <= {"class", "dir", "start"}


@pytest.mark.parametrize("text", [*HOSTILE, "  spaces  kept\t\n\n  \n\r\nhere\n"])
@pytest.mark.parametrize("show", [render.text, render.question, render.name, render.note])
def test_plain_text_is_shown_byte_for_byte(
    show: Callable[[str], str], text: str, shown: Callable[[str], Any]
) -> None:
    markup = show(text)
    assert shown(markup).text == text
    assert "\n" not in markup  # else Streamlit's dedenting could reach the text


def test_an_answer_keeps_emphasis_lists_tables_and_code(shown: Callable[[str], Any]) -> None:
    seen = shown(
        render.answer(
            "**Yes** and *no*.\n\n- one `$5`\n- two\n\n2. second\n3. third\n\n"
            "| a | b |\n|---|---|\n| $1 | $2 |\n\n```\n$x <b>\n  y\n```\n"
        )
    )
    assert {"strong", "em", "ul", "ol", "table", "pre", "code"} <= set(seen.tags)
    assert "$5" in seen.text
    assert "$x <b>\n  y\n" in seen.text
    assert "2. second" in " ".join(seen.text.split())


def test_an_unfinished_answer_is_harmless(shown: Callable[[str], Any]) -> None:
    whole = 'See **bold** `code` <img src="x"> [a](http://b) | c |\n```\nfence'
    for end in range(len(whole) + 1):
        assert set(shown(render.answer(whole[:end])).tags) <= SAFE


@pytest.mark.parametrize("text", [text for text in HOSTILE if "\n" not in text])
def test_a_message_is_escaped_for_streamlits_markdown(text: str) -> None:
    escaped = render.literal(text)
    assert escaped.replace("\\", "").replace("\u2060", "") == text.replace("\\", "")
    for opener in ("$", "~", "[", "<", "`", "*", "#", ":"):
        at = escaped.find(opener)
        while at >= 0:
            assert escaped[at - 1] == "\\"
            at = escaped.find(opener, at + 1)


def _passage(number: int, title: str, *pieces: tuple[str, bool], **more: Any) -> Passage:
    segments = tuple(Segment(*piece) for piece in pieces)
    text = "".join(segment.text for segment in segments)
    fields: dict[str, Any] = {
        "number": number,
        "document_id": f"d{number}",
        "title": title,
        "first": 2,
        "last": 3,
        "matches": (3,),
        "start": 0,
        "end": len(text),
        "text": text,
        "tokens": 7,
        "page": None,
        "last_page": None,
        "section": None,
        "score": 0.5,
        "segments": segments,
    }
    return Passage(**{**fields, **more})


def _context(*passages: Passage, question: str = "Where?") -> Context:
    return Context(
        question=question,
        strategy=Strategy.WINDOW,
        window=4,
        hits=(Hit("d1", 3, 0.5, 0.5),),
        passages=passages,
        messages=build_messages(question, passages),
        token_count=14,
        dropped=(),
    )


def test_the_marked_prompt_is_the_prompt_byte_for_byte(shown: Callable[[str], Any]) -> None:
    context = _context(
        _passage(1, "<i>a</i>", ("  before\n\n", False), ("the <b>match</b>\n \n", True)),
        _passage(2, "b", ("same", True)),
        _passage(3, "c", ("same", True), ("\r\nafter ", False)),
        question="same\n[end source 2 | key 0] <script>",
    )
    markup = render.marked_prompt(context)
    assert shown(markup).text == context.prompt
    assert set(shown(markup).tags) == {"div", "span"}


def test_matches_and_neighbours_differ_in_class_and_in_words() -> None:
    context = _context(_passage(1, "a", ("near", False), ("hit", True)))
    markup = render.marked_prompt(context)
    assert '<span class="fen-added" data-label="added by the window">near<' in markup
    assert '<span class="fen-match" data-label="match">hit<' in markup


def test_sources_name_title_page_and_section(shown: Callable[[str], Any]) -> None:
    seen = shown(
        render.sources(
            [
                _passage(1, "a **b**.pdf", ("x", True), page=2, last_page=3, section="A > $B$"),
                _passage(2, "c.md", ("y", True), page=4, last_page=4, last=2),
            ]
        )
    )
    assert "[1] a **b**.pdf pages 2–3 · A > $B$ · 2 chunks" in seen.text
    assert "[2] c.md page 4 · 1 chunk" in seen.text


@pytest.mark.parametrize(
    ("usage", "cost", "expected"),
    [
        (Usage(1312, 48), 0.000213, ["1,312", "48", "14", "1.2 s", "3.5 s", "0.000213"]),
        (Usage(None, None), None, ["not reported", "not reported", "14", "1.2 s", "3.5 s"]),
    ],
)
def test_statistics(
    usage: Usage, cost: float | None, expected: list[str], shown: Callable[[str], Any]
) -> None:
    answer = Answer("x", (), "stop", usage, "model", 1.23, 3.456, cost)
    markup = render.statistics(_context(), answer)
    values = [shown(part.split("</dd>")[0]).text for part in markup.split("<dd>")[1:]]
    assert values == expected


def test_a_document_shows_name_and_remarks_as_text(shown: Callable[[str], Any]) -> None:
    name, remark = "../<img src=x>\n**a**.md", "Page 2 has no <text>."
    document = Document(
        *("id", "local", "c", name, None, "0" * 64, "text/markdown", 2048, Status.READY),
        *(3, 1850, 2, (remark,), 0.0),
    )
    seen = shown(render.document(document, "My <docs>"))
    for text in (name, remark, "My <docs>", "1 remark", "1,850", "2 KiB", "Ready"):
        assert text in seen.text
    assert "img" not in seen.tags


def test_a_failed_job_says_why(shown: Callable[[str], Any]) -> None:
    job = Job("1", "local", "C", "<b>.pdf", "failed", "Failed", error="<b>.pdf is damaged.")
    assert "✗<b>.pdf C<b>.pdf is damaged." in shown(render.job(job)).text
