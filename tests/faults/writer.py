"""A process that adds, replaces, removes and rebuilds, and dies where it is told to.

Usage: ``writer.py HOME CHECKPOINT NTH``: SIGKILL at the NTH passing of CHECKPOINT; with ``-``
it runs to its end, or until somebody kills it. Each finished step is one line on standard
output: ``ready MARKER``, ``gone MARKER`` or ``rebuilt``.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from rag import checkpoints
from rag.compose import open_library
from rag.domain import Added, ChunkSettings
from rag.library import Library
from rag.settings import load_settings
from rag.testing import HashEmbedder, ScriptedChat

CHUNKS = 1500


def text(marker: str) -> bytes:
    """A document of about ``CHUNKS`` chunks with one sentence that nothing else has."""
    lines = [f"Line {i} of {marker} tells nothing new.\n\n" for i in range(CHUNKS)]
    lines[CHUNKS // 2] = f"The secret word here is {marker}secret and no other.\n\n"
    return "".join(lines).encode()


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def add(library: Library, marker: str, source: str) -> None:
    for event in library.add(f"{source}.md", text(marker), "Faults", source):
        if isinstance(event, Added):
            assert event.status == "ready", event.error
            say(f"ready {marker}")


def main(home: str, checkpoint: str, nth: str) -> None:
    passed = 0

    def hook(name: str) -> None:
        nonlocal passed
        if name == checkpoint:
            passed += 1
            if passed == int(nth):
                os.kill(os.getpid(), signal.SIGKILL)

    settings = load_settings(Path(home))
    with open_library(settings, embedder=HashEmbedder(), chat=ScriptedChat()) as library:
        library.ensure_collection("Faults", ChunkSettings(16))
        add(library, "alder", "a")
        checkpoints.set_hook(hook)
        add(library, "birch", "b")
        add(library, "cedar", "a")
        say("gone alder")
        (birch,) = [d for d in library.documents("Faults") if d.source == "b"]
        library.remove([birch.id])
        say("gone birch")
        for _ in library.rebuild():
            pass
        say("rebuilt")
        add(library, "dogwood", "d")


if __name__ == "__main__":
    main(*sys.argv[1:])
