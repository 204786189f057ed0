"""HTML, as a person sees it: what stands on the page, and nothing of what makes it work.

Written on the standard library's tokenizer. xberg's converter was tried: it loses cells outside
a table, joins text across form fields and ``<br>``, and writes emphasis into words
(``**bo**ld``), so that they are no longer found. Here text is only ever separated at a block's
border, and everything but structure (headings, lists, tables, code, quotations) is left out.
"""

from __future__ import annotations

import re
from html.parser import HTMLParser

from rag.adapters.readers import blocks
from rag.adapters.readers.blocks import Block
from rag.adapters.readers.characters import decode, removal_warnings
from rag.adapters.readers.page_table import PageTable
from rag.adapters.readers.source import Source
from rag.domain import ExtractedText

MEDIA_TYPE = "text/html"

_HEAD = 4096
_CHARSET = re.compile(
    r"""(?:<meta[^>]+charset|<\?xml[^>]+encoding)\s*=\s*["']?\s*([\w:.-]+)""", re.IGNORECASE
)
_SKIPPED = frozenset({"script", "style", "noscript", "template", "svg", "iframe"})
_SPACED = frozenset({"td", "th", "option", "button", "select", "textarea", "input", "img"})
_LISTS = frozenset({"ul", "ol", "menu", "dir"})
_BLOCK = re.compile(
    "address|article|aside|blockquote|body|caption|center|dd|details|dialog|dir|div|dl|dt|fieldset|"
    "figcaption|figure|footer|form|frameset|h[1-6]|head|header|hgroup|hr|html|legend|li|main|menu|"
    "nav|ol|optgroup|p|pre|search|section|summary|table|tbody|tfoot|thead|title|tr|ul"
)


class PageParser(HTMLParser):
    """Collects the blocks of one page.

    Attributes:
        title: the page's title, empty if it has none.
        unclosed: the element without an end in which the page ended unseen, or ``None``.
    """

    def __init__(self, skipped: frozenset[str] = _SKIPPED) -> None:
        super().__init__(convert_charrefs=True)
        self.title = ""
        self._skipped = skipped
        self._skipping = ""
        self._skip_depth = 0
        self._text: list[str] = []
        self._level = 0
        self._code = 0
        self._quotes = 0
        self._lists: list[tuple[bool, int]] = []
        self._marker: str | None = None
        self._first_item = False
        self._top: list[Block] = []
        self._tables: list[PageTable] = []
        self._outside: list[tuple[list[tuple[bool, int]], int]] = []

    @property
    def unclosed(self) -> str | None:
        return self._skipping or None

    def page(self, html: str) -> list[Block]:
        """Return the blocks of ``html``, in order."""
        self.feed(html)
        self.close()
        self._flush()
        while self._tables:
            self._end_table()
        return self._top

    # events of the tokenizer

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if self._skipping:
            self._skip_depth += tag == self._skipping
            return
        if tag in self._skipped:
            self._skipping, self._skip_depth = tag, 1
            return
        values = dict(attrs)
        if tag in ("td", "th") and self._tables:
            self._flush()
            self._lists, self._level, self._code = [], 0, 0
            self._tables[-1].start_cell(values.get("colspan"), values.get("rowspan"))
        elif tag == "br" or (self._code and _BLOCK.fullmatch(tag)):
            self._text.append("\n")
        elif tag in _SPACED:
            self._text.append(f" {values.get('alt') or ''} " if tag == "img" else " ")
        if _BLOCK.fullmatch(tag) and (tag == "pre" or not self._code):
            self._flush()
            self._start_block(tag, values)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in self._skipped:
            super().handle_startendtag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        if self._skipping:
            self._skip_depth -= tag == self._skipping
            if not self._skip_depth:
                self._skipping = ""
            return
        if tag in ("td", "th") and self._tables:
            self._flush()
            self._code = 0
            self._tables[-1].end_cell()
        elif tag in _SPACED:
            self._text.append(" ")
        if _BLOCK.fullmatch(tag) and (tag == "pre" or not self._code):
            self._end_block(tag)

    def handle_data(self, data: str) -> None:
        if not self._skipping:
            self._text.append(data if self._code else re.sub(r"[ \t\n\r\f]+", " ", data))

    def parse_html_declaration(self, i: int) -> int:
        # What the tokenizer makes of `<![` differs between versions of Python; some raise.
        if not self.rawdata.startswith("<![", i):
            return super().parse_html_declaration(i)
        if self.rawdata.startswith("<![CDATA[", i):
            end = self.rawdata.find("]]>", i)
            if end >= 0:
                self.handle_data(self.rawdata[i + 9 : end])
                return end + 3
        end = self.rawdata.find(">", i)
        return end + 1 if end >= 0 else -1

    # structure

    def _start_block(self, tag: str, values: dict[str, str | None]) -> None:
        if tag in _LISTS:
            start = values.get("start") or ""
            self._lists.append((tag == "ol", int(start) if re.fullmatch(r"\d{1,6}", start) else 1))
            self._first_item = len(self._lists) == 1
        elif tag == "li":
            ordered, number = self._lists[-1] if self._lists else (False, 1)
            self._marker = f"{number}." if ordered else "-"
            if self._lists:
                self._lists[-1] = (ordered, number + 1)
        elif tag == "table":
            self._tables.append(PageTable())
            self._outside.append((self._lists, self._level))
            self._marker = None
        elif tag == "tr" and self._tables:
            self._tables[-1].start_row()
        elif tag == "pre":
            self._code += 1
        elif tag == "blockquote":
            self._quotes += 1
        elif re.fullmatch("h[1-6]", tag):
            self._level = int(tag[1])

    def _end_block(self, tag: str) -> None:
        if tag == "title" and not self.title:
            self.title = " ".join("".join(self._text).split())
            self._text = []
        self._flush()
        if tag in _LISTS:
            del self._lists[-1:]
            self._marker = None
        elif tag == "li":
            self._marker = None
        elif tag == "table" and self._tables:
            self._end_table()
        elif tag == "pre":
            self._code = max(0, self._code - 1)
        elif tag == "blockquote":
            self._quotes = max(0, self._quotes - 1)
        elif re.fullmatch("h[1-6]", tag):
            self._level = 0

    def _end_table(self) -> None:
        finished = self._tables.pop().blocks()
        self._lists, self._level = self._outside.pop()
        self._sink().extend(finished)

    def _sink(self) -> list[Block]:
        """Return the list that blocks go to: the page's, or an open cell's."""
        return self._tables[-1].sink if self._tables else self._top

    def _flush(self) -> None:
        """End the block that is being read, if there is text in it."""
        if not self._text:
            return
        text = "".join(self._text)
        self._text = []
        if self._code:
            if text.strip():
                self._sink().append(Block(blocks.code(text)))
            return
        text = re.sub(" {2,}", " ", re.sub(" *\n *", "\n", text)).strip(" \n")
        if not text.strip():
            return
        if self._level:
            self._sink().append(Block(text, level=self._level))
            return
        depth = max(0, len(self._lists) - 1)
        tight = self._marker is not None and not self._first_item
        if self._marker is not None:
            text = blocks.item(text, depth, self._marker)
            self._first_item = False
            # What else stands in the item is indented under its first line.
            self._marker = None
        elif self._lists:
            text = blocks.item(text, depth, " ")
        if self._quotes:
            text = blocks.quote(text, self._quotes)
        self._sink().append(Block(text, tight=tight))


def read(source: Source) -> ExtractedText:
    """Read a web page.

    The charset that the page declares is honoured unless the bytes are UTF-8 in any case.

    Raises:
        NotText: the bytes are not text.
    """
    head = source.data[:_HEAD].decode("latin-1")
    declared = _CHARSET.search(head)
    decoded = decode(source.data, declared.group(1) if declared else None)
    blocks_found, warnings = _page_blocks(decoded.text)
    assembled = blocks.assemble(blocks_found)
    return ExtractedText(
        text=assembled.text,
        media_type=MEDIA_TYPE,
        headings=assembled.headings,
        warnings=(*decoded.warnings, *removal_warnings(assembled.removed), *warnings),
    )


def _page_blocks(html: str) -> tuple[list[Block], tuple[str, ...]]:
    """Return the blocks of a page in reading order, and warnings.

    The title comes first, as a heading if the page has no other of level 1; it is left out where
    the first heading repeats it.
    """
    parser = PageParser()
    found = parser.page(html)
    opened: set[str] = set()
    while parser.unclosed not in (None, "script", "style"):
        # An element that never ends must not hide the rest of the page.
        opened.add(parser.unclosed or "")
        parser = PageParser(_SKIPPED - opened)
        found = parser.page(html)
    warnings: tuple[str, ...] = ()
    if parser.unclosed:
        warnings = (f"A <{parser.unclosed}> element has no end; what follows it was not read.",)
    headings = [block for block in found if block.level]
    first = " ".join(headings[0].text.split()) if headings else ""
    if parser.title and parser.title.casefold() != first.casefold():
        level = 0 if any(block.level == 1 for block in headings) else 1
        found.insert(0, Block(parser.title, level=level))
    return found, warnings
