"""The background worker, on a real library."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rag import checkpoints
from rag.compose import open_library
from rag.jobs import FINISHED, Job, Worker
from rag.library import Library
from rag.settings import load_settings
from rag.testing import HashEmbedder, ScriptedChat


@pytest.fixture
def library(home: Path) -> Iterator[Library]:
    with open_library(load_settings(), embedder=HashEmbedder(), chat=ScriptedChat()) as opened:
        yield opened


@pytest.fixture
def worker(library: Library) -> Iterator[Worker]:
    made = Worker(library)
    yield made
    made.close()


@pytest.fixture
def held() -> Iterator[threading.Event]:
    """The worker stops once at the first file's text until the event is set."""
    go_on = threading.Event()
    checkpoints.set_hook(lambda name: name != "ingest:chunked" or go_on.wait(60))
    yield go_on
    go_on.set()
    checkpoints.set_hook(None)


def wait(condition: Callable[[], bool]) -> None:
    """Until it holds; the test's own time limit is the end of patience."""
    tick = threading.Event()
    while not condition():
        tick.wait(0.02)


def finished(worker: Worker) -> list[Job]:
    wait(lambda: not worker.busy())
    return worker.jobs()


def test_files_are_added_in_order_and_bad_ones_do_not_stop_the_rest(
    library: Library, worker: Worker
) -> None:
    worker.submit("one.txt", b"The first file.", "Files")
    worker.submit("empty.txt", b"", "Files")
    worker.submit("two.txt", b"The second file.", "Files")
    worker.submit("again.txt", b"The first file.", "Files")
    jobs = finished(worker)
    assert [job.state for job in jobs] == ["ready", "failed", "ready", "unchanged"]
    assert "empty.txt" in (jobs[1].error or "")
    assert [d.name for d in library.documents("Files")] == ["one.txt", "two.txt"]
    assert [job.document_id for job in jobs if job.state == "ready"] == [
        d.id for d in library.documents("Files")
    ]
    worker.forget_finished()
    assert worker.jobs() == []


def test_cancel_takes_back_what_was_begun_and_what_waits(
    library: Library, worker: Worker, held: threading.Event
) -> None:
    first = worker.submit("one.txt", b"The first file.", "Files")
    second = worker.submit("two.txt", b"The second file.", "Files")
    wait(lambda: worker.jobs()[0].message == "Cutting it into chunks")
    assert worker.busy()
    worker.cancel(second)
    assert worker.jobs()[1].state == "cancelled"
    worker.cancel(first)
    held.set()
    assert [job.state for job in finished(worker)] == ["cancelled", "cancelled"]
    assert library.documents() == []
    worker.submit("three.txt", b"The third file.", "Files")
    assert finished(worker)[-1].state == "ready"


def test_jobs_belong_to_their_owner(library: Library, worker: Worker) -> None:
    worker.submit("mine.txt", b"My own file.", "Files")
    worker.submit("theirs.txt", b"Another file.", "Files", owner="b")
    wait(lambda: not worker.busy() and not worker.busy("b"))
    assert [job.name for job in worker.jobs()] == ["mine.txt"]
    assert [job.name for job in worker.jobs("b")] == ["theirs.txt"]
    assert [d.name for d in library.as_owner("b").documents()] == ["theirs.txt"]
    assert [d.name for d in library.documents()] == ["mine.txt"]


def test_a_bad_collection_name_fails_the_job_with_a_sentence(worker: Worker) -> None:
    worker.submit("one.txt", b"The first file.", "   ")
    (job,) = finished(worker)
    assert job.state == "failed"
    assert "name" in (job.error or "")


def test_finished_jobs_cannot_be_cancelled(worker: Worker) -> None:
    job_id = worker.submit("one.txt", b"The first file.", "Files")
    finished(worker)
    worker.cancel(job_id)
    worker.cancel("no such job")
    assert worker.jobs()[0].state == "ready"
    assert {job.state for job in worker.jobs()} <= FINISHED


def test_closing_leaves_the_rest_of_the_queue_out(library: Library, held: threading.Event) -> None:
    worker = Worker(library)
    worker.submit("one.txt", b"The first file.", "Files")
    worker.submit("two.txt", b"The second file.", "Files")
    wait(lambda: worker.jobs()[0].message == "Cutting it into chunks")
    closing = threading.Thread(target=worker.close)
    closing.start()
    wait(lambda: bool(worker._cancelled))
    held.set()
    closing.join()
    assert library.documents() == []
    assert {job.state for job in worker.jobs()} == {"cancelled"}
