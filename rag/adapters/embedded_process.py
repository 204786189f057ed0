"""The parent's side of the embedded server: start it, hear its address, end it."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import threading
from collections import deque
from pathlib import Path

from rag.errors import ModelUnavailable

_SERVER = Path(__file__).with_name("embedded_server.py")
_CLOSING = 3.0
"""Seconds that the process gets to end by itself."""
_LOG_LINES = 20


class ServerProcess:
    """One child process that serves one model file on loopback.

    Args:
        path: the model file.
        name: the name that the server gives the model.
        context: most tokens of prompt and answer together.

    Attributes:
        key: what the server asks of its clients, so that no other program and no web page on
            this machine can use it. It is new for each process and in no argument list.
    """

    def __init__(self, path: Path, name: str, context: int) -> None:
        self.key = secrets.token_urlsafe(24)
        self._path = path
        self._log: deque[str] = deque(maxlen=_LOG_LINES)
        # -P keeps the script's folder off the module path. With the passive policy threads sleep
        # while they wait for each other: spinning makes answers ten times slower as soon as
        # anything else runs.
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(_SERVER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={"OMP_WAIT_POLICY": "PASSIVE", **os.environ},
        )
        self._reader = threading.Thread(target=self._keep_log, daemon=True)
        self._reader.start()
        config = {"path": str(path), "name": name, "key": self.key, "context": context}
        self._say(json.dumps(config).encode() + b"\n")

    @property
    def pid(self) -> int:
        """Process id of the child."""
        return self._process.pid

    def wait_address(self) -> str:
        """Wait until the model is loaded; return the server's address, without ``/v1``.

        Raises:
            ModelUnavailable: the model cannot be loaded; the message says why.
        """
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        answer = json.loads(line) if line else {}
        if "address" in answer:
            return str(answer["address"])
        self._process.wait()
        self._reader.join(_CLOSING)
        reason = answer.get("error", "")
        raise ModelUnavailable(_sentence(self._path, f"{reason} {self.last_words}".strip()))

    def gone(self, seconds: float = 0.0) -> bool:
        """Whether the process has ended, or ends within some seconds."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    @property
    def last_words(self) -> str:
        """The end of the server's log, on one line."""
        return " ".join(" ".join(self._log).split())[-300:]

    def close(self) -> None:
        """End the process and wait for it. Safe to call twice."""
        if self._process.stdin is not None:
            try:
                self._process.stdin.close()
            except OSError:
                self._process.kill()
        if not self.gone(_CLOSING):
            self._process.kill()
            self._process.wait()

    def _say(self, line: bytes) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line)
            self._process.stdin.flush()
        except OSError:
            # It died at once; wait_address tells why.
            self._process.wait()

    def _keep_log(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._log.append(line.decode("utf-8", "replace"))


def _sentence(path: Path, reason: str) -> str:
    if "libgomp" in reason:
        return (
            "The embedded language model needs the system library libgomp. Install it (on Debian "
            "and Ubuntu: apt install libgomp1)."
        )
    return (
        f"The language model {path.name} cannot be loaded ({reason or 'it gave no reason'}). "
        "Check that there is enough free memory (2 GB for the packaged model) and that "
        "FENESTRA_GGUF, if set, names a model that llama.cpp can run."
    )
