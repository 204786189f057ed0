"""What servers do to a client: every quirk and every failure, over real HTTP on loopback."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from typing import Any

import pytest

from rag.adapters.openai_chat import OpenAIChat
from rag.domain import Message, Progress, StreamEnd, TextDelta, Usage
from rag.errors import ContextTooLong, ModelError, ModelTimeout, ModelUnavailable
from rag.testing_chat import split_tokens
from rag.testing_plays import GREETING, PLAYS, Play
from rag.testing_server import ScriptedServer

KEY = "sk-proj-4f9aQ7zX2mW8"
MESSAGES = (Message("system", "Be brief."), Message("user", "How long?"))
WORDS = split_tokens(GREETING)


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(models=tuple(PLAYS)) as running:
        yield running


@pytest.fixture
def connect(server: ScriptedServer) -> Iterator[Callable[..., OpenAIChat]]:
    chats: list[OpenAIChat] = []

    def new(model: str | None = "plain", key: str | None = KEY, **more: Any) -> OpenAIChat:
        options = {"base_url": server.url, "timeout": 30.0, **more}
        chats.append(OpenAIChat(api_key=key, model=model, **options))
        return chats[-1]

    yield new
    for chat in chats:
        chat.close()
        chat.close()


Connect = Callable[..., OpenAIChat]


def ask(chat: OpenAIChat, max_tokens: int = 50) -> tuple[str, StreamEnd]:
    events = list(chat.stream(MESSAGES, max_tokens=max_tokens, temperature=0.0))
    end = events[-1]
    assert isinstance(end, StreamEnd)
    return "".join(event.text for event in events if isinstance(event, TextDelta)), end


@pytest.mark.parametrize(
    ("play", "text", "finish", "usage"),
    [
        ("plain", GREETING, "stop", Usage(4, 14)),
        ("empty-first", GREETING, "stop", Usage(4, 14)),
        ("null-content", GREETING, "stop", Usage(4, 14)),
        ("usage-with-finish", GREETING, "stop", Usage(4, 14)),
        ("no-usage", GREETING, "stop", Usage(None, None)),
        ("reasoning", GREETING, "stop", Usage(4, 14)),
        ("only-reasoning", "", "stop", Usage(4, 0)),
        ("length", GREETING, "length", Usage(4, 14)),
        ("no-finish", GREETING, "incomplete", Usage(None, None)),
        ("cut", "".join(WORDS[:5]), "incomplete", Usage(None, None)),
        ("error-midway", "".join(WORDS[:5]), "incomplete", Usage(None, None)),
        ("no-stream-options", GREETING, "stop", Usage(None, None)),
        ("no-max-tokens", GREETING, "stop", Usage(4, 14)),
    ],
)
def test_answers_of_all_kinds(
    connect: Connect, play: str, text: str, finish: str, usage: Usage
) -> None:
    assert ask(connect(play)) == (text, StreamEnd(finish, usage, play))


@pytest.mark.parametrize(
    ("play", "kind", "words"),
    [
        ("status-401", ModelUnavailable, "does not accept the key. Check OPENAI_API_KEY"),
        ("status-403", ModelUnavailable, "does not accept the key. Check OPENAI_API_KEY"),
        ("status-404", ModelUnavailable, "no model status-404. It offers: plain, quote"),
        ("status-429", ModelUnavailable, "Try again in 60 seconds"),
        ("no-quota", ModelUnavailable, "no quota left"),
        ("status-500", ModelUnavailable, r"status 500 \(internal error\). Try again"),
        ("status-503", ModelUnavailable, r"status 503 \(Loading model\). Try again"),
        ("context-length", ContextTooLong, "Choose fewer chunks or a smaller window"),
        ("cut-at-once", ModelUnavailable, "broke off before the first word. Ask again"),
        ("error-first", ModelUnavailable, r"\(the machine is out of memory\). Ask again"),
        ("web-page", ModelUnavailable, "not a chat answer. Check OPENAI_BASE_URL"),
    ],
)
def test_failures_before_any_text(
    connect: Connect, server: ScriptedServer, play: str, kind: type[ModelError], words: str
) -> None:
    with pytest.raises(ModelError, match=words) as caught:
        ask(connect(play))
    assert type(caught.value) is kind
    assert str(caught.value).endswith(".")
    assert "sk-" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_keep_alive_comments_are_no_sign_of_life(connect: Connect, server: ScriptedServer) -> None:
    with pytest.raises(ModelTimeout, match=r"limit is 0.5 seconds.*FENESTRA_ANSWER_TIMEOUT"):
        ask(connect("comments", timeout=0.5))
    assert server.client_left.acquire(timeout=30)


def test_an_answer_that_stalls_is_kept_and_marked(connect: Connect, server: ScriptedServer) -> None:
    server.play = Play(gate=threading.Semaphore(3))
    text, end = ask(connect(timeout=1.0))
    assert text == "".join(WORDS[:3])
    assert end.finish == "incomplete"


@pytest.mark.parametrize("tokens", [0, 2])
def test_closing_the_iterator_closes_the_connection(
    connect: Connect, server: ScriptedServer, tokens: int
) -> None:
    server.play = Play(gate=threading.Semaphore(tokens))
    with closing(connect().stream(MESSAGES, max_tokens=50, temperature=0.0)) as events:
        for _ in range(tokens + 1):
            next(events)
    assert server.client_left.acquire(timeout=30)


def test_the_reader_gets_a_turn_while_nothing_comes(
    connect: Connect, server: ScriptedServer
) -> None:
    gate = threading.Semaphore(0)
    server.play = Play(gate=gate)
    events = connect().stream(MESSAGES, max_tokens=50, temperature=0.0)
    assert next(events) == next(events) == Progress("Waiting for plain")
    gate.release(len(WORDS))
    assert [e.text for e in events if isinstance(e, TextDelta)] == WORDS


def test_closing_the_chat_ends_a_stream_that_is_read(
    connect: Connect, server: ScriptedServer
) -> None:
    server.play = Play(gate=threading.Semaphore(1))
    chat = connect()
    events = chat.stream(MESSAGES, max_tokens=50, temperature=0.0)
    assert next(events) == TextDelta(WORDS[0])
    chat.close()
    end = next(event for event in events if not isinstance(event, Progress))
    assert end == StreamEnd("incomplete", Usage(None, None), "plain")


def test_the_request_carries_what_was_asked(connect: Connect, server: ScriptedServer) -> None:
    text = 'Is {"a": 1} {x} {{y}} %s {context} right?'
    events = connect().stream([Message("user", text)], max_tokens=7, temperature=0.5)
    assert list(events)
    request = server.requests[-1]
    assert request["messages"] == [{"role": "user", "content": text}]
    assert request["max_tokens"] == 7
    assert request["temperature"] == 0.5
    assert server.headers[-1]["authorization"] == f"Bearer {KEY}"


def test_a_refused_field_is_left_out_from_then_on(connect: Connect, server: ScriptedServer) -> None:
    chat = connect("no-max-tokens")
    ask(chat)
    ask(chat)
    assert "max_tokens" in server.requests[0]
    assert server.requests[-1]["max_completion_tokens"] == 50
    assert "max_tokens" not in server.requests[-1]
    assert len(server.requests) == 4


def test_without_a_model_the_first_chat_model_is_asked_for_once(
    connect: Connect, server: ScriptedServer
) -> None:
    server.models = ("nomic-embed-text", "llama3.2:1b", "plain")
    chat = connect(model=None)
    assert "first model" in chat.name
    assert list(chat.wait_ready())
    assert chat.name == "llama3.2:1b"
    assert not list(chat.wait_ready())
    ask(chat)
    ask(chat)
    assert [request["model"] for request in server.requests] == ["llama3.2:1b"] * 2
    assert len(server.headers) == 3


@pytest.mark.parametrize("models", [(), None])
def test_a_server_without_models(
    connect: Connect, server: ScriptedServer, models: tuple[str, ...] | None
) -> None:
    server.models = models
    chat = connect(model=None)
    for attempt in (lambda: ask(chat), chat.check, lambda: list(chat.wait_ready())):
        with pytest.raises(ModelUnavailable, match=r"offers no model. Load one there"):
            attempt()
    assert connect("plain").check()["offered"] == "the server does not list its models"


def test_check_says_whom_it_talked_to(connect: Connect, server: ScriptedServer) -> None:
    details = connect("plain").check()
    assert details["address"] == server.url
    assert details["model"] == "plain"
    assert "quote" in details["offered"]
    with pytest.raises(ModelUnavailable, match="OPENAI_API_KEY"):
        connect("status-401").check()


def test_no_key_is_needed_where_none_is_asked_for(connect: Connect, server: ScriptedServer) -> None:
    assert ask(connect(key=None))[0] == GREETING
    server.key = KEY
    with pytest.raises(ModelUnavailable, match=r"wants a key. Set OPENAI_API_KEY"):
        ask(connect(key=None))


@pytest.mark.parametrize("model", ["plain", None])
def test_a_key_that_the_server_echoes_is_not_shown(
    connect: Connect, server: ScriptedServer, model: str | None
) -> None:
    server.key = "another"
    chat = connect(model)
    for attempt in (lambda: ask(chat), chat.check):
        with pytest.raises(ModelUnavailable) as caught:
            attempt()
        assert "4f9a" not in str(caught.value)
        assert "sk-" not in str(caught.value)


@pytest.mark.parametrize(
    "echo", [f"bad key {KEY}", f"bad key '{KEY}'.", "bad key sk-p***********mW8", f"bad {KEY[:9]}…"]
)
@pytest.mark.parametrize("play", [Play(status=400), Play(status=500), Play(error_after=0)])
def test_nothing_of_the_key_is_quoted(
    connect: Connect, server: ScriptedServer, play: Play, echo: str
) -> None:
    server.play = Play(
        status=play.status,
        error_after=play.error_after,
        message=f"Trouble: {echo}",
        headers={"x-should-retry": "false"},
    )
    with pytest.raises(ModelUnavailable, match="Trouble: bad") as caught:
        ask(connect())
    assert "sk-" not in str(caught.value)
    assert "mW8" not in str(caught.value)


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("http://127.0.0.1:9/v1", "Is the server running"),
        ("https://127.0.0.1:9/v1", "Is the server running"),
        ("localhost:11434/v1", "begins with http:// or https://"),
        ("ftp://127.0.0.1/v1", "begins with http:// or https://"),
        ("http://ex\u2014ample.invalid/v1", "begins with http:// or https://"),
        ("http://127.0.0.1/v1\x00", "begins with http:// or https://"),
        ("http://[", "begins with http:// or https://"),
        ("http://127.0.0.1:99999/v1", "begins with http:// or https://"),
    ],
)
@pytest.mark.parametrize("model", ["plain", None])
def test_addresses_where_nobody_is(
    connect: Connect, address: str, words: str, model: str | None
) -> None:
    chat = connect(model, base_url=address)
    for attempt in (lambda: ask(chat), chat.check):
        with pytest.raises(ModelUnavailable, match=words) as caught:
            attempt()
        assert "correct OPENAI_BASE_URL" in str(caught.value).replace("Correct", "correct")


def test_credentials_in_an_address_are_not_shown(connect: Connect, server: ScriptedServer) -> None:
    address = server.url.replace("http://", "http://user:s3cret@")
    details = connect(base_url=address).check()
    assert details["address"] == server.url


def test_a_proxy_in_the_environment_is_not_used_for_this_machine(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    assert ask(connect())[0] == GREETING


def test_a_short_retry_after_is_waited_for(connect: Connect, server: ScriptedServer) -> None:
    plays = iter([Play(status=429, headers={"Retry-After": "0"}), Play()])

    def in_turn(_: Mapping[str, Any]) -> Play:
        return next(plays)

    server.play = in_turn
    assert ask(connect())[0] == GREETING
    assert len(server.requests) == 2


def test_a_long_retry_after_is_left_to_the_user(connect: Connect, server: ScriptedServer) -> None:
    with pytest.raises(ModelUnavailable, match="60 seconds"):
        ask(connect("status-429"))
    assert len(server.requests) == 1


def test_one_stream_fails_and_the_other_goes_on(connect: Connect, server: ScriptedServer) -> None:
    good = connect("plain").stream(MESSAGES, max_tokens=50, temperature=0.0)
    assert next(good) == TextDelta(WORDS[0])
    with pytest.raises(ModelUnavailable):
        ask(connect("status-404"))
    assert [e.text for e in good if isinstance(e, TextDelta)] == WORDS[1:]


@pytest.mark.parametrize("key", ["sk-\u2014x", "sk-a\nb", "sk a"])
def test_a_key_with_an_illegal_character(key: str) -> None:
    with closing(OpenAIChat(base_url=None, api_key=key, model="m", timeout=1)) as chat:
        list(chat.wait_ready())
        with pytest.raises(ModelUnavailable, match="illegal character") as raised:
            ask(chat)
    assert key not in str(raised.value)


@pytest.mark.parametrize("key", [" sk-x", "sk-x\n"])
def test_space_around_a_key_is_taken_off(
    connect: Connect, server: ScriptedServer, key: str
) -> None:
    server.key = "sk-x"
    assert ask(connect(key=key))[0] == GREETING
