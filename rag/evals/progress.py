"""How long a measurement still takes, judged by the share of the work that is done."""

from __future__ import annotations

import time
from collections.abc import Callable


class Clock:
    """Estimates the time that is left.

    Args:
        total: all the work, in any unit.
        now: seconds that only grow.
    """

    def __init__(self, total: float, now: Callable[[], float] = time.monotonic) -> None:
        self._total = total
        self._finished = 0.0
        self._now = now
        self._began = now()

    def done(self, work: float) -> None:
        """Say that ``work`` more is finished."""
        self._finished += work

    def left(self) -> str:
        """The time left as ``, about 3 min left``; empty while nothing is finished yet."""
        if not self._finished:
            return ""
        elapsed = self._now() - self._began
        seconds = elapsed * (self._total - self._finished) / self._finished
        if seconds < 90:
            return f", about {max(1, round(seconds))} s left"
        return f", about {round(seconds / 60)} min left"
