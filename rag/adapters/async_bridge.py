"""Coroutines on an event loop in a thread of its own, read as ordinary iterators.

Cancelling a task closes its connection at any moment: while it connects, while it waits for the
first byte. A thread that is blocked in a read of its own could not be stopped so.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Coroutine, Generator
from typing import Any, TypeVar

T = TypeVar("T")

_PULSE = 0.5
"""Seconds without an event after which the reader gets a turn."""
_CLOSING = 5.0
"""Most seconds to wait for a cancelled task or for the thread to end."""


class AsyncBridge:
    """One event loop in one daemon thread, started at first use."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end; return its result or raise what it raises."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._running()).result()

    def iterate(
        self, start: Callable[[Callable[[T], None]], Coroutine[Any, Any, None]]
    ) -> Generator[T | None, None, None]:
        """Yield what a coroutine emits, and ``None`` whenever there is nothing for a moment.

        Closing the iterator cancels the coroutine and waits until it has ended. What the
        coroutine raises is raised here, after everything that it emitted before.

        Args:
            start: called once with the function that emits; returns the coroutine.
        """
        events: queue.SimpleQueue[T | asyncio.Task[None]] = queue.SimpleQueue()
        begun: queue.SimpleQueue[asyncio.Task[None]] = queue.SimpleQueue()
        loop = self._running()

        def begin() -> None:
            task = loop.create_task(start(events.put))
            # The finished task itself is the last event.
            task.add_done_callback(events.put)
            begun.put(task)

        loop.call_soon_threadsafe(begin)
        task = begun.get()
        try:
            while True:
                try:
                    event = events.get(timeout=_PULSE)
                except queue.Empty:
                    yield None
                    continue
                if isinstance(event, asyncio.Task):
                    break
                yield event
        finally:
            if not task.done() and loop.is_running():
                ended = threading.Event()
                loop.call_soon_threadsafe(_cancel, task, ended)
                ended.wait(_CLOSING)
        if not task.cancelled():
            task.result()

    def close(self) -> None:
        """Cancel what runs and end the thread. Safe to call twice; a later use starts anew."""
        with self._lock:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is None or thread is None:
            return
        asyncio.run_coroutine_threadsafe(_cancel_all(), loop).result(_CLOSING)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(_CLOSING)
        loop.close()

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=self._loop.run_forever, name=self._name, daemon=True
                )
                self._thread.start()
            return self._loop


def _cancel(task: asyncio.Task[None], ended: threading.Event) -> None:
    task.add_done_callback(lambda _: ended.set())
    task.cancel()


async def _cancel_all() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
