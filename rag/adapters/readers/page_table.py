"""A table of a web page while it is being read: rows of data, or only a layout."""

from __future__ import annotations

import re

from rag.adapters.readers.blocks import Block, table

# As in the HTML standard, but small enough that a hostile page cannot fill the memory.
_WIDEST_SPAN = 100
_TALLEST_SPAN = 1000


class PageTable:
    """Collects the cells of one table, each a list of blocks.

    Attributes:
        sink: where blocks go that are read now: the open cell's, or else in front of the table.
    """

    def __init__(self) -> None:
        self._front: list[Block] = []
        self._rows: list[list[list[Block]]] = []
        self._spans: dict[int, int] = {}
        self.sink = self._front

    def start_row(self) -> None:
        self.end_cell()
        self._rows.append([])
        self._skip_spanned()

    def start_cell(self, columns: str | None, rows: str | None) -> None:
        """Start a cell that spans so many columns and rows, as the attributes say."""
        if not self._rows:
            self._rows.append([])
        row = self._rows[-1]
        width, height = _span(columns, _WIDEST_SPAN), _span(rows, _TALLEST_SPAN)
        self.sink = []
        cells = [self.sink, *([] for _ in range(width - 1))]
        if height > 1:
            self._spans |= {len(row) + i: height - 1 for i in range(width)}
        row.extend(cells)
        self._skip_spanned()

    def end_cell(self) -> None:
        self.sink = self._front

    def blocks(self) -> list[Block]:
        """Return the finished table: one block of rows, or the content of a layout in order."""
        rows = [row for row in self._rows if any(row)]
        cells = [cell for row in rows for cell in row]
        columns = max((sum(1 for cell in row if cell) for row in rows), default=0)
        if columns < 2 or any(_is_layout(cell) for cell in cells):
            return self._front + [block for cell in cells for block in cell]
        texts = [[" ".join(block.text for block in cell) for cell in row] for row in rows]
        return [*self._front, Block(table(texts))]

    def _skip_spanned(self) -> None:
        """Leave the columns empty that a cell of a row above reaches down into."""
        row = self._rows[-1]
        while self._spans.get(len(row)):
            self._spans[len(row)] -= 1
            row.append([])


def _is_layout(cell: list[Block]) -> bool:
    return any(block.level or block.text.startswith(("```", "| ")) for block in cell)


def _span(value: str | None, most: int) -> int:
    digits = re.match(r"\s*(\d{1,6})", value or "")
    return min(max(int(digits.group(1)), 1), most) if digits else 1
