"""What asking tells, event by event, with scripted models."""

from __future__ import annotations

import threading

import pytest

from rag.answering import WAITING, Answerer, repeated
from rag.domain import (
    AskEvent,
    Context,
    Failed,
    Finished,
    Message,
    Notice,
    Passage,
    Progress,
    Retrieved,
    Strategy,
    Token,
)
from rag.errors import ModelUnavailable
from rag.testing import Reply, ScriptedChat


def context(tokens: int = 5) -> Context:
    passage = Passage(1, "d", "Guide", 0, 0, (0,), 0, 4, "text", tokens, 2, 2, None, 1.0, ())
    messages = (Message("system", "Be brief."), Message("user", "text\n\nQuestion: Why?"))
    return Context("Why?", Strategy.WINDOW, 4, (), (passage,), messages, tokens, ())


def answerer(
    chat: ScriptedChat, prices: tuple[float, float] | None = None, max_tokens: int = 50
) -> Answerer:
    return Answerer(chat, max_tokens=max_tokens, temperature=0.0, prices=prices)


def text(events: list[AskEvent]) -> str:
    return "".join(event.text for event in events if isinstance(event, Token))


def test_tokens_then_the_answer_with_its_figures() -> None:
    chat = ScriptedChat("It is so [1], they say [7].")
    events = list(answerer(chat, prices=(2.0, 10.0)).answer(context()))
    assert isinstance(events[0], Progress)
    finished = events[-1]
    assert isinstance(finished, Finished)
    answer = finished.answer
    assert text(events) == answer.text == "It is so [1], they say [7]."
    assert [(c.number, c.title, c.page) for c in answer.citations] == [(1, "Guide", 2)]
    assert answer.finish == "stop"
    assert answer.usage.prompt_tokens
    assert answer.usage.completion_tokens
    assert answer.cost == pytest.approx(
        (answer.usage.prompt_tokens * 2 + answer.usage.completion_tokens * 10) / 1e6
    )
    assert answer.first_token_seconds is not None
    assert 0 <= answer.first_token_seconds <= answer.total_seconds
    assert chat.calls == [context().messages]


def test_without_prices_or_usage_there_is_no_cost() -> None:
    for chat, prices in (
        (ScriptedChat("x"), None),
        (ScriptedChat(Reply("x", usage=False)), (1, 1)),
    ):
        finished = list(answerer(chat, prices).answer(context()))[-1]
        assert isinstance(finished, Finished)
        assert finished.answer.cost is None


def test_a_model_that_fails_before_any_text() -> None:
    chat = ScriptedChat(Reply(error=ModelUnavailable("Nobody there. Start it.")))
    assert list(answerer(chat).answer(context()))[-1] == Failed("Nobody there. Start it.", "")


def test_an_answer_that_breaks_off_is_kept_and_marked() -> None:
    events = list(answerer(ScriptedChat(Reply("one two three", cut=2))).answer(context()))
    finished = events[-1]
    assert isinstance(finished, Finished)
    assert (finished.answer.text, finished.answer.finish) == ("one two ", "incomplete")
    assert any(isinstance(e, Notice) and "broke off" in e.message for e in events)


def test_an_answer_at_its_limit_says_which_setting_to_raise() -> None:
    events = list(answerer(ScriptedChat("one two three four"), max_tokens=3).answer(context()))
    assert any(isinstance(e, Notice) and "FENESTRA_MAX_ANSWER_TOKENS" in e.message for e in events)


def test_an_empty_answer_is_explained() -> None:
    events = list(answerer(ScriptedChat("")).answer(context()))
    assert any(isinstance(e, Notice) and "no text" in e.message for e in events)


def test_a_server_that_cuts_prompts_is_noticed() -> None:
    events = list(answerer(ScriptedChat("short")).answer(context(tokens=2000)))
    assert any(isinstance(e, Notice) and "cut prompts" in e.message for e in events)


def test_closing_stops_the_model() -> None:
    chat = ScriptedChat("one two three four five")
    events = answerer(chat).answer(context())
    for event in events:
        if isinstance(event, Token):
            break
    events.close()
    assert chat.closed_early == 1


@pytest.mark.parametrize("parallel", [True, False])
def test_both_sides_answer_and_one_failing_leaves_the_other(parallel: bool) -> None:
    chat = ScriptedChat(
        Reply(error=ModelUnavailable("Down. Start it.")), "Fine.", parallel=parallel
    )
    events = list(answerer(chat).compare(context(), context(6)))
    last = dict(events)
    kinds = sorted(type(event).__name__ for event in last.values())
    assert kinds == ["Failed", "Finished"]
    retrieved = {side: e.context.token_count for side, e in events if isinstance(e, Retrieved)}
    assert retrieved == {"left": 5, "right": 6}


def test_in_parallel_the_tokens_of_both_sides_interleave() -> None:
    gate = threading.Semaphore(0)
    chat = ScriptedChat(Reply("a b c", gate=gate), Reply("d e f", gate=gate))
    sides: list[str] = []
    for side, event in answerer(chat).compare(context(), context()):
        if isinstance(event, Progress) and event.message.startswith("scripted is reading"):
            sides.append(side)
            if len(sides) == 2:
                for _ in range(6):
                    gate.release()
    assert sorted(sides) == ["left", "right"], "the second side started before the first ended"


def test_in_turn_the_second_side_says_that_it_waits() -> None:
    gate = threading.Semaphore(0)
    chat = ScriptedChat(Reply("a b", gate=gate), "done", parallel=False)
    asked = answerer(chat)
    first = asked.answer(context())
    assert not isinstance(next(first), Finished)
    second = asked.answer(context())
    assert next(second) == Progress(WAITING)
    assert len(chat.calls) == 0
    gate.release(2)
    assert isinstance(list(first)[-1], Finished)
    rest = list(second)
    assert isinstance(rest[-1], Finished)
    assert text(rest) == "done"


def test_a_side_that_is_closed_lets_the_next_have_its_turn() -> None:
    chat = ScriptedChat("never ending story", "done", parallel=False)
    asked = answerer(chat)
    first = asked.answer(context())
    next(first)
    first.close()
    assert isinstance(list(asked.answer(context()))[-1], Finished)


def test_a_model_that_repeats_itself_is_stopped() -> None:
    loop = "Within 28 days after the keys have been returned. "
    chat = ScriptedChat("It is paid back. " + loop * 100)
    events = list(answerer(chat, max_tokens=5000).answer(context()))
    finished = events[-1]
    assert isinstance(finished, Finished)
    assert finished.answer.text.strip() == f"It is paid back. {loop}".strip()
    assert finished.answer.finish == "repetition"
    assert chat.closed_early == 1
    assert any(isinstance(e, Notice) and "repeat" in e.message for e in events)


@pytest.mark.parametrize(
    "tail", ["-" * 400, "| --- | --- |" * 30, "abc" * 9, "One. Two. " * 2 + "Three.", "", "a" * 30]
)
def test_rules_and_short_repetition_go_on(tail: str) -> None:
    assert repeated(tail) == 0
