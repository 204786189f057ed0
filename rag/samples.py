"""The sample documents: what they are, which questions go with them, and how they are loaded.

They lie in ``data/samples`` beside the package, described by ``samples.json`` and
``questions.json`` there.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rag.domain import ChunkSettings
from rag.errors import SettingsError
from rag.ports import AddEvents

if TYPE_CHECKING:
    from rag.library import Library

FOLDER = Path(__file__).resolve().parents[1] / "data" / "samples"

KINDS = ("neighbour", "chunk", "absent")
"""What a sample question needs: text beside the best chunk, that chunk alone, or a refusal."""


@dataclass(frozen=True, slots=True)
class SampleCollection:
    """A collection of sample documents and how it is cut."""

    name: str
    chunking: ChunkSettings
    files: tuple[Path, ...]
    """Absolute paths."""
    top_n: int
    """Hits that its questions are asked with."""


@dataclass(frozen=True, slots=True)
class Example:
    """A question for the first visit, with the controls that it is asked with."""

    question: str
    collection: str
    top_n: int
    window: int


@dataclass(frozen=True, slots=True)
class SampleQuestion:
    """A question and what a right answer holds.

    Attributes:
        kind: one of :data:`KINDS`. ``neighbour``: the best matching chunk alone does not hold
            all of the answer, which stands beside it or, for a few, further off; ``chunk``: it
            does; ``absent``: no document does, and a right answer says so.
        expected: groups that must all be met; any string of a group meets it, whatever its
            case (see :mod:`rag.evals.judge`). Empty for ``absent``.
        document: name of the file with the answer; ``None`` for ``absent``.
        evidence: words of that document that hold the answer or the part of it that is harder to
            find, verbatim but for white space and table borders; ``None`` for ``absent``.
    """

    id: str
    question: str
    collection: str
    kind: str
    expected: tuple[tuple[str, ...], ...]
    document: str | None
    evidence: str | None


def sample_collections() -> tuple[SampleCollection, ...]:
    """Return the sample collections in the order in which they are loaded.

    Raises:
        SettingsError: the samples are not there.
    """
    return tuple(
        SampleCollection(
            entry["name"],
            ChunkSettings(entry["tokens"], entry["overlap"]),
            tuple(FOLDER / name for name in entry["files"]),
            entry["top_n"],
        )
        for entry in _read("samples.json")["collections"]
    )


def examples() -> tuple[Example, ...]:
    """Return the example questions of the first visit, the first one first.

    Raises:
        SettingsError: the samples are not there.
    """
    return tuple(Example(**entry) for entry in _read("samples.json")["examples"])


def questions() -> tuple[SampleQuestion, ...]:
    """Return the sample questions.

    Raises:
        SettingsError: the samples are not there.
    """
    return tuple(
        SampleQuestion(
            id=entry["id"],
            question=entry["question"],
            collection=entry["collection"],
            kind=entry["kind"],
            expected=tuple(tuple(group) for group in entry["expected"]),
            document=entry["document"],
            evidence=entry["evidence"],
        )
        for entry in _read("questions.json")["questions"]
    )


def load_samples(library: Library, collections: Sequence[str] | None = None) -> AddEvents:
    """Add the sample documents to a library; those that are there already are ``unchanged``.

    Args:
        library: where to.
        collections: names of sample collections; all of them if ``None``.

    Raises:
        SettingsError: the samples are not there, or there is no sample collection of a name.
    """
    known = sample_collections()
    unknown = sorted(set(collections or ()) - {sample.name for sample in known})
    if unknown:
        names = ", ".join(sample.name for sample in known)
        raise SettingsError(f'There is no sample collection "{unknown[0]}"; choose from {names}.')
    for sample in known:
        if collections is not None and sample.name not in collections:
            continue
        library.ensure_collection(sample.name, sample.chunking)
        for path in sample.files:
            yield from library.add(path.name, _bytes(path), sample.name)


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise SettingsError(
            f"The sample file {path} cannot be read ({error.strerror}). "
            "The samples come with a checkout of the repository: run Fenestra from there."
        ) from None


def _read(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(_bytes(FOLDER / name))
    return content
