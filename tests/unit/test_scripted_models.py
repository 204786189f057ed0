"""The doubles themselves: a chat model and a server that do as they are told."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import urllib.request
from contextlib import closing

import pytest

from rag.domain import Message, Progress, StreamEnd, TextDelta, Usage
from rag.errors import ModelTimeout, ModelUnavailable
from rag.testing import Reply, ScriptedChat
from rag.testing_chat import quote, split_tokens

MESSAGES = (Message("system", "Be brief."), Message("user", "How long is it?"))


def text(chat: ScriptedChat, max_tokens: int = 50) -> str:
    events = chat.stream(MESSAGES, max_tokens=max_tokens, temperature=0.0)
    return "".join(event.text for event in events if isinstance(event, TextDelta))


@pytest.mark.parametrize("words", ["", " ", "a", " a  b\n\nc ", "日本語 です", "\n"])
def test_tokens_rebuild_the_text(words: str) -> None:
    assert "".join(split_tokens(words)) == words


def test_replies_come_in_turn_and_the_last_one_stays() -> None:
    chat = ScriptedChat("one", lambda messages: messages[-1].content, Reply("three"))
    assert [text(chat) for _ in range(4)] == ["one", "How long is it?", "three", "three"]
    assert chat.calls == [MESSAGES] * 4
    assert chat.closed_early == 0


def test_without_replies_it_quotes_what_it_was_sent() -> None:
    assert text(ScriptedChat()) == quote(MESSAGES) == "How long is it? [1]"


def test_an_error_comes_before_any_text() -> None:
    chat = ScriptedChat(Reply(error=ModelTimeout("Too slow. Try again.")), "well")
    with pytest.raises(ModelTimeout, match="Too slow"):
        text(chat)
    assert text(chat) == "well"
    with pytest.raises(ModelUnavailable):
        text(ScriptedChat(Reply("never", cut=0)))


@pytest.mark.parametrize(
    ("reply", "limit", "end"),
    [
        (Reply("a b c"), 3, StreamEnd("stop", Usage(6, 3), "scripted")),
        (Reply("a b c"), 2, StreamEnd("length", Usage(6, 2), "scripted")),
        (Reply("a b c", cut=2), 9, StreamEnd("incomplete", Usage(None, None), "scripted")),
        (Reply("a b c", cut=3), 9, StreamEnd("stop", Usage(6, 3), "scripted")),
        (Reply("a b c", usage=False), 9, StreamEnd("stop", Usage(None, None), "scripted")),
        (Reply(""), 9, StreamEnd("stop", Usage(6, 0), "scripted")),
    ],
)
def test_how_a_stream_ends(reply: Reply, limit: int, end: StreamEnd) -> None:
    assert list(ScriptedChat(reply).stream(MESSAGES, max_tokens=limit, temperature=0.0))[-1] == end


def test_a_gate_decides_when_words_come() -> None:
    gate = threading.Semaphore(1)
    chat = ScriptedChat(Reply("one two", gate=gate))
    events = chat.stream(MESSAGES, max_tokens=9, temperature=0.0)
    assert next(events) == TextDelta("one ")
    assert isinstance(next(events), Progress)
    gate.release()
    assert [e for e in events if isinstance(e, TextDelta)] == [TextDelta("two")]


def test_streams_closed_early_are_counted() -> None:
    chat = ScriptedChat("one two three", parallel=False, name="other")
    with closing(chat.stream(MESSAGES, max_tokens=9, temperature=0.0)) as events:
        assert next(events) == TextDelta("one ")
    assert chat.closed_early == 1
    assert (chat.parallel, chat.name) == (False, "other")


def test_the_server_serves_from_a_process_of_its_own() -> None:
    command = [sys.executable, "-m", "rag.testing_server"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().strip()
            with urllib.request.urlopen(f"{url}/models", timeout=30) as answer:
                names = [model["id"] for model in json.load(answer)["data"]]
        finally:
            process.kill()
    assert {"quote", "slow", "cut", "status-401", "context-length"} <= set(names)
