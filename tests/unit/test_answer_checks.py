"""The judge, the counts and the comparison behind ``python -m rag.evals.answers``."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from rag.adapters.catalog_sql import open_catalog
from rag.adapters.readers import FileReader
from rag.domain import Answer, Message
from rag.errors import ModelError, ModelUnavailable, SettingsError
from rag.evals import answers as command
from rag.evals.comparison import MODES, answered, ask_all, plan, report, rows
from rag.evals.judge import holds, holds_all, is_right, normalise, refuses
from rag.evals.progress import Clock
from rag.evals.tally import Outcome, table, tally
from rag.library import Library, Parts
from rag.prompt import NOT_FOUND
from rag.samples import KINDS, load_samples, questions
from rag.settings import Settings
from rag.testing import HashEmbedder, MemoryIndex, Reply, ScriptedChat

# The judge


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("Go to **Settings > API Keys** [1].", "Settings > API Keys"),
        ("Go to `Settings` → API keys.", "Settings > API Keys"),
        ("Settings -> API Keys", "Settings > API Keys"),
        ("It lasts 90\u00a0days.", "90 days"),
        ("It lasts 90 [2] days.", "90 days"),
        ("It costs £9800.", "9,800"),
        ("It costs 9,800 pounds.", "9800"),
        ("two months’ rent", "two months' rent"),
        ("HMAC‑SHA256", "HMAC-SHA256"),
        ("Both keys are needed.", "key"),
        ("| Courgettes | late May | 100 |", "100"),
        ("The limit is 3.3 volts.", "3.3"),
        ("The limit is 3.3.", "3.3"),
    ],
)
def test_an_expected_string_is_found_in_other_dress(answer: str, expected: str) -> None:
    assert holds(answer, expected)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("It lasts 190 days.", "90 days"),
        ("It tips 1250 times.", "125"),
        ("It tips 12.5 times.", "12"),
        ("It is 1,125 metres.", "125"),
        ("It is 13.3 volts.", "3.3"),
        ("A monkey.", "key"),
        ("", "key"),
    ],
)
def test_an_expected_string_is_not_found_inside_another_word_or_number(
    answer: str, expected: str
) -> None:
    assert not holds(answer, expected)


def test_every_group_must_be_met_by_any_of_its_strings() -> None:
    groups = [["90 days", "ninety days"], ["Settings"]]
    assert holds_all("Ninety days; see Settings.", groups)
    assert not holds_all("Ninety days.", groups)


def test_normalising_twice_changes_nothing_more() -> None:
    text = "# Can't — “go” **on**  to 1,234,567 → [1, 2] `x`"
    assert normalise(text) == 'cannot - "go" on to 1234567 > x'
    assert normalise(normalise(text)) == normalise(text)


@pytest.mark.parametrize(
    "answer",
    [
        NOT_FOUND,
        NOT_FOUND.upper().rstrip("."),
        f"{NOT_FOUND} [1]",
        "The sources do not say what it costs.",
        "The provided text doesn't mention jury service [2].",
        "The handbook does not explicitly state this.",
        "There is no information about prices in the documents.",
        "The release date is not specified.",
        "The price is not given in the sources.",
        "The guide does not provide any information on regions.",
        "None of the sources mentions a prize.",
        "I cannot answer this from the sources.",
        "It can't be determined.",
    ],
)
def test_a_refusal_is_recognised(answer: str) -> None:
    assert refuses(answer)
    assert is_right(answer, ())


@pytest.mark.parametrize(
    "answer",
    [
        "You get five days of paid leave for jury service [1].",
        "The policy does not cover partners, so you pay yourself.",
        "Partners are not covered by the insurance.",
        "No, it is not supported.",
        "The lease does not include a lift.",
        "",
    ],
)
def test_a_statement_is_not_a_refusal(answer: str) -> None:
    assert not refuses(answer)
    assert not is_right(answer, ())


def test_a_refusal_is_wrong_where_an_answer_was_to_be_had() -> None:
    assert not is_right(NOT_FOUND, [["90 days"]])


# The counts


def test_outcomes_are_counted_by_kind_and_in_all() -> None:
    outcomes = [
        Outcome("neighbour", False, True, 100, 400),
        Outcome("neighbour", True, True, 200, 400),
        Outcome("absent", True, False, 60, 100),
        Outcome("absent", False, False, 40, 100),
    ]
    counted = {row.kind: row for row in tally(outcomes, KINDS)}
    assert list(counted) == ["neighbour", "absent", "all"]
    assert counted["neighbour"].counts == {
        "both": 1,
        "window only": 1,
        "isolated only": 0,
        "neither": 0,
    }
    assert counted["all"].counts == dict.fromkeys(counted["all"].counts, 1)
    assert (counted["all"].isolated_tokens, counted["all"].window_tokens) == (100, 250)


def test_the_table_is_markdown_and_aligned() -> None:
    lines = table(tally([Outcome("chunk", True, True, 64, 256)], KINDS)).split("\n")
    assert len({len(line) for line in lines}) == 1
    assert [cell.strip() for cell in lines[2].strip("|").split("|")] == [
        *("chunk", "1", "1", "0", "0", "0", "64", "256")
    ]
    assert lines[3].startswith("| all ")


def test_the_time_left_follows_the_work_that_is_done() -> None:
    seconds = iter([0.0, 10.0, 100.0])
    clock = Clock(total=1000, now=lambda: next(seconds))
    assert clock.left() == ""
    clock.done(250)
    assert clock.left() == ", about 30 s left"
    clock.done(50)
    assert clock.left() == ", about 4 min left"


# The comparison


@pytest.fixture
def open_library(tmp_path: Path) -> Iterator[Callable[[ScriptedChat], Library]]:
    """Opens an empty library that a scripted model answers from."""
    with ExitStack() as stack:

        def opened(chat: ScriptedChat) -> Library:
            catalog = open_catalog(f"sqlite:///{tmp_path / 'catalog.sqlite'}")
            reader = FileReader(seconds=60, memory_mb=4096, max_bytes=10_000_000)
            parts = Parts(Settings(), catalog, MemoryIndex(), HashEmbedder(), reader, chat)
            return stack.enter_context(Library(parts))

        yield opened


@pytest.fixture
def chat() -> ScriptedChat:
    """Quotes its sources, so that it is right wherever it was sent what is needed."""
    return ScriptedChat()


@pytest.fixture
def library(open_library: Callable[[ScriptedChat], Library], chat: ScriptedChat) -> Library:
    library = open_library(chat)
    list(load_samples(library, ["API guide"]))
    return library


def _silent(line: str) -> None:
    assert line


API_QUESTIONS = [q for q in questions() if q.collection == "API guide"]


def test_both_sides_of_a_pair_rest_on_the_same_hits(library: Library) -> None:
    pairs = plan(library, API_QUESTIONS)
    assert [(p.question.id, p.mode) for p in pairs] == [
        (q.id, mode) for q in API_QUESTIONS for mode in MODES
    ]
    for at_hits, at_tokens in zip(pairs[::2], pairs[1::2], strict=True):
        assert at_hits.isolated.hits == at_hits.window.hits
        assert len(at_hits.window.hits) == 1
        assert at_tokens.isolated.hits == at_tokens.window.hits
        budget = at_hits.window.token_count
        assert max(at_tokens.isolated.token_count, at_tokens.window.token_count) <= budget


def test_no_prompt_is_asked_twice(library: Library, chat: ScriptedChat) -> None:
    pairs = plan(library, API_QUESTIONS[:3])
    answers: dict[tuple[Message, ...], Answer] = {}
    ask_all(library, [*pairs, *pairs], answers, _silent)
    assert len(chat.calls) == len(set(chat.calls)) == len(answers)
    assert set(chat.calls) == {m for p in pairs for m in (p.isolated.messages, p.window.messages)}


def test_verdicts_follow_from_what_each_side_was_sent(library: Library) -> None:
    pairs = plan(library, API_QUESTIONS)
    answers: dict[tuple[Message, ...], Answer] = {}
    ask_all(library, pairs, answers, _silent)
    for row in rows(pairs, answers)["equal hits"]:
        assert row.counts["isolated only"] == 0, "a window holds its match"
        assert sum(row.counts.values()) == row.questions
        assert row.isolated_tokens < row.window_tokens
    for detail in report(pairs, answers)["answers"]:
        assert detail["kind"] != "absent" or detail["verdict"] == "neither"
        for side in ("isolated", "window"):
            assert detail[side]["prompt"].endswith(detail[side]["answer"].removesuffix(" [1]"))


def test_what_was_answered_before_a_failure_is_kept(library: Library) -> None:
    pairs = plan(library, API_QUESTIONS[:2])
    answers: dict[tuple[Message, ...], Answer] = {}
    ask_all(library, pairs, answers, _silent)
    del answers[pairs[3].isolated.messages]
    assert answered(pairs, answers) == pairs[:2]


def _fails_at(question: str) -> Callable[[Sequence[Message]], str | Reply]:
    gone = Reply(error=ModelUnavailable("The server is gone. Start it again."))
    asked = f"Question: {question}\n"
    return lambda messages: gone if asked in messages[-1].content else "Eight. Paused."


def test_the_command_prints_and_saves_the_counts(
    open_library: Callable[[ScriptedChat], Library],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    library = open_library(ScriptedChat(NOT_FOUND, name="always refuses"))
    saved = tmp_path / "answers.json"
    assert command.measure(library, None, saved, as_json=False) == 0
    out, err = capsys.readouterr()
    assert out.startswith("Sample questions answered right. Model: always refuses.")
    assert out.count("| all ") == len(MODES)
    assert "left: What is the first prize" in err
    document = json.loads(saved.read_text(encoding="utf-8"))
    assert document["questions"] == len(questions())
    absent = sum(q.kind == "absent" for q in questions())
    for counted in document["modes"].values():
        assert counted[-1]["counts"]["both"] == absent
        assert counted[-1]["counts"]["neither"] == len(questions()) - absent


def test_the_command_counts_what_it_has_when_the_model_fails(
    open_library: Callable[[ScriptedChat], Library], capsys: pytest.CaptureFixture[str]
) -> None:
    library = open_library(ScriptedChat(_fails_at(questions()[2].question)))
    assert command.measure(library, 4, None, as_json=True) == 1
    out, err = capsys.readouterr()
    assert json.loads(out)["questions"] == 2
    assert "4 of 8 comparisons were made. The server is gone. Start it again." in err


def test_the_command_fails_plainly_without_any_answer(
    open_library: Callable[[ScriptedChat], Library],
) -> None:
    library = open_library(ScriptedChat(_fails_at(questions()[0].question)))
    with pytest.raises(ModelError, match="Start it again"):
        command.measure(library, 1, None, as_json=False)


def test_a_file_that_cannot_be_written_is_refused_before_anything_is_asked(
    open_library: Callable[[ScriptedChat], Library], tmp_path: Path
) -> None:
    chat = ScriptedChat()
    with pytest.raises(SettingsError, match="Choose another file for --save"):
        command.measure(open_library(chat), None, tmp_path / "no" / "a.json", as_json=False)
    assert chat.calls == []


def test_the_command_says_in_one_sentence_why_it_cannot_start(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home.write_text("a file where the library should be")
    assert command.main(["--home", str(home)]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert "Traceback" not in err
    assert err.strip()
