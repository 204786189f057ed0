"""``python -m rag.evals.answers``: how often each side answers the sample questions right.

Prints a table for equal hits and one for equal tokens (see :mod:`rag.evals.comparison`). With
the embedded language model and two processor cores it takes about half an hour.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from rag.compose import open_library
from rag.domain import Added, Answer
from rag.errors import DocumentError, ModelError, RagError, SettingsError
from rag.evals.comparison import WINDOW, Pair, Prompt, answered, ask_all, plan, report, rows
from rag.evals.tally import table
from rag.library import Library
from rag.samples import load_samples, questions
from rag.settings import load_settings


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns 0, or 1 if it failed or was stopped before the end."""
    options = _parser().parse_args(argv)
    try:
        with ExitStack() as stack:
            if options.home is not None:
                settings = load_settings(options.home)
            else:
                home = stack.enter_context(tempfile.TemporaryDirectory(prefix="fenestra-"))
                # The catalog goes with the home, even if another one is set.
                settings = load_settings(Path(home)).model_copy(update={"database_url": None})
            library = stack.enter_context(open_library(settings))
            return measure(library, options.limit, options.save, as_json=options.json)
    except RagError as error:
        _say(str(error))
        return 1


def measure(library: Library, limit: int | None, save: Path | None, *, as_json: bool) -> int:
    """Load the samples into ``library``, ask the first ``limit`` questions and print the counts.

    Questions that were answered before a failure or Ctrl-C are counted all the same. Returns 0
    if all were.

    Raises:
        SettingsError: ``save`` cannot be written; said before anything is asked.
        RagError: the samples cannot be loaded, or no question was answered.
    """
    if save is not None:
        _check_writable(save)
    _load(library)
    pairs = plan(library, questions()[:limit])
    answers: dict[Prompt, Answer] = {}
    stopped = ""
    try:
        ask_all(library, pairs, answers, _say_changes())
    except ModelError as error:
        stopped = str(error)
    except KeyboardInterrupt:
        stopped = "Stopped by Ctrl-C. Run it again for all questions."
    complete = answered(pairs, answers)
    if not complete:
        raise ModelError(stopped or "There are no questions to ask. Choose a higher --limit.")
    document = json.dumps(report(complete, answers), ensure_ascii=False, indent=2)
    if save is not None:
        save.write_text(document + "\n", encoding="utf-8")
    sys.stdout.write((document if as_json else _text(complete, answers)) + "\n")
    if stopped:
        _say(f"{len(complete)} of {len(pairs)} comparisons were made. {stopped}")
    return 1 if stopped else 0


def _check_writable(path: Path) -> None:
    try:
        path.touch()
    except OSError as error:
        raise SettingsError(
            f"{path} cannot be written ({error.strerror}). Choose another file for --save."
        ) from None


def _load(library: Library) -> None:
    for event in load_samples(library):
        if isinstance(event, Added):
            if event.error is not None:
                raise DocumentError(event.error)
            _say(f"{event.name}: {event.status}")


def _text(pairs: Sequence[Pair], answers: dict[Prompt, Answer]) -> str:
    model = next(iter(answers.values())).model
    parts = [f"Sample questions answered right. Model: {model}. Window: {WINDOW} chunks."]
    for mode, counted in rows(pairs, answers).items():
        parts.append(f"{mode.capitalize()}:\n\n{table(counted)}")
    return "\n\n".join(parts)


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def _say_changes() -> Callable[[str], None]:
    """A :func:`_say` that leaves out a line equal to the one before."""
    last = ""

    def say(line: str) -> None:
        nonlocal last
        if line != last:
            _say(line)
        last = line

    return say


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m rag.evals.answers",
        description="Ask the sample questions from isolated chunks and from chunk windows, and "
        "count the right answers of each side.",
    )
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    parser.add_argument("--limit", type=_count, metavar="N", help="ask the first N questions only")
    parser.add_argument("--save", type=Path, metavar="FILE", help="write the JSON to a file too")
    parser.add_argument(
        "--home", type=Path, help="use the library there; a temporary one if not given"
    )
    return parser


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


if __name__ == "__main__":
    sys.exit(main())
