"""What one visit remembers of its chat: the turns, each with its two sides."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from rag.domain import Answer, Context
from rag.library import Selection


class Phase(StrEnum):
    """How far one side of a turn is."""

    OPEN = "open"
    """Being answered, or its run was stopped before it was over."""
    DONE = "done"
    FAILED = "failed"
    STOPPED = "stopped"


@dataclass(slots=True)
class Side:
    """One of the two answers: filled while it arrives, so that whatever stops it keeps it."""

    selection: Selection
    context: Context
    phase: Phase = Phase.OPEN
    text: str = ""
    notices: list[str] = field(default_factory=list)
    answer: Answer | None = None
    error: str = ""


@dataclass(slots=True)
class Turn:
    """A question with its two sides; with an error and no sides if nothing could be sent."""

    question: str
    sides: tuple[Side, ...] = ()
    error: str = ""

    def settle(self) -> None:
        """Mark what is still open as stopped: the run that was answering it is gone."""
        for side in self.sides:
            if side.phase is Phase.OPEN:
                side.phase = Phase.STOPPED
