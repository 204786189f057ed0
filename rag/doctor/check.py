"""What a check finds: one frozen value, said in words."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Status(StrEnum):
    """How a check ended."""

    OK = "ok"
    WARN = "warn"
    """It works, but something is missing, slow or not checked."""
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Check:
    """One thing looked at.

    Attributes:
        name: what was looked at, one or two words, always the same.
        detail: what was found, as a sentence.
        advice: what to do about it, as a sentence; empty if all is well.
    """

    name: str
    status: Status
    detail: str
    advice: str = ""


def ok(name: str, detail: str) -> Check:
    """All is well."""
    return Check(name, Status.OK, detail)


def warn(name: str, detail: str, advice: str) -> Check:
    """It works, with a reservation."""
    return Check(name, Status.WARN, detail, advice)


def fail(name: str, detail: str, advice: str) -> Check:
    """It does not work."""
    return Check(name, Status.FAIL, detail, advice)
