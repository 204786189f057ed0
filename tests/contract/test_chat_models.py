"""One behaviour for all chat models: the double, any server over HTTP, the embedded model."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import closing

import psutil
import pytest

from rag.adapters.embedded_llm import EmbeddedChat
from rag.adapters.openai_chat import OpenAIChat
from rag.domain import Message, Passage, Progress, StreamEnd, TextDelta
from rag.errors import ContextTooLong, ModelUnavailable
from rag.ports import ChatModel
from rag.prompt import build_messages
from rag.settings import Settings
from rag.testing import ScriptedChat
from rag.testing_server import PLAYS, ScriptedServer

WINDOW = (
    "All API requests require authentication. Generate a bearer token from your dashboard under "
    "Settings > API Keys. Use the bearer token in the Authorization header. Tokens expire after "
    "90 days and should be rotated regularly."
)
MATCH = "Use the bearer token in the Authorization header."
QUESTION = "Where do I get the token and how long is it valid?"
GREETING = (Message("system", "Answer in one short sentence."), Message("user", "Say hello."))
LONG = (Message("user", "Count from 1 to 100000, one number per line, without stopping."),)


@pytest.fixture(scope="module")
def embedded() -> Iterator[EmbeddedChat]:
    """The real model, its file joined once per machine in the user's cache."""
    chat = EmbeddedChat(cache=Settings().cache, gguf=None, timeout=300)
    chat.start()
    yield chat
    chat.close()


@pytest.fixture(params=["scripted", "openai", "embedded"])
def model(request: pytest.FixtureRequest) -> Iterator[ChatModel]:
    """Each chat model in turn, ready to answer."""
    chat: ChatModel
    if request.param == "embedded":
        chat = request.getfixturevalue("embedded")
        list(chat.wait_ready())
        yield chat
    elif request.param == "scripted":
        yield ScriptedChat()
    else:
        with ScriptedServer(PLAYS["quote"]) as server:
            chat = OpenAIChat(base_url=server.url, api_key=None, model=None, timeout=30)
            yield chat
            chat.close()


def ask(
    chat: ChatModel, messages: tuple[Message, ...], max_tokens: int = 40
) -> tuple[str, StreamEnd]:
    """The whole answer and how it ended."""
    events = list(chat.stream(messages, max_tokens=max_tokens, temperature=0.0))
    end = events[-1]
    assert isinstance(end, StreamEnd)
    assert not any(isinstance(event, StreamEnd) for event in events[:-1])
    return "".join(event.text for event in events if isinstance(event, TextDelta)), end


def sources(text: str) -> tuple[Message, ...]:
    passage = Passage(
        1, "d", "API guide", 0, 0, (0,), 0, len(text), text, 40, None, None, None, 1.0, ()
    )
    return build_messages(QUESTION, [passage])


def test_text_then_one_end_with_figures(model: ChatModel) -> None:
    text, end = ask(model, GREETING)
    assert text.strip()
    assert end.finish == "stop"
    assert end.model
    assert end.usage.prompt_tokens is not None
    assert end.usage.completion_tokens is not None
    assert 0 < end.usage.completion_tokens <= 40


def test_no_delta_is_empty(model: ChatModel) -> None:
    events = list(model.stream(GREETING, max_tokens=10, temperature=0.0))
    assert all(event.text for event in events if isinstance(event, TextDelta))


def test_the_limit_is_kept_and_said(model: ChatModel) -> None:
    text, end = ask(model, LONG, max_tokens=5)
    assert text
    assert end.finish == "length"
    assert end.usage.completion_tokens == 5


def test_the_same_prompt_gives_the_same_answer(model: ChatModel) -> None:
    first, _ = ask(model, GREETING)
    ask(model, LONG, max_tokens=3)
    assert ask(model, GREETING)[0] == first


def test_longer_prompts_count_more_tokens(model: ChatModel) -> None:
    _, short = ask(model, (Message("user", "Hello."),), 2)
    _, longer = ask(model, (Message("user", "Hello. " * 20),), 2)
    assert short.usage.prompt_tokens is not None
    assert longer.usage.prompt_tokens is not None
    assert longer.usage.prompt_tokens > short.usage.prompt_tokens


def test_after_closing_a_stream_the_next_question_is_answered(model: ChatModel) -> None:
    with closing(model.stream(LONG, max_tokens=400, temperature=0.0)) as events:
        assert any(isinstance(event, TextDelta) for event in events)
    assert ask(model, GREETING)[0]


def test_a_stream_closed_before_its_start_does_nothing(model: ChatModel) -> None:
    with closing(model.stream(LONG, max_tokens=400, temperature=0.0)):
        pass
    assert ask(model, GREETING)[0]


@pytest.mark.parametrize(
    "text", ['Is {"a": 1} {x} {{y}} %s {context} JSON?', "odd \ud83d half", "null \x00 inside"]
)
def test_any_text_may_be_sent(model: ChatModel, text: str) -> None:
    assert ask(model, (Message("user", text),), 5)[0]


def test_two_at_once_are_both_answered(model: ChatModel) -> None:
    answers: list[tuple[str, StreamEnd]] = []
    threads = [
        threading.Thread(target=lambda: answers.append(ask(model, GREETING, 10))) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [bool(text) for text, _ in answers] == [True, True]


def test_getting_ready_twice_and_saying_who_it_is(model: ChatModel) -> None:
    model.start()
    model.start()
    assert all(isinstance(event, Progress) for event in model.wait_ready())
    assert all(event.fraction is None or 0 <= event.fraction <= 1 for event in model.wait_ready())
    assert model.name
    details = model.check()
    assert details["address"]
    assert details["model"] == model.name
    assert model.parallel in (True, False)


def test_embedded_answers_from_the_window_and_not_from_the_match_alone(
    embedded: EmbeddedChat,
) -> None:
    """The example that the product is about."""
    windowed, _ = ask(embedded, sources(WINDOW), 120)
    assert "Settings > API Keys" in windowed
    assert "90 days" in windowed
    alone, _ = ask(embedded, sources(MATCH), 120)
    assert "90 days" not in alone
    assert "API Keys" not in alone


def test_embedded_reports_how_far_it_has_read(embedded: EmbeddedChat) -> None:
    prompt = (Message("user", f"{WINDOW} " * 6 + "How long is a token valid?"),)
    events = list(embedded.stream(prompt, max_tokens=3, temperature=0.0))
    read = [event.fraction for event in events if isinstance(event, Progress) and event.fraction]
    assert read == sorted(read)
    assert read[-1] == 1.0


def test_embedded_stops_working_when_a_stream_is_closed(embedded: EmbeddedChat) -> None:
    with closing(embedded.stream(LONG, max_tokens=7000, temperature=0.0)) as events:
        next(event for event in events if isinstance(event, TextDelta))
    _wait_until_idle(embedded)
    with closing(embedded.stream(LONG, max_tokens=7000, temperature=0.0)) as events:
        next(events)
    _wait_until_idle(embedded)


def test_embedded_says_when_a_prompt_is_too_long(embedded: EmbeddedChat) -> None:
    with pytest.raises(ContextTooLong, match=r"does not fit.*Choose fewer chunks"):
        ask(embedded, (Message("user", "word " * 9000),))


def test_embedded_refuses_strangers(embedded: EmbeddedChat) -> None:
    address = embedded.check()["address"].split()[0]
    stranger = OpenAIChat(base_url=f"{address}/v1", api_key="guess", model="m", timeout=30)
    with pytest.raises(ModelUnavailable, match="does not accept the key"):
        ask(stranger, GREETING)
    stranger.close()


def _wait_until_idle(chat: EmbeddedChat) -> None:
    """Return once the model's process uses no time; 7,000 tokens would keep it busy for long."""
    assert chat.pid is not None
    process = psutil.Process(chat.pid)
    while True:
        before = process.cpu_times()
        time.sleep(0.5)
        after = process.cpu_times()
        if after.user + after.system - before.user - before.system < 0.1:
            return
