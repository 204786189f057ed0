"""ScriptedServer: an OpenAI-compatible server on loopback that plays what a test tells it to.

In a test process it runs in threads::

    with ScriptedServer(PLAYS["cut"]) as server:
        chat = OpenAIChat(base_url=server.url, api_key=None, model=None, timeout=10)

For another process, ``python -m rag.testing_server --play quote`` prints its address and serves
until it is killed. Unless told otherwise it plays by the name of the model in the request, so
that a client chooses by asking for the model ``cut`` or ``status-500``.
"""

from __future__ import annotations

import argparse
import json
import select
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from rag.domain import Message
from rag.testing_chat import split_tokens
from rag.testing_plays import PLAYS, Play

__all__ = ["PLAYS", "Play", "ScriptedServer"]


class ScriptedServer:
    """A server that plays; use it as a context manager.

    Args:
        play: what to do with every chat request; by the name of the model if ``None``. May be
            set anew at any time.
        models: names that ``/v1/models`` lists; ``None`` to answer it with status 404.
        key: the only key accepted; any if ``None``. A refusal echoes the key that was sent.

    Attributes:
        url: the address up to ``/v1``.
        requests: the bodies of all chat requests, in order.
        headers: the headers of all requests, in order, their names in lower case.
        client_left: released once for each stream that the client closed before its end.
    """

    def __init__(
        self,
        play: Play | Callable[[Mapping[str, Any]], Play] | None = None,
        *,
        models: Sequence[str] | None = ("plain",),
        key: str | None = None,
        port: int = 0,
    ) -> None:
        self.play = play
        self.models = models
        self.key = key
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.client_left = threading.Semaphore(0)
        handler = type("Handler", (_Handler,), {"script": self})
        self._http = ThreadingHTTPServer(("127.0.0.1", port), handler)
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_port}/v1"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._http.shutdown()
        self._http.server_close()

    def serve_forever(self) -> None:
        """Serve in this thread until the process ends."""
        self._http.serve_forever()

    def choose(self, request: Mapping[str, Any]) -> Play:
        """What to do with a request."""
        if callable(self.play):
            return self.play(request)
        return self.play or PLAYS.get(str(request.get("model")), PLAYS["quote"])


class _Handler(BaseHTTPRequestHandler):
    script: ScriptedServer
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        """Keep the terminal quiet."""

    def do_GET(self) -> None:
        if not self._welcome():
            return
        if self._route != "/v1/models" or self.script.models is None:
            self._error(404, "Not found")
            return
        self._json({"object": "list", "data": [{"id": name} for name in self.script.models]})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not self._welcome():
            return
        if self._route != "/v1/chat/completions":
            self._error(404, "Not found")
            return
        self.script.requests.append(body)
        play = self.script.choose(body)
        refused = next((name for name in sorted(play.refuses) if name in body), None)
        if refused is not None:
            use = " Use 'max_completion_tokens' instead." if refused == "max_tokens" else ""
            self._error(400, f"Unsupported parameter: '{refused}'.{use}", param=refused)
        elif play.status != 200:
            self._error(play.status, play.message, play.code, headers=play.headers)
        elif play.body is not None:
            self._send(200, "text/html", play.body.encode())
        else:
            self._stream(play, body)

    @property
    def _route(self) -> str:
        return self.path.partition("?")[0]

    def _welcome(self) -> bool:
        self.script.headers.append({name.lower(): value for name, value in self.headers.items()})
        sent = self.headers.get("Authorization", "").removeprefix("Bearer ")
        if self.script.key is None or sent == self.script.key:
            return True
        self._error(401, f"Incorrect API key provided: {sent}.", "invalid_api_key")
        return False

    def _stream(self, play: Play, request: Mapping[str, Any]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        for name, value in play.headers.items():
            self.send_header(name, value)
        self.end_headers()
        try:
            if self._events(play, request):
                self._write("data: [DONE]\n\n")
                self.wfile.write(b"0\r\n\r\n")
                return
        except (BrokenPipeError, ConnectionResetError):
            self.script.client_left.release()
        self.close_connection = True

    def _events(self, play: Play, request: Mapping[str, Any]) -> bool:
        """Send the events of a play; whether the stream is to be ended properly."""
        messages = [Message(m["role"], m["content"]) for m in request["messages"]]
        text = play.text if isinstance(play.text, str) else play.text(messages)
        tokens = split_tokens(text)
        while play.comments:
            self._gone(0.02)
            self._write(": still here\n\n")
        if play.empty_first:
            self._chunk(request, [])
        self._delta(request, {"role": "assistant", "content": None if play.null_content else ""})
        for word in split_tokens(play.reasoning):
            self._delta(request, {"reasoning_content": word})
        limit = request.get("max_tokens") or request.get("max_completion_tokens") or len(tokens)
        for number, token in enumerate(tokens[:limit]):
            if number == play.error_after:
                self._write(f"data: {json.dumps({'error': {'message': play.message}})}\n\n")
                return True
            if number == play.cut:
                return False
            while play.gate is not None and not play.gate.acquire(timeout=0.01):
                self._gone(0.01)
            if play.delay:
                self._gone(play.delay)
            self._delta(request, {"content": token})
        if play.null_content:
            self._delta(request, {"content": None})
        asked = request.get("stream_options", {}).get("include_usage")
        usage = {
            "prompt_tokens": sum(len(split_tokens(m.content)) for m in messages),
            "completion_tokens": min(limit, len(tokens)),
        }
        if play.finish is not None:
            finish = "length" if len(tokens) > limit else play.finish
            with_finish = {"usage": usage} if asked and play.usage == "finish" else {}
            choice = {"index": 0, "delta": {}, "finish_reason": finish}
            self._chunk(request, [choice], **with_finish)
        if asked and play.usage == "last":
            self._chunk(request, [], usage=usage)
        return True

    def _gone(self, seconds: float) -> None:
        """Wait; raise if the client has closed the connection meanwhile."""
        deadline = time.monotonic() + seconds
        while True:
            readable, _, _ = select.select([self.connection], [], [], min(seconds, 0.02))
            if readable and not self.connection.recv(1, socket.MSG_PEEK):
                raise BrokenPipeError
            if time.monotonic() >= deadline:
                return

    def _delta(self, request: Mapping[str, Any], delta: Mapping[str, Any]) -> None:
        self._chunk(request, [{"index": 0, "delta": delta, "finish_reason": None}])

    def _chunk(self, request: Mapping[str, Any], choices: Sequence[object], **more: Any) -> None:
        chunk = {
            "id": "chatcmpl-1",
            "object": "chat.completion.chunk",
            "created": 0,
            "model": request.get("model"),
            "choices": choices,
            **more,
        }
        self._write(f"data: {json.dumps(chunk)}\n\n")

    def _write(self, text: str) -> None:
        data = text.encode()
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()

    def _error(
        self,
        status: int,
        message: str,
        code: str | None = None,
        *,
        param: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        error = {"message": message, "type": "error", "code": code, "param": param}
        self._json({"error": error}, status, headers)

    def _json(
        self, value: object, status: int = 200, headers: Mapping[str, str] | None = None
    ) -> None:
        self._send(status, "application/json", json.dumps(value).encode(), headers)

    def _send(
        self, status: int, kind: str, data: bytes, headers: Mapping[str, str] | None = None
    ) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)


def main() -> None:
    """Serve from the command line."""
    parser = argparse.ArgumentParser(prog="python -m rag.testing_server", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="0 for any free one")
    parser.add_argument("--play", choices=sorted(PLAYS), help="by the name of the model if unset")
    arguments = parser.parse_args()
    play = PLAYS[arguments.play] if arguments.play else None
    server = ScriptedServer(play, models=tuple(PLAYS), port=arguments.port)
    sys.stdout.write(f"{server.url}\n")
    sys.stdout.flush()
    server.serve_forever()


if __name__ == "__main__":
    main()
