"""The command line: ``fenestra`` and ``python -m rag``. It renders the same events as the screen.

Everything heavy is imported inside the command that needs it, so that help is instant.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence

from rag.cli.arguments import Arguments, parse
from rag.cli.console import Console, OutputLost, configure_streams
from rag.cli.documents import add, list_documents, remove, show
from rag.cli.exits import FAILED, INTERRUPTED, WRONG_USAGE
from rag.cli.questions import ask, compare, search
from rag.cli.upkeep import doctor, rebuild, serve
from rag.errors import RagError

_COMMANDS: dict[str, Callable[[Arguments, Console], int]] = {
    "add": add,
    "documents": list_documents,
    "remove": remove,
    "show": show,
    "search": search,
    "ask": ask,
    "compare": compare,
    "serve": serve,
    "doctor": doctor,
    "rebuild": rebuild,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0, 1 failed, 2 wrong usage, 3 some files failed.

    ``argv`` are the arguments without the program's name; those of the process if ``None``.
    """
    configure_streams()
    try:
        arguments = parse(argv)
    except SystemExit as end:  # help was printed, or the usage was wrong and has been said
        code = end.code if isinstance(end.code, int) else WRONG_USAGE
        return _delivered(lambda console: code, as_json=False) if sys.stdout else code
    if sys.stdout is None:
        sys.stderr.write("Standard output is closed. Open it, or send it to a file.\n")
        return FAILED
    if not sys.warnoptions:
        warnings.simplefilter("ignore")  # libraries talking to programmers, not to this user
    return _delivered(lambda console: _run(arguments, console), arguments.json)


def _delivered(work: Callable[[Console], int], as_json: bool) -> int:
    """Return the exit code of ``work``, or 1 if not all of its output could be written."""
    with Console(as_json) as console:
        try:
            code = work(console)
            console.flush()
        except OutputLost as lost:
            if message := str(lost):
                console.note(message)
            return FAILED
        return code


def _run(arguments: Arguments, console: Console) -> int:
    from rag.adapters.home_lock import set_command

    set_command(arguments.command)
    try:
        return _COMMANDS[arguments.command](arguments, console)
    except OutputLost:
        raise
    except RagError as error:
        return _failed(console, str(error))
    except KeyboardInterrupt:
        return _failed(
            console, "Interrupted. What was finished is kept; run it again to go on.", INTERRUPTED
        )
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        return _failed(
            console,
            f"The system refused{where}: {error.strerror or error}. "
            "Run `fenestra doctor` to see what is wrong.",
        )
    except Exception as error:
        if sys.flags.dev_mode:
            raise
        return _failed(
            console,
            f"Something unexpected went wrong ({type(error).__name__}: {error}). Run "
            "`fenestra doctor`; `python -X dev -m rag …` shows where it happened.",
        )


def _failed(console: Console, message: str, code: int = FAILED) -> int:
    """Say why a command failed, on both streams in their own form, and return its code."""
    console.note(message)
    console.result({"error": message})
    return code
