"""A real browser on a real server: each visit watches for whatever must not happen."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright

from rag.testing_server import ScriptedServer

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 60
"""Longest wait for anything: the machine may be busy with other tests."""

expect.set_options(timeout=SECONDS * 1000)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Debian's Chromium, or else Playwright's own."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        yield browser
        browser.close()


@dataclass
class App:
    """A running application."""

    process: subprocess.Popen[str]
    url: str
    stderr: Path


@contextmanager
def _running(home: Path, log: Path, environment: dict[str, str]) -> Iterator[App]:
    with log.open("w") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-m", "streamlit", "run", "app.py", "--server.port=0"],
            cwd=ROOT,
            env={**os.environ, "FENESTRA_HOME": str(home), **environment},
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            address = re.search(r"http://127\.0\.0\.1:\d+", line)
            assert address, f"said {line!r} instead of its address: {log.read_text()}"
            yield App(process, address.group(), log)
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(SECONDS)
            finally:
                process.kill()
    assert "Traceback" not in log.read_text(), log.read_text()


@pytest.fixture
def start(home: Path, tmp_path: Path) -> Iterator[Callable[..., App]]:
    """Starts the application on the test's home, with the variables given."""
    with ExitStack() as stack:

        def start(**environment: str) -> App:
            log = tmp_path / f"stderr-{len(list(tmp_path.glob('stderr-*')))}.txt"
            return stack.enter_context(_running(home, log, environment))

        yield start


@pytest.fixture
def model() -> Iterator[ScriptedServer]:
    """An OpenAI-compatible server on loopback that plays what the test sets."""
    with ScriptedServer() as server:
        yield server


@pytest.fixture
def app(start: Callable[..., App], model: ScriptedServer) -> App:
    """The application with an empty home and the scripted model."""
    return start(FENESTRA_BASE_URL=model.url, FENESTRA_MODEL="scripted")


@dataclass
class Watch:
    """What went wrong in one visit."""

    faults: list[str] = field(default_factory=list)

    def console(self, message: ConsoleMessage) -> None:
        """Errors that the browser reports."""
        if message.type == "error":
            self.faults.append(f"console: {message.text}")

    def request(self, url: str) -> None:
        """Requests that leave this computer."""
        parts = urlsplit(url)
        if parts.scheme not in ("data", "blob") and parts.hostname not in (
            "127.0.0.1",
            "localhost",
        ):
            self.faults.append(f"request: {url}")


@pytest.fixture
def visit(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Opens a page in a browser of its own; fails on any fault seen until the test ends."""
    watch, pages = Watch(), []

    def visit(url: str, width: int = 1280, scheme: str = "light") -> Page:
        context = browser.new_context(
            viewport={"width": width, "height": 900 if width > 500 else 844},
            color_scheme=scheme,  # type: ignore[arg-type]
            reduced_motion="reduce",
        )
        context.set_default_timeout(SECONDS * 1000)
        page = context.new_page()
        page.on("console", watch.console)
        page.on("pageerror", lambda error: watch.faults.append(f"script: {error}"))
        page.on("request", lambda request: watch.request(request.url))
        page.on("websocket", lambda socket: watch.request(socket.url))
        pages.append(page)
        page.goto(url)
        return page

    yield visit
    for page in pages:
        if not page.is_closed():
            if "Traceback" in page.locator("body").inner_text():
                watch.faults.append("a trace on the page")
            page.context.close()
    assert not watch.faults


@pytest.fixture
def shot() -> Callable[[Page, str], None]:
    """Writes a screenshot into the folder that ``SCREENSHOTS`` names, if it names one."""

    def shot(page: Page, name: str) -> None:
        if folder := os.environ.get("SCREENSHOTS"):
            page.screenshot(path=Path(folder) / f"{name}.png")

    return shot
