"""Whether the language model can answer yet, found out without making any page wait."""

from __future__ import annotations

import threading

from rag.domain import Progress
from rag.errors import ModelError
from rag.ports import ChatModel


class Readiness:
    """Waits for a chat model in a thread of its own; pages read how far it is.

    Attributes:
        progress: what the model is doing; ``None`` once that is over.
        error: why it could not answer, as a sentence; ``None`` otherwise.
    """

    def __init__(self, chat: ChatModel) -> None:
        self._chat = chat
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self.progress: Progress | None = None
        self.error: str | None = None
        self.check()

    @property
    def ready(self) -> bool:
        """Whether the model could answer when it was last asked."""
        return self.progress is None and self.error is None

    def check(self) -> None:
        """Ask again if the last answer was an error; otherwise do nothing."""
        with self._lock:
            running = self._thread is not None and self._thread.is_alive()
            if running or (self._thread is not None and self.ready):
                return
            self.progress = Progress("Getting the language model ready")
            self._thread = threading.Thread(target=self._wait, name="fenestra-ready", daemon=True)
            self._thread.start()

    def _wait(self) -> None:
        try:
            for progress in self._chat.wait_ready():
                self.progress = progress
            self.error = None
        except ModelError as error:
            self.error = str(error)
        finally:
            self.progress = None
