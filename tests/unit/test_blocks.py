"""How blocks become one text with exact offsets."""

from __future__ import annotations

from itertools import pairwise

from rag.adapters.readers import blocks
from rag.adapters.readers.blocks import Block, assemble


def test_pages_and_headings_have_exact_offsets() -> None:
    found = assemble(
        [
            Block("Größe\n und Maß", page=1, level=1),
            Block("日本語 é", page=1),
            Block("second", page=2),
            Block("Fünf", page=5, level=3),
        ],
        pages=6,
    )
    assert found.text == "# Größe und Maß\n\n日本語 é\n\nsecond\n\n### Fünf"
    starts = [*found.page_starts, len(found.text)]
    pages = [found.text[a:b].strip() for a, b in pairwise(starts)]
    assert pages == ["# Größe und Maß\n\n日本語 é", "second", "", "", "### Fünf", ""]
    assert found.page_starts[0] == 0
    assert found.empty_pages == (3, 4, 6)
    assert [(h.level, h.title) for h in found.headings] == [(1, "Größe und Maß"), (3, "Fünf")]
    assert [found.text[h.start] for h in found.headings] == ["#", "#"]


def test_a_document_that_starts_with_an_empty_page() -> None:
    found = assemble([Block("text", page=2)], pages=2)
    assert found.page_starts == (0, 0)
    assert found.empty_pages == (1,)


def test_page_numbers_that_cannot_be() -> None:
    found = assemble(
        [Block("a", page=2), Block("b", page=1), Block("c", page=99), Block("d")], pages=3
    )
    assert found.text == "a\n\nb\n\nc\n\nd"
    assert found.page_starts == (0, 0, 6)


def test_nothing_but_empty_pages() -> None:
    found = assemble([Block(" \n\u00a0")], pages=2)
    assert found.text == ""
    assert found.page_starts == (0, 0)
    assert found.empty_pages == (1, 2)
    assert assemble([]).page_starts == ()


def test_what_cannot_be_stored_does_not_shift_offsets() -> None:
    found = assemble([Block("a\0b", page=1), Block("c", page=2, level=2)], pages=2)
    assert found.text == "ab\n\n## c"
    assert found.removed == 1
    assert found.page_starts == (0, 4)
    assert found.headings[0].start == 4


def test_items_follow_without_a_blank_line() -> None:
    found = assemble([Block("text"), Block("- one"), Block("- two", tight=True), Block("after")])
    assert found.text == "text\n\n- one\n- two\n\nafter"


def test_tables() -> None:
    assert blocks.table([["Name", "a|b"], ["x\ny"], ["1", "2", "3"]]) == (
        "| Name | a\\|b |  |\n| --- | --- | --- |\n| x y |  |  |\n| 1 | 2 | 3 |"
    )


def test_code_keeps_its_lines_and_its_fences() -> None:
    assert blocks.code("\n  a\n# b\n") == "```\n  a\n# b\n```"
    assert blocks.code("````\nx\n````", "md") == "`````md\n````\nx\n````\n`````"


def test_items_and_quotations_indent_their_lines() -> None:
    assert blocks.item("a\nb", 1, "1.") == "  1. a\n     b"
    assert blocks.quote("a\nb", 2) == "> > a\n> > b"
    assert len(blocks.item("a", 100_000, "-")) < 50
