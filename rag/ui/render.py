"""Text of documents, people and models, made harmless before it is shown.

Everything here takes hostile text and returns HTML whose only markup is Fenestra's own; the
pages put it on the screen with ``st.html``. Answers are read as a small part of Markdown:
paragraphs, emphasis, lists, tables and code. All else in them (formulas, headings, links,
pictures, HTML, colour marks) stays the characters that it is.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import OptionsDict

from rag.domain import Answer, Context, Document, Passage, Strategy
from rag.jobs import Job
from rag.prompt import source_key


class _Renderer(RendererHTML):
    """Writes the number of a list item out, so that "1986. A good year" stays what it is."""

    def list_item_open(
        self, tokens: Sequence[Token], index: int, options: OptionsDict, env: Any
    ) -> str:
        token = tokens[index]
        return f"<li>{text(token.info + token.markup)} " if token.info else "<li>"


_INLINE = ["newline", "backticks", "emphasis", "balance_pairs", "fragments_join"]
_BLOCKS = ["fence", "list", "table"]
_MARKDOWN = MarkdownIt("zero", {"breaks": True}, renderer_cls=_Renderer)
_MARKDOWN.enable([*_INLINE, *_BLOCKS])

ADDED = {
    Strategy.ISOLATED: "added",
    Strategy.WINDOW: "added by the window",
    Strategy.DOCUMENT: "added with the document",
}
"""What the text around a match is called."""


def text(value: object) -> str:
    """Escape plain text for HTML, byte for byte where white space is kept."""
    # As character references, line breaks pass through Streamlit's dedenting unchanged.
    return _one_line(html.escape(str(value)))


_MARKUP = re.compile(r"[\\`*_\[\]<>$~|#&:]|^(?=[-+=])|(?<=\d)(?=[.)](?:\s|$))")
# Streamlit makes pictures, links and arrows of these after it has undone backslashes.
_PATTERNS = re.compile(r":(?=//|[\w/+-]+:)|www(?=\.)|@|-(?=[->])|<(?=-)")


def literal(value: str) -> str:
    """Plain text as Streamlit Markdown that shows just that text, for messages and labels."""
    broken = _PATTERNS.sub("\\g<0>\u2060", " ".join(value.split()))
    return _MARKUP.sub(r"\\\g<0>", broken)


def _one_line(markup: str) -> str:
    return markup.replace("\r", "&#13;").replace("\n", "&#10;")


def question(value: str) -> str:
    """HTML of a question as it was asked."""
    return f'<p class="fen-question" dir="auto">{text(value)}</p>'


def side_heading(name: str, explanation: str) -> str:
    """HTML of what a column is called and what it reads."""
    return f'<h3 class="fen-side">{text(name)} <small>{text(explanation)}</small></h3>'


def answer(markdown: str) -> str:
    """HTML of a model's answer."""
    body = _one_line(_MARKDOWN.render(markdown))
    return f'<div class="fen-answer" dir="auto">{body}</div>'


def progress(message: str, fraction: float | None = None) -> str:
    """HTML of what is going on, with a bar where it is known how much is done (0 to 1)."""
    bar = ""
    if fraction is not None:
        bar = f'<progress max="1" value="{min(1.0, max(0.0, fraction)):.3f}"></progress>'
    return f'<div class="fen-progress" role="status">{text(message)}{bar}</div>'


STOPPED = "Stopped. What had arrived is kept."


def unfinished(markup: str) -> str:
    """HTML of an answer on its way; if its run ends now, the style sheet shows that it stopped."""
    return f'<div class="fen-open">{markup}{note(STOPPED)}</div>'


def note(message: str) -> str:
    """HTML of a remark about an answer."""
    return f'<p class="fen-note">{text(message)}</p>'


def statistics(context: Context, finished: Answer) -> str:
    """HTML of what an answer took."""
    usage = finished.usage
    figures = [
        ("Tokens sent", _count(usage.prompt_tokens)),
        ("Tokens answered", _count(usage.completion_tokens)),
        ("Tokens in passages", _count(context.token_count)),
        ("First word after", _seconds(finished.first_token_seconds)),
        ("Total time", _seconds(finished.total_seconds)),
    ]
    if finished.cost is not None:
        figures.append(("Cost", f"{finished.cost:.6f}".rstrip("0").rstrip(".")))
    return _figures(figures)


def _figures(pairs: Iterable[tuple[str, str]]) -> str:
    items = "".join(
        f"<div><dt>{text(label)}</dt><dd>{text(value)}</dd></div>" for label, value in pairs
    )
    return f'<dl class="fen-figures">{items}</dl>'


def _count(tokens: int | None) -> str:
    return "not reported" if tokens is None else f"{tokens:,}"


def _seconds(seconds: float | None) -> str:
    return "–" if seconds is None else f"{seconds:.1f} s"


def sources(passages: Sequence[Passage]) -> str:
    """HTML of the numbered passages: title, page and section of each."""
    items = "".join(
        f'<li><span class="fen-number">[{p.number}]</span> '
        f'<span><bdi class="fen-title">{text(p.title)}</bdi> '
        f'<span class="fen-place">{text(place(p))}</span></span></li>'
        for p in passages
    )
    return f'<h4 class="fen-heading">Sources</h4><ul class="fen-sources">{items}</ul>'


def place(passage: Passage) -> str:
    """Page and section of a passage, as plain text."""
    parts = []
    if passage.page is not None:
        last = passage.last_page or passage.page
        parts.append(
            f"page {passage.page}" if last == passage.page else f"pages {passage.page}–{last}"
        )
    if passage.section:
        parts.append(passage.section)
    chunks = passage.last - passage.first + 1
    parts.append("1 chunk" if chunks == 1 else f"{chunks} chunks")
    return " · ".join(parts)


def name(value: str) -> str:
    """HTML of a document's name, as it was uploaded."""
    return f'<p class="fen-name"><bdi class="fen-title">{text(value)}</bdi></p>'


def document(item: Document, collection: str) -> str:
    """HTML of a document in the list."""
    added = datetime.fromtimestamp(item.added_at)
    figures = (
        ("Status", item.status.value.capitalize()),
        ("Pages", f"{item.pages:,}" if item.pages else "–"),
        ("Chunks", f"{item.chunks:,}"),
        ("Tokens", f"{item.tokens:,}"),
        ("Size", _size(item.bytes)),
        ("Added", f"{added:%d %b %Y, %H:%M}"),
    )
    remarks = "".join(f"<li>{text(warning)}</li>" for warning in item.warnings)
    if remarks:
        count = len(item.warnings)
        label = "1 remark" if count == 1 else f"{count} remarks"
        remarks = f"<details><summary>{label}</summary><ul>{remarks}</ul></details>"
    return (
        '<div class="fen-document"><div><bdi class="fen-title">'
        f'{text(item.name)}</bdi><div class="fen-place">{text(collection)}</div>{remarks}</div>'
        f"{_figures(figures)}</div>"
    )


def _size(size: int) -> str:
    if size < 1024:
        return f"{size} B"
    return f"{size / 1024:,.0f} KiB" if size < 1024**2 else f"{size / 1024**2:,.1f} MiB"


_MARKS = {"ready": "✓", "unchanged": "✓", "failed": "✗", "cancelled": "–"}


def job(item: Job) -> str:
    """HTML of a file on its way in: what happens to it, or how it ended and why."""
    mark = _MARKS.get(item.state, "…")
    happening = text(item.error or item.message)
    if item.state not in _MARKS:
        happening = progress(item.message, item.fraction or 0.0)
    return (
        f'<div class="fen-job fen-{text(item.state)}"><span aria-hidden="true">{mark}</span>'
        f'<div><bdi class="fen-title">{text(item.name)}</bdi> '
        f'<span class="fen-place">{text(item.collection)}</span><div>{happening}</div></div></div>'
    )


def marked_prompt(context: Context) -> str:
    """HTML of the exact prompt, matches and added neighbours told apart.

    The labels are drawn by the style sheet, so the text of the element is the prompt.
    """
    prompt, done, pieces = context.prompt, 0, []
    key = source_key(context.question, context.passages)
    for passage in context.passages:
        # Only the text of this passage can stand before its own end line: no text knows the key.
        end_line = f"\n[end source {passage.number} | key {key}]"
        start = prompt.index(passage.text + end_line, done)
        pieces.append(f"<span>{text(prompt[done:start])}</span>")
        for segment in passage.segments:
            kind, label = (
                ("fen-match", "match")
                if segment.is_match
                else ("fen-added", ADDED[context.strategy])
            )
            pieces.append(
                f'<span class="{kind}" data-label="{label}">{_piece(segment.text)}</span>'
            )
        done = start + len(passage.text)
    pieces.append(f"<span>{text(prompt[done:])}</span>")
    return f'<div class="fen-prompt" dir="auto">{"".join(pieces)}</div>'


def _piece(value: str) -> str:
    """A marked piece; the line breaks at its end take no room, but are there."""
    body = value.rstrip("\n")
    return f'{text(body)}<span class="fen-end">{text(value[len(body) :])}</span>'


def legend(strategy: Strategy) -> str:
    """HTML of what the marks in a prompt mean."""
    match = '<span class="fen-match">match</span> the chunk that fits the question'
    if strategy is Strategy.ISOLATED:
        return f'<p class="fen-legend">{match}</p>'
    added = f'<span class="fen-added">{ADDED[strategy]}</span> what stands around it'
    return f'<p class="fen-legend">{match}<br>{added}</p>'
