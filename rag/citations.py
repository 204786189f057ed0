"""Finds the ``[n]`` in an answer that name a passage of the prompt actually sent."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rag.domain import Citation, Passage

_MARK = re.compile(r"\[(\d{1,4}(?:\s*[,;]\s*\d{1,4})*)\]")


def find_citations(answer: str, passages: Sequence[Passage]) -> tuple[Citation, ...]:
    """Return the passages that ``answer`` cites, in the order of their first mention.

    ``[2]`` and ``[1, 2]`` are understood. A number without a passage is no citation.
    """
    by_number = {passage.number: passage for passage in passages}
    numbers: dict[int, None] = {}
    for mark in _MARK.finditer(answer):
        for number in re.findall(r"\d+", mark.group(1)):
            if int(number) in by_number:
                numbers.setdefault(int(number))
    return tuple(
        Citation(n, by_number[n].document_id, by_number[n].title, by_number[n].page)
        for n in numbers
    )
