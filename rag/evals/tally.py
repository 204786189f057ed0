"""Counts of which side answered right, and the table that shows them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

VERDICTS = ("both", "window only", "isolated only", "neither")
ALL = "all"


@dataclass(frozen=True, slots=True)
class Outcome:
    """One question, asked from isolated chunks and from windows of the same hits.

    Attributes:
        kind: what kind of question it is.
        isolated_tokens, window_tokens: tokens of the passages that each side was sent.
    """

    kind: str
    isolated_right: bool
    window_right: bool
    isolated_tokens: int
    window_tokens: int

    @property
    def verdict(self) -> str:
        """One of :data:`VERDICTS`."""
        if self.window_right:
            return "both" if self.isolated_right else "window only"
        return "isolated only" if self.isolated_right else "neither"


@dataclass(frozen=True, slots=True)
class Row:
    """Outcomes of one kind of question, or of all of them."""

    kind: str
    questions: int
    counts: dict[str, int]
    """By verdict."""
    isolated_tokens: float
    """Mean over the questions; 0 without any."""
    window_tokens: float


def tally(outcomes: Sequence[Outcome], kinds: Sequence[str]) -> list[Row]:
    """Return a row for each kind that occurs, in the order of ``kinds``, then one for all."""
    rows = [_row(kind, [o for o in outcomes if o.kind == kind]) for kind in kinds]
    return [row for row in rows if row.questions] + [_row(ALL, outcomes)]


def table(rows: Iterable[Row]) -> str:
    """Return the rows as a Markdown table, aligned for reading as plain text."""
    header = ("questions", "n", *VERDICTS, "tokens isolated", "tokens window")
    cells = [header, *(_cells(row) for row in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(header))]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    lines = [
        [
            cell.ljust(w) if i == 0 else cell.rjust(w)
            for i, (cell, w) in enumerate(zip(line, widths, strict=True))
        ]
        for line in cells
    ]
    lines.insert(1, rule)
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cells(row: Row) -> tuple[str, ...]:
    counts = (str(row.counts[verdict]) for verdict in VERDICTS)
    means = (f"{row.isolated_tokens:.0f}", f"{row.window_tokens:.0f}")
    return (row.kind, str(row.questions), *counts, *means)


def _row(kind: str, outcomes: Sequence[Outcome]) -> Row:
    counts = dict.fromkeys(VERDICTS, 0)
    for outcome in outcomes:
        counts[outcome.verdict] += 1
    return Row(
        kind,
        len(outcomes),
        counts,
        _mean(o.isolated_tokens for o in outcomes),
        _mean(o.window_tokens for o in outcomes),
    )


def _mean(values: Iterator[int]) -> float:
    numbers = list(values)
    return sum(numbers) / len(numbers) if numbers else 0.0
