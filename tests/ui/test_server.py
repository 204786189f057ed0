"""Serving: this computer only, with headers, and plain sentences instead of traces."""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from rag.errors import SettingsError
from rag.ui import guard, server

ROOT = Path(server.MAIN).parents[2]


def _flat(table: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key, value in table.items():
        values |= (
            _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: value}
        )
    return values


def test_the_config_file_and_the_installed_package_say_the_same() -> None:
    assert _flat(tomllib.loads((ROOT / ".streamlit/config.toml").read_text())) == server.CONFIG


@pytest.mark.parametrize("address", ["127.0.0.1", "127.1.2.3", "::1", "[::1]", "localhost"])
def test_loopback(address: str) -> None:
    assert guard.is_loopback(address)


@pytest.mark.parametrize("address", [None, "", "0.0.0.0", "::", "192.168.1.4", "example.org", "0"])
def test_not_loopback(address: str | None) -> None:
    assert not guard.is_loopback(address)


@pytest.mark.parametrize("address", [None, "0.0.0.0", "::"])
def test_refuses_to_serve_other_computers(
    address: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server.config, "get_option", lambda name: address)
    with pytest.raises(SystemExit, match=r"this computer only.*--server\.address 127\.0\.0\.1\."):
        server.refuse_beyond_loopback()


def _call(scope: dict[str, Any]) -> list[dict[str, Any]]:
    sent: list[dict[str, Any]] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"hello"})

    async def receive() -> dict[str, Any]:
        return {"type": "http.request"}

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(
        guard.Guard(app)({"headers": [], "method": "GET", "path": "/", **scope}, receive, send)
    )
    return sent


@pytest.mark.parametrize("client", [("127.0.0.1", 1), ("::1", 1), None])
def test_this_computer_is_answered_with_headers(client: tuple[str, int] | None) -> None:
    start, body = _call({"type": "http", "client": client})
    headers = {name.decode(): value.decode() for name, value in start["headers"]}
    assert start["status"] == 200
    assert body["body"] == b"hello"
    assert "img-src 'self' data: blob:" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"


def test_other_computers_are_refused_whatever_server_runs_the_app() -> None:
    start, body = _call({"type": "http", "client": ("192.168.1.9", 5)})
    assert start["status"] == 403
    assert b"only the computer it runs on" in body["body"]
    assert _call({"type": "websocket", "client": ("10.0.0.3", 5)}) == [
        {"type": "websocket.close", "code": 1008}
    ]


def test_a_taken_port_is_a_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(SettingsError, match=rf"Port {port} is taken.*another port.*\."):
            server.serve(port)


@pytest.mark.parametrize("port", [-1, 65536, 10**9])
def test_an_impossible_port_is_a_sentence(port: int) -> None:
    with pytest.raises(SettingsError, match=r"There is no port -?\d+\. Choose"):
        server.serve(port)


def test_an_unexpected_error_is_one_line_in_the_log() -> None:
    try:
        {}["missing"]
    except KeyError:
        record = logging.LogRecord("x", logging.ERROR, "f", 1, "Uncaught", (), sys.exc_info())
    assert server._OneLine().filter(record)
    line = logging.Formatter().format(record)
    assert line.startswith("A page failed: KeyError: 'missing' at test_server.py:")
    assert "\n" not in line


def test_the_filter_is_where_streamlit_logs_errors() -> None:
    import streamlit.error_util as streamlit_errors

    server.options()
    assert any(isinstance(f, server._OneLine) for f in streamlit_errors._LOGGER.filters)
