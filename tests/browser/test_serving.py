"""Starting, refusing and failing: a sentence each time, on the page or in the terminal."""

from __future__ import annotations

import base64
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, expect

from rag.ui.guard import HEADERS

ROOT = Path(__file__).resolve().parents[2]


def _closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def test_a_page_reached_by_its_address_has_its_headers(
    app: Any, visit: Callable[..., Page]
) -> None:
    page = visit(f"{app.url}/documents")
    expect(page.get_by_role("heading", name="Documents")).to_be_visible()
    response = page.reload()
    assert response is not None
    assert {name: response.headers[name.lower()] for name in HEADERS} == HEADERS
    expect(page.get_by_role("heading", name="Documents")).to_be_visible()


@pytest.mark.parametrize(("host", "status"), [("evil.example", 403), (None, 101)])
def test_only_pages_of_this_app_may_open_its_socket(
    host: str | None, status: int, app: Any
) -> None:
    address = urlsplit(app.url)
    key = base64.b64encode(os.urandom(16)).decode()
    request = (
        f"GET /_stcore/stream HTTP/1.1\r\nHost: {host or address.netloc}\r\n"
        f"Connection: Upgrade\r\nUpgrade: websocket\r\n"
        f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n\r\n"
    )
    with socket.create_connection((address.hostname, address.port), timeout=30) as connection:
        connection.sendall(request.encode())
        assert connection.recv(100).startswith(f"HTTP/1.1 {status} ".encode())


def test_a_model_server_that_is_down_is_a_sentence_before_and_after_asking(
    start: Callable[..., Any], visit: Callable[..., Page]
) -> None:
    app = start(FENESTRA_BASE_URL=f"http://127.0.0.1:{_closed_port()}/v1")
    page = visit(app.url)
    warning = page.get_by_test_id("stAlert")
    expect(warning).to_have_count(1)
    expect(warning).to_contain_text("127.0.0.1")
    page.get_by_role("button", name="Where do I get the token").click()
    expect(page.locator(".fen-sources")).to_have_count(2)
    failures = page.get_by_test_id("stColumn").get_by_test_id("stAlert")
    expect(failures).to_have_count(2)


def test_a_library_in_use_elsewhere_is_a_sentence_until_it_is_free(
    start: Callable[..., Any], visit: Callable[..., Page], model: Any
) -> None:
    environment = {"FENESTRA_BASE_URL": model.url, "FENESTRA_MODEL": "scripted"}
    first = start(**environment)
    holder = visit(first.url)
    expect(holder.get_by_role("heading", name="Ask your documents")).to_be_visible()
    holder.close()
    second = start(**environment)
    page = visit(second.url)
    expect(page.get_by_test_id("stAlert")).to_contain_text(str(first.process.pid))
    first.process.send_signal(signal.SIGKILL)
    first.process.wait()
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_role("heading", name="Ask your documents")).to_be_visible()


def test_a_home_that_cannot_be_written_is_a_sentence(
    home: Path, start: Callable[..., Any], visit: Callable[..., Page]
) -> None:
    home.write_text("in the way")
    page = visit(start().url)
    expect(page.get_by_test_id("stAlert")).to_contain_text(str(home))
    expect(page.get_by_role("button", name="Try again")).to_be_visible()


def _run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize(
    ("arguments", "environment"),
    [
        (["--server.address=0.0.0.0"], {}),
        (["--server.address=::"], {}),
        ([], {"STREAMLIT_SERVER_ADDRESS": "0.0.0.0"}),
    ],
)
def test_serving_other_computers_is_refused(
    arguments: list[str], environment: dict[str, str]
) -> None:
    ran = _run("streamlit", "run", "app.py", "--server.port=0", *arguments, **environment)
    assert ran.returncode != 0
    assert "serves this computer only" in ran.stderr
    assert "Traceback" not in ran.stderr
    assert "http" not in ran.stdout


def test_a_taken_port_is_a_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        streamlit = _run("streamlit", "run", "app.py", f"--server.port={port}")
        fenestra = _run("rag", "serve", "--port", str(port))
    for ran in (streamlit, fenestra):
        assert ran.returncode == 1
        assert f"Port {port} is" in ran.stderr
        assert "Traceback" not in ran.stderr


def test_the_installed_command_serves_from_any_folder(
    tmp_path: Path, model: Any, visit: Callable[..., Page]
) -> None:
    port = _closed_port()
    process = subprocess.Popen(
        [sys.executable, "-m", "rag", "serve", "--port", str(port)],
        cwd=tmp_path,
        env={**os.environ, "FENESTRA_BASE_URL": model.url, "FENESTRA_MODEL": "scripted"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert any(f"http://127.0.0.1:{port}" in line for line in process.stdout)
        page = visit(f"http://127.0.0.1:{port}")
        expect(page.get_by_role("heading", name="Ask your documents")).to_be_visible()
        color = page.locator(".stApp").evaluate("e => getComputedStyle(e).color")
        assert color == "rgb(28, 38, 36)"  # the theme's
        page.close()
    finally:
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=60)
    assert process.returncode == 0
    assert not re.search("Traceback|Error", stderr)
