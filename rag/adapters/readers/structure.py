"""What xberg finds in a document, as blocks in reading order.

xberg's document structure is used rather than its Markdown: the structure holds the words as
they are, without escapes and without emphasis marks inside words, names the page of every node,
and keeps page headers, footers and notes, which its Markdown drops.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from rag.adapters.readers import blocks
from rag.adapters.readers.blocks import Block


class Unparsable(ValueError):
    """xberg gave up on the file; the message is xberg's own."""


@dataclass(frozen=True, slots=True)
class Structure:
    """The blocks of a document and its number of pages, 0 if the file does not say."""

    blocks: tuple[Block, ...]
    pages: int


def parse(data: bytes, media_type: str) -> Structure:
    """Parse a document of a known type, without OCR, cache or network.

    Raises:
        Unparsable: it is damaged, protected, or exceeds xberg's own limits.
    """
    import xberg

    config = xberg.ExtractionConfig(
        use_cache=False,
        disable_ocr=True,
        enable_quality_processing=False,
        include_document_structure=True,
        output_format="plain",
        extraction_timeout_secs=None,
        pages=xberg.PageConfig(extract_pages=True),
        postprocessor=xberg.PostProcessorConfig(enabled=False),
        concurrency=xberg.ConcurrencyConfig(max_threads=1),
        images=xberg.ImageExtractionConfig(
            extract_images=False, inject_placeholders=False, run_ocr_on_images=False
        ),
        content_filter=xberg.ContentFilterConfig(
            include_headers=True,
            include_footers=True,
            include_footnotes=True,
            include_watermarks=True,
            strip_repeating_text=False,
        ),
        # Time and memory are limited around the whole process. The ratio is the most that
        # deflate can reach: a long table of equal cells is no bomb, the inflated size decides.
        security_limits=xberg.SecurityLimits(
            max_compression_ratio=1100,
            max_archive_size=256 << 20,
            max_content_size=256 << 20,
            max_entity_length=64 << 20,
            max_iterations=100_000_000,
            max_table_cells=5_000_000,
        ),
    )
    given = xberg.ExtractInput(kind="bytes", bytes=data, mime_type=media_type)
    try:
        result = asyncio.run(xberg.extract(input=given, config=config))
    except (RuntimeError, ValueError, OSError) as error:
        raise Unparsable(str(error)) from error
    if result.errors or not result.results:
        raise Unparsable("; ".join(map(str, result.errors)))
    document = result.results[0]
    pages = document.metadata.pages.total_count if document.metadata.pages else 0
    if document.document is None:
        return Structure((), pages)
    return Structure(tuple(_Nodes(document.document).blocks()), pages)


class _Nodes:
    """The nodes of one document structure, turned into blocks."""

    def __init__(self, structure: Any) -> None:
        self._nodes = structure.nodes
        self._contents = [json.loads(str(node.content)) for node in self._nodes]
        self._numbers: defaultdict[int, int] = defaultdict(int)
        self._labels = self._note_labels(structure.relationships)

    def blocks(self) -> Iterator[Block]:
        """Yield page headers, then the body, then footers and notes."""
        layers = [str(node.content_layer) for node in self._nodes]
        order = sorted(range(len(layers)), key=lambda i: _LAYERS.get(layers[i], 1))
        for index in order:
            page = self._nodes[index].page
            for block in self._node(index):
                yield replace(block, page=page)

    def _node(self, index: int) -> Iterator[Block]:
        content = self._contents[index]
        kind = content["node_type"]
        text = str(content.get("text") or content.get("description") or "")
        if kind == "title":
            yield Block(text, level=1)
        elif kind == "heading":
            yield Block(text, level=min(max(int(content["level"]), 1), 6))
        elif kind == "slide" and content.get("title"):
            yield Block(str(content["title"]), level=2)
        elif kind == "table":
            yield from _table(content["grid"])
        elif kind == "list_item":
            yield self._item(index, text)
        elif kind == "code":
            yield Block(blocks.code(text, str(content.get("language") or "")))
        elif kind == "definition_item":
            yield Block(f"{content['term']}: {content['definition']}")
        elif kind == "admonition" and content.get("title"):
            yield Block(str(content["title"]))
        elif kind == "metadata_block":
            yield Block("\n".join(f"{e['key']}: {e['value']}" for e in content["entries"]))
        elif kind == "footnote":
            label = self._labels.get(index)
            yield Block(f"[^{label}]: {text}" if label else text)
        elif text.strip():
            quotes = sum(1 for kind in self._ancestors(index) if kind == "quote")
            yield Block(blocks.quote(text, quotes) if quotes else text)

    def _item(self, index: int, text: str) -> Block:
        node = self._nodes[index]
        parent = node.parent
        ordered = parent is not None and bool(self._contents[parent].get("ordered"))
        marker = (node.attributes or {}).get("list_marker")
        if ordered and parent is not None:
            self._numbers[parent] += 1
            marker = marker or f"{self._numbers[parent]}."
        depth = sum(1 for kind in self._ancestors(index) if kind == "list") - 1
        first = parent is None or index == parent + 1
        return Block(blocks.item(text, max(depth, 0), marker or "-"), tight=depth > 0 or not first)

    def _ancestors(self, index: int) -> Iterator[str]:
        parent = self._nodes[index].parent
        # The file decides how deep nodes nest: a bound keeps the walk short.
        for _ in range(_DEEPEST):
            if parent is None:
                return
            yield str(self._contents[parent]["node_type"])
            parent = self._nodes[parent].parent

    def _note_labels(self, relationships: Any) -> dict[int, str]:
        """Return by node the label that the text uses for a footnote, as in ``[^2]``."""
        labels: dict[int, str] = {}
        used: defaultdict[int, int] = defaultdict(int)
        for relation in relationships:
            if str(relation.kind) != "footnote_reference" or not isinstance(relation.source, int):
                continue
            text = str(self._contents[relation.source].get("text") or "")
            found = re.findall(r"\[\^([^\]]+)\]", text)
            place = used[relation.source]
            if place < len(found) and isinstance(relation.target, int):
                labels.setdefault(relation.target, found[place])
            used[relation.source] += 1
        return labels


_LAYERS = {"header": 0, "body": 1, "footer": 2, "footnote": 3}
_DEEPEST = 64


def _table(grid: dict[str, Any]) -> Iterator[Block]:
    width = max((cell["col"] + 1 for cell in grid["cells"]), default=0)
    rows: list[list[str]] = [[] for _ in range(int(grid["rows"]))]
    for cell in grid["cells"]:
        row = rows[cell["row"]]
        row.extend("" for _ in range(cell["col"] + 1 - len(row)))
        row[cell["col"]] = str(cell["content"])
    if width < 2:
        # A box around text, as forms and letters use it.
        yield from (Block(row[0]) for row in rows if row)
    else:
        yield Block(blocks.table([row for row in rows if any(row)]))
