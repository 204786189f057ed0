"""How the screens are served: their settings, how they start and end, what errors become."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import sys
import traceback
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import streamlit as st
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import RedirectResponse
from starlette.routing import Route
from streamlit import config

from rag.errors import SettingsError
from rag.ui.guard import Guard, is_loopback

MAIN = Path(__file__).with_name("main.py")

CONFIG: dict[str, Any] = {
    "global.disableWidgetStateDuplicationWarning": True,
    "server.address": "127.0.0.1",
    "server.allowedHosts": ["localhost", "127.0.0.1", "[::1]"],
    "server.fileWatcherType": "none",
    "server.headless": True,
    "server.maxUploadSize": 200,
    "server.showEmailPrompt": False,
    "browser.gatherUsageStats": False,
    "client.showErrorDetails": "none",
    "client.showErrorLinks": False,
    "client.toolbarMode": "viewer",
    "logger.enableRich": False,
    "logger.hideWelcomeMessage": True,
    "logger.level": "warning",
    "theme.headingFontSizes": ["2rem", "1.6rem", "1.25rem", "1.1rem", "1rem", "1rem"],
    "theme.light.primaryColor": "#0b6e5f",
    "theme.light.backgroundColor": "#ffffff",
    "theme.light.secondaryBackgroundColor": "#f3f6f5",
    "theme.light.textColor": "#1c2624",
    "theme.dark.primaryColor": "#5cc8b4",
    "theme.dark.backgroundColor": "#121716",
    "theme.dark.secondaryBackgroundColor": "#1d2523",
    "theme.dark.textColor": "#e6ecea",
}
"""What ``.streamlit/config.toml`` says, for an installed package that has no such file."""

_BEYOND = (
    "Fenestra has no sign-in and serves this computer only, but server.address is {address!r}. "
    "Start it without --server.address, or with --server.address 127.0.0.1."
)


def refuse_beyond_loopback() -> None:
    """End the process with a sentence if Streamlit is told to serve other computers.

    Raises:
        SystemExit: ``server.address`` is unset, which means every network, or not loopback.
    """
    address = config.get_option("server.address")
    if not is_loopback(address):
        raise SystemExit(_BEYOND.format(address=address or "every network"))


@asynccontextmanager
async def lifespan(_: Any) -> AsyncIterator[None]:
    """Open the library as the server starts, without making it wait; close it at the end."""
    from rag.ui import resources

    port = config.get_option("server.port")
    sys.stdout.write(f"Fenestra is on http://127.0.0.1:{port} (Ctrl+C stops it)\n")
    sys.stdout.flush()
    opening = asyncio.create_task(asyncio.to_thread(resources.prepare))
    try:
        yield
    finally:
        await opening
        await asyncio.to_thread(resources.close)


def to_page(request: Request) -> RedirectResponse:
    """Lead a browser that asks for a page's address to it by way of the start page.

    Opened below the root, Streamlit's client first looks for its server there, which leaves two
    errors in the console.
    """
    return RedirectResponse(f"/?page={request.url.path.strip('/')}")


class _OneLine(logging.Filter):
    """Turns the trace of an error that no page expected into one line."""

    def filter(self, record: logging.LogRecord) -> bool:
        if isinstance(record.exc_info, tuple) and (error := record.exc_info[1]) is not None:
            frames = traceback.extract_tb(error.__traceback__)
            where = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
            record.msg = f"A page failed: {type(error).__name__}: {error}{where}"
            record.args, record.exc_info, record.exc_text = (), None, None
        return True


def on_script_error(error: Exception) -> bool:
    """Show a plain sentence in place of an error that no page expected."""
    st.error(
        f"Something went wrong on this page ({type(error).__name__}). Nothing was lost. "
        "Reload the page; if it happens again, the line in the terminal says more.",
        icon=":material/error:",
    )
    return True


def options() -> dict[str, Any]:
    """What ``st.App`` is given besides its script."""
    logging.getLogger("streamlit.error_util").addFilter(_OneLine())
    return {
        "routes": [Route("/documents", to_page)],
        "middleware": [Middleware(Guard)],
        "lifespan": lifespan,
        "on_script_error": on_script_error,
    }


def serve(port: int) -> int:
    """Serve the screens on 127.0.0.1 until stopped, and return the exit code.

    Args:
        port: 1 to 65535, or 0 for any that is free.

    Raises:
        SettingsError: the port is taken, reserved or out of range.
    """
    _check_port(port)
    app = st.App(MAIN, **options())
    # The command line belongs to Fenestra; Streamlit reads settings beside the script it names.
    sys.argv = [str(MAIN)]
    try:
        app.run(config={**CONFIG, "server.port": port})
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 1
    except KeyboardInterrupt:
        return 0
    return 0


def _check_port(port: int) -> None:
    try:
        with socket.socket() as probe:
            if sys.platform != "win32":
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((CONFIG["server.address"], port))
    except OverflowError:
        raise SettingsError(f"There is no port {port}. Choose one from 1024 to 65535.") from None
    except OSError as error:
        reason = {
            errno.EADDRINUSE: "is taken by another program",
            errno.EACCES: "is reserved by the system",
        }.get(error.errno or 0, f"cannot be used ({error.strerror})")
        raise SettingsError(
            f"Port {port} {reason}. Stop that program or choose another port with --port."
        ) from None
