"""The commands on a real library: their JSON, their exit codes, and what they do when it fails."""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docx
import fpdf
import pytest

from rag.adapters.home_lock import program
from rag.adapters.model_file import QWEN
from rag.cli import main
from rag.testing_server import PLAYS, Play, ScriptedServer

QUESTION = "Where do I generate a bearer token?"
API_GUIDE = """# API guide

All API requests require authentication.

Generate a bearer token from your dashboard under Settings > API Keys.

Use the bearer token in the Authorization header.

Tokens expire after 90 days and should be rotated regularly.

## Errors

A request without a token is answered with status 401.

A request with a token that has expired is answered with status 403.

Requests over the limit are answered with status 429 and are not counted.
"""


@dataclass(frozen=True)
class Ran:
    """What one command did."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one JSON document on standard output; fails if there is anything beside it."""
        return json.loads(self.out)


def run(home: Path, *argv: str | Path) -> Ran:
    """Run a command in this process, as a terminal would, with the streams of its own."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(["--home", str(home), *map(str, argv)])
    texts = [stream.buffer.getvalue().decode("utf-8") for stream in (out, err)]
    assert "Traceback" not in texts[1]
    return Ran(code, *texts)


def start(home: Path, *argv: str | Path, **environment: str) -> subprocess.Popen[bytes]:
    """Start a command in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "rag", "--home", str(home), *map(str, argv)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **environment},
    )


def write_folder(folder: Path) -> None:
    """Fifty files of several kinds, six of which cannot be added, and some that are hidden."""
    folder.mkdir()
    for number in range(20):
        (folder / f"note-{number:02}.txt").write_text(
            f"Note {number}. The heron number {number} was seen by the river.\n\n"
            f"It stood there for {number + 3} minutes. Then it flew away to the north.\n"
        )
    for number in range(12):
        (folder / f"plan-{number:02}.md").write_text(
            f"# Plan {number}\n\nStep {number} of the plan comes first.\n\n## Cost\n\n"
            f"The cost of plan {number} is {number * 10} euros. It is paid in May.\n"
        )
    sub = folder / "sub folder"
    sub.mkdir()
    for number in range(6):
        (sub / f"page-{number}.html").write_text(
            f"<html><title>Page {number}</title><body><h1>Page {number}</h1>"
            f"<p>Otters of group {number} eat fish.</p><p>They sleep in dens.</p></body></html>"
        )
    for number in range(3):
        written = docx.Document()
        written.add_heading(f"Report {number}", 1)
        written.add_paragraph(f"Zebra {number} crossed the plain. It rained in the evening.")
        written.save(str(sub / f"report-{number}.docx"))
    for number in range(2):
        pdf = fpdf.FPDF()
        pdf.set_font("helvetica", size=12)
        for page in range(3):
            pdf.add_page()
            pdf.multi_cell(0, text=f"Page {page + 1} of file {number} is about badger {page}.")
        pdf.output(str(sub / f"badgers-{number}.pdf"))
    (folder / "Überblick 概要.txt").write_text("概要です。カワウソは川にいます。", encoding="utf-8")
    for name, data in (
        ("empty.txt", b""),
        ("blank.md", b" \n\n\t\n"),
        ("broken.pdf", b"%PDF-1.7"),
        ("broken.docx", b"PK\x03\x04 this is no archive"),
        ("program.bin", bytes(range(256)) * 40),
        ("cut.pdf", b"%PDF-1.7\n1 0 obj\n<< /Type /Catalog >>\nendobj\n"),
    ):
        (folder / name).write_bytes(data)
    (folder / ".hidden.txt").write_text("hidden")
    (folder / ".git").mkdir()
    (folder / ".git" / "config").write_text("hidden")


BAD = {"empty.txt", "blank.md", "broken.pdf", "broken.docx", "program.bin", "cut.pdf"}


@dataclass(frozen=True)
class Filled:
    """A library that tests read and leave as it is."""

    home: Path
    folder: Path
    added: Ran

    @property
    def ready(self) -> list[dict[str, Any]]:
        return [row for row in self.added.json["documents"] if row["status"] == "ready"]


NOBODY = "http://127.0.0.1:9/v1"
"""An address where no model server listens: no test here may start the embedded one."""


@pytest.fixture(autouse=True)
def _no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", NOBODY)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Filled:
    """Fifty files in the default collection, the API guide in sentence-sized chunks."""
    root = tmp_path_factory.mktemp("filled")
    write_folder(root / "mixed")
    (root / "api-guide.md").write_text(API_GUIDE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_BASE_URL", NOBODY)
        added = run(root / "home", "add", root / "mixed", "--json")
        guide = run(
            root / "home",
            *("add", root / "api-guide.md", "--json"),
            *("--collection", "API guide", "--chunk-tokens", "16"),
        )
    assert guide.code == 0, guide
    return Filled(root / "home", root / "mixed", added)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedServer]:
    """A model server that commands find by the environment."""
    with ScriptedServer(PLAYS["plain"]) as scripted:
        monkeypatch.setenv("OPENAI_BASE_URL", scripted.url)
        yield scripted


def ask_guide(command: str, *more: str) -> list[str]:
    return [command, QUESTION, "--collection", "API guide", "--json", *more]


def prompts(server: ScriptedServer) -> list[str]:
    return [
        "\n\n".join(message["content"] for message in request["messages"])
        for request in server.requests
    ]


def snapshot(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else b""
        for path in sorted(folder.rglob("*"))
    }


# start-up


@pytest.mark.parametrize(
    "code",
    [
        "import rag",
        "import rag, rag.cli",
        "from rag.cli import main; assert main(['--help']) == 0",
        "from rag.cli import main; assert main(['ask', '--help']) == 0",
        "from rag.cli import main; assert main(['ask', 'Why?', '--window', '0']) == 2",
    ],
)
def test_help_is_instant(code: str) -> None:
    heavy = {"torch", "chromadb", "streamlit", "sqlalchemy", "openai", "pydantic", "numpy"}
    script = f"{code}\nimport sys; print({heavy} & set(sys.modules), file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stderr.splitlines()[-1] == "set()"


def test_the_module_is_the_command_line() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "rag", "--help"],
        capture_output=True,
        timeout=60,
        check=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )
    assert done.stdout.startswith(b"usage: fenestra ")


# documents


def test_a_folder_of_fifty_files_is_added_and_the_bad_ones_say_why(filled: Filled) -> None:
    assert filled.added.code == 3
    rows = filled.added.json["documents"]
    assert len(rows) == 50
    for row in rows:
        assert list(row) == [
            *("path", "id", "name", "status", "chunks", "pages", "warnings", "error")
        ]
        assert Path(row["path"]).is_file()
        assert row["name"] == Path(row["path"]).name
        if row["name"] in BAD:
            assert (row["status"], row["id"], row["chunks"], row["pages"]) == ("failed", None, 0, 0)
            assert row["error"].endswith(".")
            assert row["error"] in filled.added.err
        else:
            assert (row["status"], row["error"]) == ("ready", None)
            assert row["chunks"] >= 1
    assert {row["name"] for row in rows if row["status"] == "failed"} == BAD
    assert [row["path"] for row in rows] == sorted(
        (row["path"] for row in rows), key=lambda path: Path(path).parts
    )
    assert {row["pages"] for row in rows if row["name"].startswith("badgers")} == {3}


def test_the_same_bytes_again_are_unchanged(filled: Filled) -> None:
    before = run(filled.home, "documents", "--json").json
    again = run(filled.home, "add", filled.folder, "--json")
    assert again.code == 3
    for row in again.json["documents"]:
        if row["name"] not in BAD:
            assert row["status"] == "unchanged"
            assert row["id"] in {known["id"] for known in filled.ready}
    assert run(filled.home, "documents", "--json").json == before


def test_documents_lists_what_was_added(filled: Filled) -> None:
    rows = run(filled.home, "documents", "--collection", "My documents", "--json").json["documents"]
    assert [row["id"] for row in rows] == [row["id"] for row in filled.ready]
    for row, added in zip(rows, filled.ready, strict=True):
        assert list(row) == [
            *("id", "name", "status", "chunks", "tokens", "bytes", "sha256", "added_at")
        ]
        assert (row["status"], row["chunks"]) == ("ready", added["chunks"])
        assert row["bytes"] == Path(added["path"]).stat().st_size
        assert row["tokens"] >= row["chunks"]
        assert len(row["sha256"]) == 64
    everything = run(filled.home, "documents", "--json").json["documents"]
    assert len(everything) == len(rows) + 1


def test_every_chunk_is_its_slice(filled: Filled) -> None:
    for added in filled.ready:
        shown = run(filled.home, "show", added["id"], "--chunks", "--json").json
        assert list(shown) == [
            *("id", "name", "status", "media_type", "sha256"),
            *("pages", "warnings", "text", "chunks"),
        ]
        assert [chunk["index"] for chunk in shown["chunks"]] == list(range(added["chunks"]))
        for chunk in shown["chunks"]:
            assert list(chunk) == ["index", "start", "end", "text", "tokens", "page", "section"]
            assert shown["text"][chunk["start"] : chunk["end"]] == chunk["text"]
    plain = run(filled.home, "show", filled.ready[0]["id"], "--json").json
    assert "chunks" not in plain
    assert plain["text"]


def test_pages_and_sections_are_shown(filled: Filled) -> None:
    ids = {row["name"]: row["id"] for row in filled.ready}
    badgers = run(filled.home, "show", ids["badgers-0.pdf"], "--chunks", "--json").json
    assert badgers["chunks"][0]["page"] == 1
    plan = run(filled.home, "show", ids["plan-01.md"], "--chunks", "--json").json
    assert plan["chunks"][0]["page"] is None
    assert plan["chunks"][0]["section"].startswith("Plan 1")


def test_text_renderings(filled: Filled) -> None:
    listed = run(filled.home, "documents")
    assert "note-00.txt" in listed.out
    shown = run(filled.home, "show", filled.ready[0]["id"], "--chunks")
    assert "chunk 0, 0-" in shown.out
    assert (listed.code, shown.code) == (0, 0)


def test_what_is_unknown_is_named(filled: Filled) -> None:
    for argv in (["show", "nobody"], ["documents", "--collection", "nobody"], ["remove", "nobody"]):
        ran = run(filled.home, *argv, "--json")
        assert ran.code == 1
        assert "nobody" in ran.json["error"]
        assert ran.json["error"] in ran.err


def test_a_missing_path_fails_and_the_others_go_on(home: Path, tmp_path: Path) -> None:
    good = tmp_path / "good.txt"
    good.write_text("The heron was seen by the river.")
    ran = run(home, "add", tmp_path / "missing.txt", good, "--json", "--collection", "Fresh 新")
    assert ran.code == 3
    missing, added = ran.json["documents"]
    assert (missing["status"], missing["id"], missing["chunks"]) == ("failed", None, 0)
    assert str(tmp_path / "missing.txt") in missing["error"]
    assert (added["status"], added["path"]) == ("ready", str(good))
    listed = run(home, "documents", "--collection", "Fresh 新", "--json")
    assert [row["name"] for row in listed.json["documents"]] == ["good.txt"]


def test_a_name_that_is_not_utf8_is_added_and_told_apart(home: Path, tmp_path: Path) -> None:
    path = os.path.join(os.fsencode(tmp_path), b"caf\xe9.txt")
    with open(path, "w") as file:
        file.write("The heron was seen by the river.")
    process = start(home, "add", os.fsdecode(path), "--json", PYTHONIOENCODING="ascii")
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    (row,) = json.loads(out.decode("utf-8"))["documents"]
    assert os.fsencode(row["path"]) == path
    shown = run(home, "show", row["id"], "--json").json
    assert re.fullmatch(r"caf.\.txt", shown["name"])


def test_remove_takes_all_or_nothing(home: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.txt").write_text(f"The {name} heron was seen by the river.")
    rows = run(home, "add", tmp_path / "a.txt", tmp_path / "b.txt", "--json").json["documents"]
    first, second = (row["id"] for row in rows)
    refused = run(home, "remove", first, "no-such-id", "--json")
    assert refused.code == 1
    assert "no-such-id" in refused.json["error"]
    assert len(run(home, "documents", "--json").json["documents"]) == 2
    assert run(home, "remove", first, first, "--json").json == {"removed": [first]}
    left = run(home, "documents", "--json").json["documents"]
    assert [row["id"] for row in left] == [second]
    found = run(home, "search", "heron", "--json").json
    assert {hit["document_id"] for hit in found["hits"]} == {second}


# questions


SEARCH_FIELDS = [
    *("question", "strategy", "hits", "passages", "token_count", "dropped", "prompt", "timings_ms")
]
ASK_FIELDS = [*SEARCH_FIELDS, "answer", "citations", "finish", "usage", "model"]


@pytest.mark.parametrize("strategy", ["isolated", "window", "document"])
def test_every_passage_is_its_slice(filled: Filled, strategy: str) -> None:
    texts: dict[str, Any] = {}
    for question, collection in (
        (QUESTION, "API guide"),
        ("Which heron flew to the north?", "My documents"),
        ("badger on page 2", "My documents"),
    ):
        found = run(
            filled.home, "search", question, "--collection", collection, "--strategy", strategy,
            "--json",
        ).json  # fmt: skip
        assert list(found) == SEARCH_FIELDS
        assert (found["question"], found["strategy"]) == (question, strategy)
        assert found["hits"]
        for hit in found["hits"]:
            assert list(hit) == ["document_id", "index", "similarity", "score"]
            assert 0 <= hit["similarity"] <= 1
        places = {(hit["document_id"], hit["index"]) for hit in found["hits"]}
        assert [passage["number"] for passage in found["passages"]] == list(
            range(1, len(found["passages"]) + 1)
        )
        for passage in found["passages"]:
            assert list(passage) == [
                *("number", "document_id", "title", "first", "last"),
                *("matches", "page", "text", "score"),
            ]
            key = passage["document_id"]
            if key not in texts:
                texts[key] = run(filled.home, "show", key, "--chunks", "--json").json
            chunks = texts[key]["chunks"]
            start, end = chunks[passage["first"]]["start"], chunks[passage["last"]]["end"]
            assert texts[key]["text"][start:end] == passage["text"]
            assert passage["text"] in found["prompt"]
            assert passage["matches"]
            for index in passage["matches"]:
                assert passage["first"] <= index <= passage["last"]
                assert (key, index) in places
            assert passage["page"] == chunks[passage["first"]]["page"]
        assert found["token_count"] > 0
        assert all(isinstance(ms, float | int) for ms in found["timings_ms"].values())


def test_a_window_of_one_is_the_isolated_prompt_byte_for_byte(filled: Filled) -> None:
    isolated = run(filled.home, *ask_guide("search", "--strategy", "isolated")).json
    single = run(filled.home, *ask_guide("search", "--strategy", "window", "--window", "1")).json
    assert single["prompt"] == isolated["prompt"]
    assert single["passages"] == isolated["passages"]


def test_strategy_and_window_change_no_hit(filled: Filled) -> None:
    hits = [
        run(filled.home, *ask_guide("search", *more)).json["hits"]
        for more in (["--strategy", "isolated"], ["--window", "3"], ["--strategy", "document"])
    ]
    assert hits[0] == hits[1] == hits[2]


def test_the_window_holds_what_the_lone_chunk_does_not(filled: Filled) -> None:
    question = "In which header do I use the bearer token?"
    argv = ["search", question, "--collection", "API guide", "--top-n", "1", "--json"]
    alone = run(filled.home, *argv, "--strategy", "isolated").json["passages"]
    around = run(filled.home, *argv).json["passages"]
    assert len(alone) == len(around) == 1
    assert "Authorization header" in alone[0]["text"]
    assert "90 days" not in alone[0]["text"]
    assert "Settings > API Keys" in around[0]["text"]
    assert "90 days" in around[0]["text"]
    assert around[0]["matches"] == alone[0]["matches"]


def test_a_budget_is_kept_and_what_it_keeps_out_is_said(filled: Filled) -> None:
    ran = run(filled.home, *ask_guide("search", "--top-n", "5", "--budget", "20"))
    assert ran.json["token_count"] <= 20
    assert ran.json["dropped"]
    assert all(sentence.endswith(".") for sentence in ran.json["dropped"])


def test_search_marks_the_matches_in_text(filled: Filled) -> None:
    argv = [part for part in ask_guide("search", "--top-n", "1") if part != "--json"]
    ran = run(filled.home, *argv)
    assert ran.code == 0
    assert "[1] " in ran.out
    assert ran.out.count("»") == ran.out.count("«") == 2  # the match, and the line of figures


def test_ask_sends_the_prompt_that_it_prints(filled: Filled, server: ScriptedServer) -> None:
    ran = run(filled.home, *ask_guide("ask"))
    assert ran.code == 0, ran
    asked = ran.json
    assert list(asked) == ASK_FIELDS
    assert prompts(server) == [asked["prompt"]]
    assert asked["answer"] == PLAYS["plain"].text
    assert asked["finish"] == "stop"
    assert asked["model"] == "plain"
    assert asked["usage"]["prompt_tokens"] > 0
    assert asked["usage"]["completion_tokens"] > 0
    first = asked["passages"][0]
    assert asked["citations"] == [
        {
            "number": 1,
            "document_id": first["document_id"],
            "title": first["title"],
            "page": first["page"],
        }
    ]


def test_ask_streams_as_text(filled: Filled, server: ScriptedServer) -> None:
    argv = [part for part in ask_guide("ask") if part != "--json"]
    ran = run(filled.home, *argv)
    assert ran.code == 0
    assert f"\nAnswer\n{PLAYS['plain'].text}\n" in ran.out
    assert "tokens sent" in ran.out
    gate = threading.Semaphore(3)
    server.play = Play(gate=gate)
    process = start(filled.home, *argv)
    assert process.stdout is not None
    seen = b""
    while b"The token comes " not in seen:
        piece = process.stdout.read1()
        assert piece, process.communicate()
        seen += piece
    # Only three tokens are out of the server yet, and they have been printed.
    assert server.requests[1:]
    for _ in range(100):
        gate.release()
    rest, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert b"after 90 days [1]." in seen + rest


def test_compare_feeds_both_sides_from_one_retrieval(
    filled: Filled, server: ScriptedServer
) -> None:
    server.play = PLAYS["quote"]
    ran = run(filled.home, *ask_guide("compare", "--top-n", "2"))
    assert ran.code == 0, ran
    left, right = ran.json["left"], ran.json["right"]
    assert list(ran.json) == ["left", "right"]
    assert list(left) == list(right) == ASK_FIELDS
    assert (left["strategy"], right["strategy"]) == ("isolated", "window")
    assert left["hits"] == right["hits"]
    assert sorted(prompts(server)) == sorted([left["prompt"], right["prompt"]])
    for side in (left, right):
        assert side["prompt"].endswith(side["answer"].removesuffix(" [1]"))
    assert len(right["prompt"]) > len(left["prompt"])
    other = run(filled.home, *ask_guide("compare", "--left", "document", "--right", "isolated"))
    assert other.json["left"]["strategy"] == "document"
    assert other.json["right"]["strategy"] == "isolated"


def test_compare_with_windows_of_one_sends_the_same_prompt_twice(
    filled: Filled, server: ScriptedServer
) -> None:
    both = run(filled.home, *ask_guide("compare", "--window", "1")).json
    assert both["left"]["prompt"] == both["right"]["prompt"]
    assert prompts(server) == [both["left"]["prompt"]] * 2


def test_compare_prints_the_left_side_first(filled: Filled, server: ScriptedServer) -> None:
    argv = [part for part in ask_guide("compare") if part != "--json"]
    ran = run(filled.home, *argv)
    assert ran.code == 0
    places = [ran.out.index("Left: isolated"), ran.out.index("Right: window")]
    answers = [ran.out.index(PLAYS["plain"].text), ran.out.rindex(PLAYS["plain"].text)]
    assert places[0] < answers[0] < places[1] < answers[1]


# failures of the language model


def test_an_endpoint_that_is_down_leaves_the_passages(
    filled: Filled, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{port}/v1")
    monkeypatch.setenv("FENESTRA_MODEL", "plain")
    ran = run(filled.home, *ask_guide("ask"))
    assert ran.code == 1
    assert list(ran.json) == [*ASK_FIELDS, "error"]
    assert (ran.json["finish"], ran.json["answer"]) == ("failed", "")
    assert ran.json["passages"]
    assert str(port) in ran.json["error"]
    assert ran.json["error"] in ran.err
    both = run(filled.home, *ask_guide("compare"))
    assert both.code == 1
    assert {side["finish"] for side in both.json.values()} == {"failed"}


def test_one_side_failing_leaves_the_other(filled: Filled, server: ScriptedServer) -> None:
    server.play = lambda request: (
        PLAYS["plain"] if "90 days" in json.dumps(request["messages"]) else PLAYS["status-401"]
    )
    question = "In which header do I use the bearer token?"
    ran = run(
        filled.home,
        *("compare", question, "--collection", "API guide", "--top-n", "1", "--json"),
    )
    assert ran.code == 1
    assert ran.json["left"]["finish"] == "failed"
    assert ran.json["right"]["answer"] == PLAYS["plain"].text


def test_a_wrong_key_is_said_and_never_shown(
    filled: Filled, server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.key = "right"
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-12345")
    ran = run(filled.home, *ask_guide("ask"))
    assert ran.code == 1
    assert "OPENAI_API_KEY" in ran.json["error"]
    assert "sk-secret" not in ran.out + ran.err


def test_a_key_with_an_illegal_character_is_said_and_never_shown(
    filled: Filled, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret—12345")
    ran = run(filled.home, *ask_guide("ask"))
    assert ran.code == 1
    assert "illegal character" in ran.json["error"]
    assert "secret" not in ran.out + ran.err


def test_an_answer_that_breaks_off_is_kept_and_marked(
    filled: Filled, server: ScriptedServer
) -> None:
    server.play = PLAYS["cut"]
    ran = run(filled.home, *ask_guide("ask"))
    assert ran.code == 1
    assert list(ran.json) == ASK_FIELDS
    assert ran.json["finish"] == "incomplete"
    assert PLAYS["plain"].text.startswith(ran.json["answer"].strip())
    assert ran.json["answer"]
    assert "broke off" in ran.err


def test_an_interrupt_stops_the_server_and_ends_with_a_sentence(
    filled: Filled, server: ScriptedServer
) -> None:
    server.play = Play(gate=threading.Semaphore(2))
    process = start(filled.home, *ask_guide("ask"))
    while not server.requests:
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert json.loads(out)["error"].startswith("Interrupted.")
    assert b"Traceback" not in err
    assert server.client_left.acquire(timeout=60)
    assert run(filled.home, "documents", "--json").code == 0


def test_a_reader_that_leaves_early_is_no_trace(filled: Filled) -> None:
    process = start(filled.home, "documents")
    assert process.stdout is not None
    process.stdout.close()
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert err == b""


def redirected(home: Path, how: str, *argv: str, **environment: str) -> Ran:
    """Run a command in a process of its own, with its streams as a shell makes them."""
    done = subprocess.run(
        ["sh", "-c", f'exec "$@" {how}', "sh", sys.executable, "-m", "rag", *argv],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        env={**os.environ, "FENESTRA_HOME": str(home), **environment},
        check=False,
    )
    return Ran(done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize(
    ("how", "unbuffered", "argv"),
    [
        (">&-", "", ["documents", "--json"]),
        ("<&- >&-", "", ["documents"]),
        (">/dev/full", "", ["documents", "--json"]),
        (">/dev/full", "1", ["documents", "--json"]),
        (">/dev/full", "", ["documents"]),
        (">/dev/full", "1", ["show", "x", "--json"]),
        (">/dev/full", "", ["--help"]),
    ],
)
def test_output_that_cannot_be_written_is_said_once(
    home: Path, how: str, unbuffered: str, argv: list[str]
) -> None:
    ran = redirected(home, how, *argv, PYTHONUNBUFFERED=unbuffered)
    assert (ran.code, ran.out) == (1, "")
    said = [line for line in ran.err.splitlines() if line.startswith("Standard output ")]
    rest = [line for line in ran.err.splitlines() if line not in said]
    assert len(said) == 1
    assert said[0].endswith(".")
    assert all(line.startswith("There is no document x") for line in rest)


@pytest.mark.parametrize("how", ["2>&-", "2>/dev/full"])
def test_nobody_to_hear_complaints_changes_no_result(home: Path, how: str) -> None:
    shown = redirected(home, how, "show", "nobody", "--json")
    assert shown.code == 1
    assert "nobody" in shown.json["error"]
    wrong = redirected(home, how, "frobnicate", PYTHONUNBUFFERED="")
    assert (wrong.code, wrong.out) == (2, "")


@pytest.mark.parametrize("how", ["<&- >&- 2>&-", ">/dev/full 2>&1"])
def test_nothing_to_write_to_at_all_is_an_exit_code(home: Path, how: str) -> None:
    assert redirected(home, how, "documents", "--json") == Ran(1, "", "")


# failures of the library


def test_a_question_before_any_document(home: Path) -> None:
    for command in ("search", "ask", "compare"):
        ran = run(home, command, "Why?", "--json")
        assert ran.code == 1
        assert "Add" in ran.json["error"] or "add" in ran.json["error"]


def test_chunk_settings_that_do_not_fit(filled: Filled, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("The heron.")
    too_long = ["--collection", "New", "--chunk-tokens", "100000"]
    other = ["--collection", "API guide", "--chunk-tokens", "32"]
    for more in (too_long, other):
        ran = run(filled.home, "add", tmp_path / "a.txt", *more, "--json")
        assert ran.code == 1
        assert ran.json["error"].endswith(".")
    same = ["--collection", "API guide", "--chunk-tokens", "16"]
    known = filled.home.parent / "api-guide.md"
    assert run(filled.home, "add", known, *same, "--json").json["documents"][0]["status"] == (
        "unchanged"
    )


def test_a_home_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    ran = run(tmp_path / "file" / "home", "documents", "--json")
    assert ran.code == 1
    assert str(tmp_path / "file" / "home") in ran.json["error"]
    assert "--home" in ran.json["error"]


HOLD = """
import sys
from rag.compose import open_library
from rag.settings import load_settings
with open_library(load_settings()):
    print("open", flush=True)
    sys.stdin.read()
"""


def hold(home: Path) -> subprocess.Popen[str]:
    """A process that has the library open until its standard input closes."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "FENESTRA_HOME": str(home)},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "open\n"
    return process


@pytest.fixture
def held(filled: Filled) -> Iterator[subprocess.Popen[str]]:
    """A process that has the filled library open."""
    process = hold(filled.home)
    yield process
    process.communicate("", timeout=60)


def test_a_second_process_is_told_who_holds_the_library(
    filled: Filled, held: subprocess.Popen[str]
) -> None:
    for argv in (["documents"], ["search", "Why?"], ["add", filled.folder], ["rebuild"]):
        ran = run(filled.home, *argv, "--json")
        assert ran.code == 1
        assert f"process {held.pid}" in ran.json["error"]


def test_serve_says_that_the_port_is_taken(home: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        ran = run(home, "serve", "--port", str(port))
    assert ran.code == 1
    assert f"Port {port}" in ran.err
    assert "--port" in ran.err


@pytest.mark.parametrize("below", ["", "home"])
def test_serve_on_a_home_that_is_a_file_serves_nothing(tmp_path: Path, below: str) -> None:
    (tmp_path / "file").write_text("not a folder")
    ran = run(tmp_path / "file" / below, "serve", "--port", "0")
    assert (ran.code, ran.out) == (1, "")
    assert str(tmp_path / "file" / below) in ran.err
    assert "is not a folder" in ran.err
    assert (tmp_path / "file").read_text() == "not a folder"


def test_serve_on_a_home_in_use_serves_nothing(filled: Filled, held: subprocess.Popen[str]) -> None:
    ran = run(filled.home, "serve", "--port", "0")
    assert (ran.code, ran.out) == (1, "")
    assert f"process {held.pid} (python, since " in ran.err


def test_who_holds_the_library_is_told_without_its_options(
    filled: Filled, server: ScriptedServer
) -> None:
    server.play = Play(gate=threading.Semaphore(2))
    process = start(filled.home, *ask_guide("ask"))
    while not server.requests:
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    ran = run(filled.home, "documents")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert f"process {process.pid} (python -m rag ask, since " in ran.err


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("python /opt/my/bin/fenestra --home h_dup2 serve", "fenestra"),
        ("python -X dev -m rag --home other add secret.txt", "python -m rag"),
        ("python -Xdev -Im rag --home other add secret.txt", "python -m rag"),
        ("python -mrag --home other add secret.txt", "python -m rag"),
        (
            "python -u -W ignore /opt/bin/streamlit run --server.port 1 app.py",
            "streamlit run app.py",
        ),
        ("python -m streamlit run ./there/app.py --x y", "python -m streamlit run app.py"),
        ("python -c print() secret.txt", "python"),
        ("python", "python"),
        ("", "python"),
    ],
)
def test_a_program_is_named_without_options_and_files(line: str, name: str) -> None:
    assert program(line.split(" ")) == name


def test_rebuild_finds_everything_again(filled: Filled) -> None:
    before = run(filled.home, *ask_guide("search")).json
    ran = run(filled.home, "rebuild", "--json")
    assert ran.code == 0, ran
    mine, guide = ran.json["collections"]
    assert mine == {
        "name": "My documents",
        "documents": len(filled.ready),
        "chunks": sum(row["chunks"] for row in filled.ready),
    }
    assert (guide["name"], guide["documents"]) == ("API guide", 1)
    after = run(filled.home, *ask_guide("search")).json
    assert after["passages"] == before["passages"]


# doctor


def diagnosed(home: Path) -> tuple[Ran, dict[str, dict[str, str]]]:
    ran = run(home, "doctor", "--json")
    assert list(ran.json) == ["checks"]
    for check in ran.json["checks"]:
        assert list(check) == ["name", "status", "detail", "advice"]
        assert check["status"] in {"ok", "warn", "fail"}
        assert check["detail"].endswith(".")
        assert bool(check["advice"]) == (check["status"] != "ok")
        if check["advice"]:
            assert check["advice"].endswith(".")
    failed = any(check["status"] == "fail" for check in ran.json["checks"])
    assert ran.code == (1 if failed else 0)
    return ran, {check["name"]: check for check in ran.json["checks"]}


def test_doctor_finds_all_well_and_changes_nothing(filled: Filled, server: ScriptedServer) -> None:
    before = snapshot(filled.home)
    _, checks = diagnosed(filled.home)
    assert {check["status"] for check in checks.values()} == {"ok"}
    assert list(checks) == [
        *("python", "sqlite", "settings", "home", "lock", "disk home", "disk cache"),
        *("catalog", "index", "embedding model", "language model"),
    ]
    assert "plain" in checks["language model"]["detail"]
    assert snapshot(filled.home) == before
    text = run(filled.home, "doctor")
    assert text.code == 0
    assert text.out.count("\n") == len(checks)


def test_doctor_before_the_first_use_makes_nothing(home: Path, server: ScriptedServer) -> None:
    _, checks = diagnosed(home)
    assert {check["status"] for check in checks.values()} == {"ok"}
    assert not home.exists()


def test_doctor_beside_a_process_that_has_the_library_open(
    filled: Filled, held: subprocess.Popen[str], server: ScriptedServer
) -> None:
    ran, checks = diagnosed(filled.home)
    assert ran.code == 0
    assert checks["lock"]["status"] == checks["index"]["status"] == "warn"
    assert f"process {held.pid}" in checks["lock"]["detail"]
    assert checks["catalog"]["status"] == "ok"


@pytest.fixture
def small(home: Path, tmp_path: Path, server: ScriptedServer) -> Path:
    """A library with one document, to be broken."""
    (tmp_path / "a.txt").write_text(API_GUIDE)
    assert run(home, "add", tmp_path / "a.txt").code == 0
    return home


def test_doctor_on_a_damaged_catalog(small: Path) -> None:
    catalog = small / "catalog.sqlite"
    catalog.write_bytes(b"this is no database " * 500)
    before = snapshot(small)
    ran, checks = diagnosed(small)
    assert ran.code == 1
    assert checks["catalog"]["status"] == "fail"
    assert checks["index"]["status"] == "warn"
    assert snapshot(small) == before


def test_doctor_on_a_damaged_index(small: Path) -> None:
    (database,) = small.glob("chroma/*/chroma.sqlite3")
    database.write_bytes(b"this is no database " * 500)
    before = snapshot(small)
    ran, checks = diagnosed(small)
    assert ran.code == 1
    assert checks["index"]["status"] == "fail"
    assert "rebuil" in checks["index"]["advice"]
    assert snapshot(small) == before
    assert run(small, "search", QUESTION, "--json").json["hits"]
    assert diagnosed(small)[1]["index"]["status"] == "ok"


def put_folder(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.mkdir()


def put_file(path: Path) -> None:
    shutil.rmtree(path)
    path.write_text("not a folder")


def put_dangling_link(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to("gone")


def put_pipe(path: Path) -> None:
    path.unlink(missing_ok=True)
    os.mkfifo(path)


@pytest.mark.parametrize(
    ("check", "where", "put", "said"),
    [
        ("index", "chroma", put_file, "is not a folder."),
        ("index", "chroma/current", put_dangling_link, "is a link that leads nowhere."),
        ("index", "chroma/current", put_folder, "is a folder, not a file."),
        ("index", "chroma/other", put_dangling_link, "cannot be read."),
        ("index", "chroma/other", put_pipe, "cannot be read."),
        ("lock", "lock", put_folder, "is a folder, not a file."),
        ("lock", "lock", put_dangling_link, "is a link that leads nowhere."),
        ("lock", "owner.json", put_folder, "is a folder, not a file."),
        ("catalog", "catalog.sqlite", put_folder, "is a folder, not a file."),
        ("catalog", "catalog.sqlite", put_dangling_link, "is a link that leads nowhere."),
        ("catalog", "catalog.sqlite", put_pipe, "is not a regular file."),
    ],
)
def test_doctor_on_what_stands_in_the_place_of_something_else(
    check: str, where: str, put: Callable[[Path], None], said: str, small: Path
) -> None:
    put(small / where)
    before = snapshot(small)
    ran, checks = diagnosed(small)
    assert ran.code == 1
    found = checks[check]
    assert (found["status"], found["detail"]) == ("fail", f"{small / where} {said}")
    assert "move" in found["advice"].lower()
    assert {name for name, one in checks.items() if one["status"] == "fail"} == {check}
    assert snapshot(small) == before


def test_doctor_on_what_the_system_refuses(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(small / "lock"))

    monkeypatch.setattr("rag.doctor.library.is_open", refused)
    _, checks = diagnosed(small)
    assert checks["lock"]["status"] == "fail"
    assert checks["lock"]["detail"] == (
        f"The system refused to open {small / 'lock'}: Permission denied."
    )


def test_doctor_on_an_index_that_lacks_vectors(small: Path) -> None:
    from rag.adapters.catalog_sql.read_only import ReadOnlyCatalog
    from rag.adapters.chroma_index import ChromaIndex

    with ReadOnlyCatalog(f"sqlite:///{small / 'catalog.sqlite'}") as catalog:
        (collection,) = catalog.reading.collections("local")
    index = ChromaIndex.open(small / "chroma")
    index.drop(collection.space)
    index.close()
    ran, checks = diagnosed(small)
    assert ran.code == 1
    assert checks["index"]["status"] == "fail"


def test_doctor_on_a_newer_catalog(small: Path) -> None:
    with contextlib.closing(sqlite3.connect(small / "catalog.sqlite")) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = 'from the future'")
    ran, checks = diagnosed(small)
    assert ran.code == 1
    assert checks["catalog"]["status"] == "fail"
    assert "Update" in checks["catalog"]["advice"]
    assert checks["index"]["status"] == "warn"


def test_doctor_on_a_document_that_was_cut_off(small: Path) -> None:
    with contextlib.closing(sqlite3.connect(small / "catalog.sqlite")) as connection, connection:
        connection.execute("UPDATE documents SET status = 'deleting'")
    ran, checks = diagnosed(small)
    assert ran.code == 0
    assert checks["catalog"]["status"] == "warn"
    assert "0 documents are ready, 1 are half way" in checks["catalog"]["detail"]
    assert run(small, "documents", "--json").json == {"documents": []}


def test_doctor_after_a_process_was_killed(small: Path) -> None:
    process = hold(small)
    process.kill()
    process.communicate(timeout=60)
    ran, checks = diagnosed(small)
    assert ran.code == 0
    assert {check["status"] for check in checks.values()} == {"ok"}


def test_doctor_on_settings_that_are_wrong(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret—12345")
    ran, checks = diagnosed(home)
    assert ran.code == 1
    assert checks["language model"]["status"] == "fail"
    assert "OPENAI_API_KEY" in checks["language model"]["advice"]
    assert "secret" not in ran.out + ran.err
    monkeypatch.setenv("FENESTRA_ANSWER_TIMEOUT", "soon")
    ran, checks = diagnosed(home)
    assert ran.code == 1
    assert checks["settings"]["status"] == "fail"
    assert "FENESTRA_ANSWER_TIMEOUT" in checks["settings"]["detail"]
    assert "secret" not in ran.out + ran.err


def test_doctor_on_a_home_that_is_a_file(tmp_path: Path, server: ScriptedServer) -> None:
    (tmp_path / "file").write_text("not a folder")
    for home in (tmp_path / "file", tmp_path / "file" / "home"):
        ran, checks = diagnosed(home)
        assert ran.code == 1
        assert checks["home"]["status"] == "fail"


def test_doctor_on_an_endpoint_that_refuses(home: Path, server: ScriptedServer) -> None:
    server.play = PLAYS["status-401"]
    ran, checks = diagnosed(home)
    assert ran.code == 1
    assert checks["language model"]["status"] == "fail"
    assert "OPENAI_API_KEY" in checks["language model"]["advice"]


def test_doctor_on_models_that_are_not_there(
    home: Path, server: ScriptedServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("FENESTRA_EMBEDDING_MODEL", "nobody/no-such-model")
    assert diagnosed(home)[1]["embedding model"]["status"] == "warn"
    monkeypatch.setenv("FENESTRA_EMBEDDING_MODEL", str(tmp_path))
    assert diagnosed(home)[1]["embedding model"]["status"] == "fail"


def test_doctor_on_the_embedded_language_model(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL")
    cache = tmp_path / "cache"
    monkeypatch.setenv("FENESTRA_CACHE", str(cache))
    assert diagnosed(home)[1]["language model"]["status"] == "ok"
    assert not cache.exists()
    joined = cache / "models" / QWEN.file_name
    joined.parent.mkdir(parents=True)
    joined.write_bytes(b"GGUF and nothing else")
    damaged = diagnosed(home)[1]["language model"]
    assert damaged["status"] == "warn"
    assert str(joined) in damaged["detail"]
    monkeypatch.setenv("FENESTRA_GGUF", str(joined))
    assert diagnosed(home)[1]["language model"]["status"] == "ok"
    monkeypatch.setenv("FENESTRA_GGUF", str(tmp_path / "missing.gguf"))
    missing = diagnosed(home)[1]["language model"]
    assert missing["status"] == "fail"
    assert "FENESTRA_GGUF" in missing["advice"]
    assert snapshot(cache) == {"models": b"", f"models/{QWEN.file_name}": b"GGUF and nothing else"}
