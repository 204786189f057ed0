"""One background worker that adds uploaded files, in order, with progress and cancel.

It knows no screen: a page polls :meth:`Worker.jobs` and may come and go.
"""

from __future__ import annotations

import logging
import queue
import threading
import uuid
from dataclasses import dataclass, replace

from rag.domain import LOCAL_OWNER, Added, Progress
from rag.errors import RagError
from rag.library import Library

_log = logging.getLogger(__name__)

FINISHED = frozenset({"ready", "unchanged", "failed", "cancelled"})


@dataclass(frozen=True, slots=True)
class Job:
    """One file on its way in.

    Attributes:
        state: queued, running, ready, unchanged, failed or cancelled.
        message: what happens now, in words.
        fraction: 0 to 1 where known.
    """

    id: str
    owner: str
    collection: str
    name: str
    state: str
    message: str
    fraction: float | None = None
    document_id: str | None = None
    error: str | None = None


class Worker:
    """Adds files one after the other. Safe to use from several threads."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._lock = threading.Lock()
        self._jobs: dict[str, Job] = {}
        self._cancelled: set[str] = set()
        self._waiting: queue.SimpleQueue[tuple[str, bytes] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="fenestra-worker", daemon=True)
        self._thread.start()

    def submit(self, name: str, data: bytes, collection: str, owner: str = LOCAL_OWNER) -> str:
        """Queue a file; returns the job's id."""
        job = Job(uuid.uuid4().hex, owner, collection, name, "queued", "Waiting")
        with self._lock:
            self._jobs[job.id] = job
        self._waiting.put((job.id, data))
        return job.id

    def jobs(self, owner: str = LOCAL_OWNER) -> list[Job]:
        """The owner's jobs, oldest first."""
        with self._lock:
            return [job for job in self._jobs.values() if job.owner == owner]

    def busy(self, owner: str = LOCAL_OWNER) -> bool:
        """Whether any job of the owner is not finished."""
        return any(job.state not in FINISHED for job in self.jobs(owner))

    def cancel(self, job_id: str) -> None:
        """Stop a job at its next step, and take back what it began."""
        with self._lock:
            job = self._jobs.get(job_id)
            if job is None or job.state in FINISHED:
                return
            self._cancelled.add(job_id)
            if job.state == "queued":
                self._jobs[job_id] = replace(job, state="cancelled", message="Cancelled")

    def forget_finished(self, owner: str = LOCAL_OWNER) -> None:
        """Drop finished jobs from the list."""
        with self._lock:
            self._jobs = {
                job_id: job
                for job_id, job in self._jobs.items()
                if job.owner != owner or job.state not in FINISHED
            }

    def close(self) -> None:
        """Stop after the current step; what is queued is not added."""
        with self._lock:
            self._cancelled.update(self._jobs)
        self._waiting.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (item := self._waiting.get()) is not None:
            self._work(*item)
            del item  # The bytes must not stay in memory until the next file comes.

    def _work(self, job_id: str, data: bytes) -> None:
        job = self._jobs.get(job_id)
        if job is None or job_id in self._cancelled:
            self._update(job_id, state="cancelled", message="Cancelled")
            return
        self._update(job_id, state="running", message="Starting")
        library = self._library.as_owner(job.owner)
        events = library.add(job.name, data, job.collection)
        try:
            for event in events:
                if job_id in self._cancelled:
                    self._update(job_id, state="cancelled", message="Cancelled")
                    return
                if isinstance(event, Progress):
                    self._update(job_id, message=event.message, fraction=event.fraction)
                else:
                    self._finish(job_id, event)
        except RagError as error:
            self._update(job_id, state="failed", message="Failed", error=str(error))
        except Exception:  # noqa: BLE001 - the worker must outlive any fault of one file
            _log.exception("adding a file failed")
            sentence = f"{job.name} could not be added; the log has the details. Try it again."
            self._update(job_id, state="failed", message="Failed", error=sentence)
        finally:
            events.close()

    def _finish(self, job_id: str, added: Added) -> None:
        words = {"ready": "Ready", "unchanged": "Already there", "failed": "Failed"}
        self._update(
            job_id,
            state=added.status,
            message=words[added.status],
            fraction=1.0,
            document_id=added.document.id if added.document is not None else None,
            error=added.error,
        )

    def _update(self, job_id: str, **changes: str | float | None) -> None:
        with self._lock:
            if job_id in self._jobs:
                self._jobs[job_id] = replace(self._jobs[job_id], **changes)  # type: ignore[arg-type]
