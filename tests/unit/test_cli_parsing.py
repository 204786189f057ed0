"""What the command line accepts and refuses, which files it means, and how it writes."""

from __future__ import annotations

import io
import json
import os
import sys
from pathlib import Path

import pytest

from rag.cli import main
from rag.cli.arguments import MOST, parse
from rag.cli.console import Console, configure_streams
from rag.cli.files import Entry, expand
from rag.domain import DEFAULT_COLLECTION, ChunkSettings, Progress, Strategy
from rag.retrieval import MAX_TOP_N, MAX_WINDOW


@pytest.mark.parametrize(
    "argv",
    [
        ["--json", "--home", "H", "documents"],
        ["documents", "--json", "--home", "H"],
        ["--home", "H", "documents", "--json"],
        ["--json", "documents", "--home", "H"],
    ],
)
def test_common_options_stand_before_or_after_the_command(argv: list[str]) -> None:
    arguments = parse(argv)
    assert (arguments.json, arguments.home) == (True, Path("H"))


def test_common_options_are_off_unless_given() -> None:
    arguments = parse(["documents"])
    assert (arguments.json, arguments.home) == (False, None)


def test_defaults_of_the_question_commands() -> None:
    asked = parse(["ask", "Why?"])
    assert (asked.question, asked.strategy, asked.window) == ("Why?", Strategy.WINDOW, 4)
    assert (asked.top_n, asked.budget, asked.collection) == (None, None, DEFAULT_COLLECTION)
    compared = parse(["compare", "Why?"])
    assert (compared.left, compared.right) == (Strategy.ISOLATED, Strategy.WINDOW)


def test_options_of_add() -> None:
    arguments = parse(["add", "a", "b", "--collection", "C", "--chunk-tokens", "32"])
    assert arguments.paths == [Path("a"), Path("b")]
    assert arguments.collection == "C"
    assert arguments.chunking == ChunkSettings(32, 0)
    assert parse(["add", "a"]).chunking is None
    assert parse(["add", "a", "--chunk-overlap", "8"]).chunking == ChunkSettings(64, 8)


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["frobnicate"],
        ["add"],
        ["add", ""],
        ["add", "a", "--chunk-tokens", "7"],
        ["add", "a", "--chunk-overlap", "-1"],
        ["add", "a", "--chunk-tokens", "16", "--chunk-overlap", "9"],
        ["remove"],
        ["remove", ""],
        ["remove", "nope", " "],
        ["show"],
        ["show", ""],
        ["search"],
        ["search", ""],
        ["search", " \n\t"],
        ["ask", "Why?", "--window", "0"],
        ["ask", "Why?", "--window", "-4"],
        ["ask", "Why?", "--window", str(MOST + 1)],
        ["ask", "Why?", "--top-n", str(MOST + 1)],
        ["ask", "Why?", "--window", "two"],
        ["ask", "Why?", "--top-n", "0"],
        ["ask", "Why?", "--budget", "0"],
        ["ask", "Why?", "--strategy", "guess"],
        ["ask", "Why?", "--strategy", "adaptive"],
        ["ask", "Why?", "--collection", " "],
        ["ask", "Why?", "--win", "3"],
        ["compare", "Why?", "--left", "guess"],
        ["compare", "Why?", "--strategy", "window"],
        ["serve", "--port", "-1"],
        ["serve", "--port", "65536"],
        ["documents", "--home", ""],
        ["evaluate", "x"],
    ],
)
def test_wrong_usage_is_2_and_prints_nothing_on_stdout(
    argv: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*argv, "--json"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "usage: fenestra" in err
    assert "Traceback" not in err


def test_the_largest_numbers_are_those_of_the_library() -> None:
    assert MAX_WINDOW == MAX_TOP_N == MOST
    assert parse(["ask", "Why?", "--window", str(MOST), "--top-n", str(MOST)]).window == MOST


def test_a_wrong_strategy_is_answered_with_the_right_ones(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main(["search", "Why?", "--strategy", "guess"])
    assert "choose from isolated, window, document" in capsys.readouterr().err


def test_undecodable_bytes_in_a_question_become_replacement_characters() -> None:
    assert parse(["search", os.fsdecode(b"caf\xe9?")]).question == "caf�?"


def test_a_path_keeps_its_undecodable_bytes() -> None:
    path = os.fsdecode(b"caf\xe9.txt")
    assert parse(["add", path]).paths == [Path(path)]


# files


def _tree(root: Path) -> None:
    for name in ("b.txt", "a.txt", "sub/c.txt", "sub/deeper/d.md", ".hidden", ".git/config"):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)


def test_a_folder_means_its_files_sorted_without_the_hidden_ones(tmp_path: Path) -> None:
    _tree(tmp_path)
    found = [str(entry.path.relative_to(tmp_path)) for entry in expand([tmp_path])]
    assert found == ["a.txt", "b.txt", "sub/c.txt", "sub/deeper/d.md"]


def test_a_hidden_file_that_is_named_is_meant(tmp_path: Path) -> None:
    _tree(tmp_path)
    assert list(expand([tmp_path / ".hidden"])) == [Entry(tmp_path / ".hidden")]


def test_links_that_go_round_in_circles_end(tmp_path: Path) -> None:
    _tree(tmp_path)
    (tmp_path / "sub" / "up").symlink_to(tmp_path)
    (tmp_path / "sub" / "self").symlink_to(tmp_path / "sub" / "self")
    entries = list(expand([tmp_path]))
    assert [e.path.name for e in entries if e.error is None] == ["a.txt", "b.txt", "c.txt", "d.md"]
    assert [e.path.name for e in entries if e.error] == ["self"]


def test_what_is_no_file_says_so_and_the_others_go_on(tmp_path: Path) -> None:
    _tree(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "dangling").symlink_to(tmp_path / "gone")
    missing = tmp_path / "missing.txt"
    paths = [missing, tmp_path / "pipe", tmp_path / "dangling", tmp_path / "a.txt"]
    entries = list(expand(paths))
    assert [entry.path for entry in entries] == paths
    for path, entry in zip(paths[:3], entries, strict=False):
        assert entry.error is not None
        assert str(path) in entry.error
        assert entry.error.endswith(".")
    assert entries[3].error is None


def test_a_name_that_no_system_accepts_is_one_failed_entry() -> None:
    (too_long,) = expand([Path("x" * 5000)])
    (nul,) = expand([Path("a\0b")])
    assert too_long.error
    assert nul.error


# console


def _streams(
    monkeypatch: pytest.MonkeyPatch, encoding: str = "utf-8", tty: bool = False
) -> tuple[io.BytesIO, io.BytesIO]:
    raw = io.BytesIO(), io.BytesIO()
    for name, buffer in zip(("stdout", "stderr"), raw, strict=True):
        stream = io.TextIOWrapper(buffer, encoding=encoding, write_through=True)
        if tty:
            monkeypatch.setattr(stream, "isatty", lambda: True)
        monkeypatch.setattr(sys, name, stream)
    configure_streams()
    return raw


@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "latin-1", "cp1252"])
def test_json_is_one_utf8_document_whatever_the_stream_was(
    encoding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, err = _streams(monkeypatch, encoding)
    document = {"path": os.fsdecode(b"caf\xe9 ") + "漢字 “x” 😀", "n": 1.5, "none": None}
    with Console(as_json=True) as console:
        console.write("text")
        print("a library that prints")
        console.result(document)
    assert json.loads(out.getvalue().decode("utf-8")) == document
    assert "漢字 “x” 😀" in out.getvalue().decode("utf-8")
    assert b"a library that prints" in err.getvalue()


def test_text_survives_a_stream_that_cannot_spell_it(monkeypatch: pytest.MonkeyPatch) -> None:
    out, _ = _streams(monkeypatch, "ascii")
    with Console(as_json=False) as console:
        console.write("漢 » \udce9")
        console.result({"not": "printed"})
    assert out.getvalue() == b"\\u6f22 \\xbb \\udce9\n"


def test_text_cannot_steer_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    out, err = _streams(monkeypatch)
    with Console(as_json=False) as console:
        console.write("a\x1b[2Jb\x9b1mc\r\x07\td")
        console.note("e\x1b]0;title\x07")
    shown = out.getvalue().decode()
    assert shown == "a␛[2Jb\ufffd1mc␍␇\td\n"
    assert err.getvalue().decode() == "e␛]0;title␇\n"


def test_progress_is_a_line_per_stage_where_nobody_watches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out, err = _streams(monkeypatch)
    with Console(as_json=True) as console:
        for stage in ("[1/2] a", "[2/2] b"):
            for fraction in (0.1, 0.5, 1.0):
                console.progress(Progress("reading", fraction), stage)
        for done in (1, 2, 3):
            console.progress(Progress(f"Joined {done} of 3 files {done}%"))
    assert err.getvalue().decode() == "[1/2] a\n[2/2] b\nJoined 1 of 3 files\n"
    assert out.getvalue() == b""


def test_progress_on_a_terminal_is_one_line_that_goes_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _, err = _streams(monkeypatch, tty=True)
    with Console(as_json=False) as console:
        console.progress(Progress("reading", 0.5), "a.txt")
    shown = err.getvalue().decode()
    assert "a.txt reading 50%" in shown
    assert "\n" not in shown
    assert shown.endswith("\r\x1b[K")


def test_progress_that_says_the_same_again_prints_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _, err = _streams(monkeypatch)
    with Console(as_json=False) as console:
        for seconds in range(4):
            console.progress(Progress("Waiting for the model"))
            console.progress(Progress(f"The model is reading {seconds} tokens", seconds / 4))
        console.note("It is slow.")
        console.progress(Progress("Waiting for the model"))
    assert err.getvalue().decode() == (
        "Waiting for the model\nThe model is reading 0 tokens\nIt is slow.\n"
    )


def test_progress_on_a_terminal_is_drawn_again_only_where_it_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _, err = _streams(monkeypatch, tty=True)
    with Console(as_json=False) as console:
        for _ in range(4):
            console.progress(Progress("waiting", 0.5))
        console.progress(Progress("waiting", 1.0))
        console.note("It is slow.")
        console.progress(Progress("waiting", 1.0))
    erase = "\r\x1b[K"
    assert err.getvalue().decode() == (
        f"{erase}waiting 50%{erase}waiting 100%{erase}It is slow.\n{erase}waiting 100%{erase}"
    )


def test_nothing_wipes_out_an_answer_that_is_being_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out, err = _streams(monkeypatch, tty=True)
    with Console(as_json=False) as console:
        console.write("half a ", end="")
        console.progress(Progress("waiting"))
        console.write("line", end="")
        console.note("It broke off.")
        console.end_line()
        console.progress(Progress("waiting"))
    assert out.getvalue().decode() == "half a line\n"
    assert err.getvalue().decode() == "It broke off.\n\r\x1b[Kwaiting\r\x1b[K"
