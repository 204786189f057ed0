"""What can be typed: the parser, and the typed result that commands read."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

from rag.domain import DEFAULT_COLLECTION, ChunkSettings, Strategy

MOST = 200
"""The largest window and top-n; said here too, because its own place takes long to load."""

_EPILOG = """\
exit codes:
  0  all well                  2  wrong usage (nothing is printed on standard output)
  1  failed                    3  some files failed, the others were added

With --json, standard output carries exactly one JSON document in UTF-8 and nothing else;
progress and warnings go to standard error. A command that fails prints {"error": "..."} there;
an answer that fails after its passages were found prints them, "finish": "failed" and "error".
"""


class Arguments(argparse.Namespace):
    """The arguments of one call. Only those of its own command are set."""

    command: str
    json: bool = False
    home: Path | None = None
    collection: str | None
    paths: list[Path]
    chunk_tokens: int | None
    chunk_overlap: int | None
    ids: list[str]
    id: str
    chunks: bool
    question: str
    strategy: Strategy
    left: Strategy
    right: Strategy
    window: int
    top_n: int | None
    budget: int | None
    port: int

    @property
    def chunking(self) -> ChunkSettings | None:
        """Chunk settings for a new collection, if any were asked for."""
        if self.chunk_tokens is None and self.chunk_overlap is None:
            return None
        default = ChunkSettings()
        return ChunkSettings(self.chunk_tokens or default.tokens, self.chunk_overlap or 0)


def parse(argv: Sequence[str] | None = None) -> Arguments:
    """Read the arguments. Raises ``SystemExit`` with 0 after help, with 2 for wrong usage."""
    parser = _parser()
    arguments = parser.parse_args(argv, namespace=Arguments())
    if arguments.command == "add":
        chunking = arguments.chunking
        if chunking and chunking.overlap * 2 > chunking.tokens:
            parser.error(
                f"--chunk-overlap {chunking.overlap} is more than half of the "
                f"{chunking.tokens} tokens of a chunk"
            )
    return arguments


def _parser() -> argparse.ArgumentParser:
    # Taken before or after the command. Left out of the result unless given (Arguments has the
    # defaults), so that those of the command do not undo what was said before it.
    common = argparse.ArgumentParser(add_help=False, argument_default=argparse.SUPPRESS)
    common.add_argument("--json", action="store_true", help="print one JSON document")
    common.add_argument(
        "--home", type=_path, metavar="DIR", help="where the library lives (FENESTRA_HOME)"
    )
    parser = argparse.ArgumentParser(
        prog="fenestra",
        description="RAG that reads around the match.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        parents=[common],
        allow_abbrev=False,
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name: str, help: str) -> argparse.ArgumentParser:
        return commands.add_parser(
            name, help=help, description=help, parents=[common], allow_abbrev=False
        )

    _add_document_commands(command)
    _add_question_commands(command)
    serve = command("serve", "run the web application on 127.0.0.1")
    serve.add_argument(
        "--port", type=_whole(0, 65535), default=8501, help="0: any free one; default: 8501"
    )
    command("doctor", "check the installation and the library, and say what to do")
    command("rebuild", "rebuild the vector index from the catalog, embedding nothing again")
    return parser


def _add_document_commands(command: Callable[[str, str], argparse.ArgumentParser]) -> None:
    add = command("add", "add files, and the files in folders")
    add.add_argument("paths", nargs="+", type=_path, metavar="PATH")
    _collection(add, DEFAULT_COLLECTION, "made if it is new")
    add.add_argument(
        "--chunk-tokens", type=_whole(8), metavar="N", help="most tokens in a chunk, if it is new"
    )
    add.add_argument(
        "--chunk-overlap",
        type=_whole(0),
        metavar="N",
        help="tokens repeated from the chunk before, if it is new",
    )
    documents = command("documents", "list the documents")
    _collection(documents, None, "all of them by default")
    remove = command("remove", "remove documents")
    remove.add_argument("ids", nargs="+", type=_non_blank, metavar="ID")
    show = command("show", "show the text of a document")
    show.add_argument("id", type=_non_blank, metavar="ID")
    show.add_argument("--chunks", action="store_true", help="its chunks too")


def _add_question_commands(command: Callable[[str, str], argparse.ArgumentParser]) -> None:
    for name, help in (
        ("search", "show the passages that a question finds"),
        ("ask", "answer a question from the passages it finds"),
    ):
        one = command(name, help)
        _strategy(one, "--strategy", Strategy.WINDOW)
        _selection(one)
    compare = command("compare", "answer a question twice, from one retrieval, two ways")
    _strategy(compare, "--left", Strategy.ISOLATED)
    _strategy(compare, "--right", Strategy.WINDOW)
    _selection(compare)


def _strategy(parser: argparse.ArgumentParser, flag: str, default: Strategy) -> None:
    parser.add_argument(
        flag,
        type=_strategy_name,
        default=default,
        metavar="S",
        help=f"{', '.join(Strategy)}; default: {default}",
    )


def _selection(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("question", type=_non_blank, metavar="QUESTION")
    parser.add_argument(
        "--window",
        type=_whole(1, MOST),
        default=4,
        metavar="N",
        help="chunks in a window, the match included; default: 4",
    )
    parser.add_argument(
        "--top-n",
        type=_whole(1, MOST),
        metavar="N",
        help="matches used; default: 5, or 3 with the embedded language model",
    )
    parser.add_argument(
        "--budget", type=_whole(1), metavar="TOKENS", help="most tokens of passages sent"
    )
    _collection(parser, DEFAULT_COLLECTION)


def _collection(parser: argparse.ArgumentParser, default: str | None, note: str = "") -> None:
    usual = f'default: "{default}"' if default else ""
    parser.add_argument(
        "--collection",
        type=_non_blank,
        default=default,
        metavar="C",
        help="; ".join(part for part in ("a collection's name", note, usual) if part),
    )


def _text(value: str) -> str:
    """Arguments arrive with undecodable bytes as lone surrogates, which no store accepts."""
    return value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _non_blank(value: str) -> str:
    if not value.strip():
        raise argparse.ArgumentTypeError("must not be blank")
    return _text(value)


def _path(value: str) -> Path:
    _non_blank(value)
    return Path(value)


def _strategy_name(value: str) -> Strategy:
    try:
        return Strategy(value)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"unknown strategy {value!r} (choose from {', '.join(Strategy)})"
        ) from None


def _whole(least: int, most: int | None = None) -> Callable[[str], int]:
    """Return a reader of whole numbers from ``least`` to ``most``."""
    allowed = f"from {least} to {most}" if most else f"of at least {least}"

    def read(value: str) -> int:
        try:
            number = int(value)
        except ValueError:
            number = least - 1
        if number < least or (most is not None and number > most):
            raise argparse.ArgumentTypeError(f"must be a whole number {allowed}, not {value!r}")
        return number

    return read
