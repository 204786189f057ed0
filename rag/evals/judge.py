"""Whether an answer is right: strings that must be there, or a refusal that must be made.

The judge is plain so that anybody can check its verdicts. Its limits: it does not notice a
wrong statement beside a right one, nor a right string in a negated sentence, and an answer that
refuses and then guesses all the same counts as a refusal.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from rag.prompt import NOT_FOUND

# Words for what was sent, whoever they come from; and for single documents, of which "does not
# cover" or "does not include" may be a statement rather than a refusal.
_SOURCES = r"(?:source|document|text|passage|context|excerpt|material|information)s?"
_PAPERS = r"(?:guide|handbook|manual|policy|notes?|report|lease|agreement)"
_SAY = (
    r"(?:contain|mention|say|state|specify|tell|answer|indicate|disclose|describe|discuss|address"
    r"|explain)"
)
_GIVE = r"(?:hold|provide|give|include|cover|list|name|have|offer|reveal)"
_SAID = r"(?:mentioned|stated|specified|disclosed|described|addressed|discussed|known)"
_GIVEN = r"(?:provided|given|contained|included|covered|found|listed|available|said|answered)"
_NOT = r"\b(?:do|does|did) not (?:\w+ )?"
_FACTS = r"(?:information|details?|answers?|data|mention|indication)"

REFUSALS: tuple[str, ...] = (
    # "The sources do not include …", "The handbook doesn't explicitly mention …"
    rf"\b{_SOURCES}\b[^.!?]{{0,80}}{_NOT}(?:{_SAY}|{_GIVE})\b",
    rf"\b{_PAPERS}\b[^.!?]{{0,80}}{_NOT}{_SAY}\b",
    # "The price is not mentioned", "It was not given in the sources"
    rf"\b(?:is|are|was|were) not (?:\w+ )?{_SAID}\b",
    rf"\b(?:is|are|was|were) not (?:\w+ )?{_GIVEN} (?:in|by|from) (?:\w+ )*?{_SOURCES}\b",
    # "There is no information about …", "It does not give any details", "No source says …"
    rf"\bno (?:\w+ )?{_FACTS}\b",
    rf"{_NOT}{_GIVE} (?:\w+ )?{_FACTS}\b",
    rf"\b(?:no|none of the) (?:\w+ )?{_SOURCES} {_SAY}s?\b",
    # "I cannot answer", "It cannot be determined", "I am unable to find"
    r"\b(?:cannot|can not|could not|unable to|not possible to) (?:be )?"
    r"(?:answer|find|found|determine|say|tell)",
)
"""Forms of a refusal, besides the sentence that the prompt asks for, as regular expressions on
normalised text (see :func:`normalise`)."""

_REFUSALS = tuple(re.compile(pattern) for pattern in REFUSALS)
_DASHES = re.compile(r"[\u2010-\u2015\u2212]")
_ARROWS = re.compile(r"-+>|[→›»➔➜]|&gt;")
_QUOTES = str.maketrans({"’": "'", "‘": "'", "“": '"', "”": '"'})
_CITATION = re.compile(r"\[\d+(?:\s*,\s*\d+)*\]")
_MARKDOWN = re.compile(r"[*_`|\\]|^\s*#+\s", re.MULTILINE)
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_SPACE = re.compile(r"\s+")


def normalise(text: str) -> str:
    """Return ``text`` without what two right answers may differ in.

    Case is folded; dashes, quotes and arrows become ``-``, ``'`` or ``"``, and ``>``; citations
    like [1], Markdown marks, table borders and separators of thousands are dropped; contracted
    negations are written out; white space is one space.
    """
    text = unicodedata.normalize("NFKC", text).translate(_QUOTES).casefold()
    text = _CITATION.sub(" ", text)
    text = _ARROWS.sub(">", _DASHES.sub("-", text))
    text = _MARKDOWN.sub("", text)
    text = _THOUSANDS.sub("", text)
    text = re.sub(r"\bcan't\b", "cannot", text)
    text = re.sub(r"n't\b", " not", text)
    return _SPACE.sub(" ", text).strip()


def holds(answer: str, expected: str) -> bool:
    """Whether ``answer`` has the string ``expected``, both normalised.

    It must begin where a word or a number begins. If it ends in a digit, the number must end
    there too, so that "12" is not found in "125" or "12.5"; a word may go on ("key", "keys").
    """
    wanted = normalise(expected)
    end = r"(?!\w)(?![.,]\d)" if wanted[-1:].isdigit() else ""
    return re.search(rf"(?<!\w)(?<!\d[.,]){re.escape(wanted)}{end}", normalise(answer)) is not None


def holds_all(answer: str, expected: Sequence[Sequence[str]]) -> bool:
    """Whether every group of ``expected`` has at least one string that ``answer`` holds."""
    return all(any(holds(answer, string) for string in group) for group in expected)


def refuses(answer: str) -> bool:
    """Whether ``answer`` says that the sources do not hold what was asked."""
    text = normalise(answer)
    return normalise(NOT_FOUND).rstrip(".") in text or any(p.search(text) for p in _REFUSALS)


def is_right(answer: str, expected: Sequence[Sequence[str]]) -> bool:
    """Whether ``answer`` is right.

    Args:
        answer: what the model said.
        expected: groups of strings, as in :class:`rag.samples.SampleQuestion`; empty where no
            document holds the answer, so that only a refusal is right.
    """
    return holds_all(answer, expected) if expected else refuses(answer)
