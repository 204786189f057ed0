"""Isolated chunks against chunk windows, on questions whose right answers are known.

Every question is asked from isolated chunks and from windows around the same hits, twice: at
equal hits, where the window side is sent more text, and at equal tokens, where both sides may
fill what the window side was sent at equal hits. A prompt that occurs more than once is asked
once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rag.domain import Answer, Context, Failed, Finished, Message, Strategy
from rag.errors import ModelError
from rag.evals.judge import is_right
from rag.evals.progress import Clock
from rag.evals.tally import Outcome, Row, tally
from rag.library import Library, Selection
from rag.samples import KINDS, SampleQuestion, sample_collections

WINDOW = 4
MODES = ("equal hits", "equal tokens")
Prompt = tuple[Message, ...]
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Pair:
    """What both sides are sent for one question in one mode."""

    question: SampleQuestion
    mode: str
    isolated: Context
    window: Context


def plan(library: Library, asked: Iterable[SampleQuestion]) -> list[Pair]:
    """Retrieve for every question and return its pairs, one for each of :data:`MODES`.

    The library must hold the sample collections.
    """
    top_n = {sample.name: sample.top_n for sample in sample_collections()}
    pairs = []
    for question in asked:
        hits = top_n[question.collection]
        at_hits = _pair(library, question, MODES[0], top_n=hits)
        at_tokens = _pair(library, question, MODES[1], budget=at_hits.window.token_count)
        pairs += [at_hits, at_tokens]
    return pairs


def _pair(
    library: Library,
    question: SampleQuestion,
    mode: str,
    top_n: int | None = None,
    budget: int | None = None,
) -> Pair:
    sides = library.pair(
        question.question,
        question.collection,
        Selection(Strategy.ISOLATED, top_n=top_n, budget=budget),
        Selection(Strategy.WINDOW, WINDOW, top_n=top_n, budget=budget),
    )
    return Pair(question, mode, *sides)


def ask_all(
    library: Library, pairs: Sequence[Pair], answers: dict[Prompt, Answer], say: Say
) -> None:
    """Ask every distinct prompt of ``pairs`` once.

    Args:
        answers: filled as the answers come, so that those before a failure are kept.
        say: told what is being done, and how long the rest will take.

    Raises:
        ModelError: the model gave no answer.
    """
    for progress in library.chat.wait_ready():
        say(progress.message)
    prompts = {side.messages: side for pair in pairs for side in (pair.isolated, pair.window)}
    clock = Clock(total=sum(_work(context) for context in prompts.values()))
    for number, (messages, context) in enumerate(prompts.items(), start=1):
        say(f"Answer {number} of {len(prompts)}{clock.left()}: {context.question}")
        answers[messages] = _ask(library, context)
        clock.done(_work(context))


def answered(pairs: Sequence[Pair], answers: Mapping[Prompt, Answer]) -> list[Pair]:
    """Return the pairs of the questions that are answered in every mode and by both sides."""
    missing = {
        pair.question.id
        for pair in pairs
        if not {pair.isolated.messages, pair.window.messages} <= answers.keys()
    }
    return [pair for pair in pairs if pair.question.id not in missing]


def _work(context: Context) -> int:
    """How long an answer takes, in no unit: reading the prompt, and some for writing."""
    return context.token_count + 200


def _ask(library: Library, context: Context) -> Answer:
    for event in library.answer(context):
        if isinstance(event, Finished):
            return event.answer
        if isinstance(event, Failed):
            raise ModelError(event.message)
    raise ModelError("The model ended without an answer. Run the command again.")


def rows(pairs: Sequence[Pair], answers: Mapping[Prompt, Answer]) -> dict[str, list[Row]]:
    """Judge the answers and count them, for each of :data:`MODES`."""
    return {
        mode: tally([_outcome(p, answers) for p in pairs if p.mode == mode], KINDS)
        for mode in MODES
    }


def report(pairs: Sequence[Pair], answers: Mapping[Prompt, Answer]) -> dict[str, Any]:
    """Return everything that was measured, ready for JSON: counts, prompts, answers, verdicts."""
    return {
        "model": next(iter(answers.values())).model,
        "window": WINDOW,
        "questions": len({pair.question.id for pair in pairs}),
        "modes": {
            mode: [asdict(row) for row in counted] for mode, counted in rows(pairs, answers).items()
        },
        "answers": [_detail(pair, answers) for pair in pairs],
    }


def _outcome(pair: Pair, answers: Mapping[Prompt, Answer]) -> Outcome:
    expected = pair.question.expected
    return Outcome(
        pair.question.kind,
        is_right(answers[pair.isolated.messages].text, expected),
        is_right(answers[pair.window.messages].text, expected),
        pair.isolated.token_count,
        pair.window.token_count,
    )


def _detail(pair: Pair, answers: Mapping[Prompt, Answer]) -> dict[str, Any]:
    detail: dict[str, Any] = {
        "id": pair.question.id,
        "kind": pair.question.kind,
        "mode": pair.mode,
        "verdict": _outcome(pair, answers).verdict,
    }
    for name, context in (("isolated", pair.isolated), ("window", pair.window)):
        answer = answers[context.messages]
        detail[name] = {
            "tokens": context.token_count,
            "answer": answer.text,
            "finish": answer.finish,
            "seconds": round(answer.total_seconds, 2),
            "prompt": context.prompt,
        }
    return detail
