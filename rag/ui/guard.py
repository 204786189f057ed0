"""What stands before the screens: answers for this computer only, headers that tame content."""

from __future__ import annotations

import base64
import hashlib
import ipaddress
import logging
import re
from pathlib import Path

import streamlit as st
from starlette.datastructures import MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocketDisconnected

from rag.ui.style import SCROLL_TO_QUESTION

_log = logging.getLogger(__name__)


def _inline_scripts() -> str:
    """The inline scripts that may run, by their hashes: Streamlit's own, and Fenestra's."""
    start_page = Path(st.__file__).parent.joinpath("static", "index.html").read_text("utf-8")
    scripts = re.findall(r"<script>(.*?)</script>", start_page + SCROLL_TO_QUESTION, re.DOTALL)
    digests = (hashlib.sha256(script.encode()).digest() for script in scripts)
    return " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)


# Nothing is fetched from elsewhere and no other script runs, so that neither a picture nor
# markup in an answer or a document can do anything, should it ever get past the escaping.
_POLICY = {
    "default-src": "'self'",
    # Streamlit's charts compile expressions; no inline script but the known ones may do so.
    "script-src": f"'self' 'unsafe-eval' {_inline_scripts()}",
    "style-src": "'self' 'unsafe-inline'",
    "img-src": "'self' data: blob:",
    "media-src": "'self' data: blob:",
    "font-src": "'self' data:",
    "connect-src": "'self'",
    "worker-src": "'self' blob:",
    "frame-src": "'none'",
    "frame-ancestors": "'none'",
    "form-action": "'self'",
    "base-uri": "'none'",
    "object-src": "'none'",
}

HEADERS = {
    "Content-Security-Policy": "; ".join(f"{name} {value}" for name, value in _POLICY.items()),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


def is_loopback(address: str | None) -> bool:
    """Whether an address, or the name ``localhost``, means this computer alone."""
    if address is None:
        return False
    if address.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(address.strip("[]")).is_loopback
    except ValueError:
        return False


class Guard:
    """ASGI middleware: answers this computer only, and sets :data:`HEADERS`.

    It looks at where each connection comes from, so it holds whichever server runs the app.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        client = scope.get("client")
        if client is not None and not is_loopback(client[0]):
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008})
            else:
                refusal = PlainTextResponse(
                    "Fenestra has no sign-in and answers only the computer it runs on.\n", 403
                )
                await refusal(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        try:
            await self._app(scope, receive, send_with_headers)
        except WebSocketDisconnected:
            _log.debug("a browser left while it was being written to")
