"""Which lines of Markdown are headings."""

from __future__ import annotations

import pytest

from rag.adapters.readers.headings import find_headings


def titles(text: str) -> list[tuple[int, str]]:
    return [(heading.level, heading.title) for heading in find_headings(text)]


def test_both_kinds_of_heading_with_their_levels() -> None:
    text = "# One\n\ntext\n\n### Three ###\n\nTwo\n===\n\nLower\n---\n\n####### seven\n#tag\n"
    assert titles(text) == [(1, "One"), (3, "Three"), (1, "Two"), (2, "Lower")]


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_offsets_whatever_ends_a_line(newline: str) -> None:
    text = newline.join(["é first", "", "# One", "", "Two", "===", "", "  ## Three", ""])
    found = find_headings(text)
    assert [heading.title for heading in found] == ["One", "Two", "Three"]
    assert [text[heading.start :].split(newline)[0] for heading in found] == [
        "# One",
        "Two",
        "  ## Three",
    ]


@pytest.mark.parametrize(
    "code",
    [
        "```\n# no\n```",
        "~~~\n# no\n```\n# no\n~~~",
        "```\n# no\n`````",
        "   ```sh\n# no\n   ```",
        "````\n```\n# no\n```\n````",
        "    # no",
        "<!--\n# no\n-->",
        "<pre>\n# no\n</pre>",
        "> # no",
        "- # no",
        "\\# no",
    ],
)
def test_no_headings_in_code_comments_quotations_and_items(code: str) -> None:
    assert titles(f"# Before\n\n{code}\n\n# After\n") == [(1, "Before"), (1, "After")]


def test_a_fence_that_is_never_closed_reaches_to_the_end() -> None:
    assert titles("# Before\n\n```\n# no\n\n# no\n") == [(1, "Before")]


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize(
    "front",
    [["---", "title: x", "# comment", "---"], ["---", "a: b", "..."], ["+++", "a = 1", "+++"]],
)
def test_front_matter_is_no_heading(front: list[str], newline: str) -> None:
    text = newline.join([*front, "", "# Real", ""])
    (heading,) = find_headings(text)
    assert text[heading.start :].startswith("# Real")


def test_a_rule_at_the_top_is_no_front_matter() -> None:
    assert titles("---\n# One\n\n---\n# Two\n") == [(1, "One"), (1, "Two")]
    assert titles("---\nnever: closed\n\n# One\n") == [(1, "One")]


def test_titles_without_their_markup() -> None:
    text = "# The **bold** `code` [link](http://x.example) &amp; _more_\n\n#\n\n## <b>b</b>\n"
    assert titles(text) == [(1, "The bold code link & more"), (2, "b")]


def test_text_without_headings() -> None:
    assert find_headings("") == ()
    assert find_headings("x" * 5_000_000) == ()
    assert find_headings("a | b\n--- | ---\n1 | 2\n") == ()
