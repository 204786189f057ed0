"""How a chat server is reached: its address, fit to show, and a client for it."""

from __future__ import annotations

from urllib.parse import urlsplit

import httpx2
import openai

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})

_CONNECT_SECONDS = 10.0
_RETRIES = 2
_LONGEST_RETRY_WAIT = 10
"""Seconds. A server that asks for a longer pause is not asked again: the user decides."""


def new_client(base_url: str, key: str | None, *, direct: bool) -> openai.AsyncOpenAI:
    """Return a client that sets no time limit on answers; its user does.

    Args:
        base_url: address up to ``/v1``.
        key: a placeholder is sent if ``None``, as local servers want.
        direct: pass by any proxy set in the environment, which cannot know this machine's
            loopback.
    """
    timeout = openai.Timeout(None, connect=_CONNECT_SECONDS)
    return openai.AsyncOpenAI(
        base_url=base_url,
        api_key=key or "none",
        max_retries=_RETRIES,
        timeout=timeout,
        http_client=openai.DefaultAsyncHttpxClient(
            trust_env=not direct, timeout=timeout, event_hooks={"response": [_no_long_wait]}
        ),
    )


def shown_address(url: str) -> tuple[str | None, str]:
    """Return the host, ``None`` if this is no address, and the address without credentials."""
    try:
        parsed = httpx2.URL(url)
        # The client takes addresses that no host has; the standard library is stricter.
        known = bool(urlsplit(url).hostname) and urlsplit(url).port != 0
    except (httpx2.InvalidURL, ValueError):
        known = False
    if not known or parsed.scheme not in ("http", "https"):
        return None, url.rpartition("@")[2]
    return parsed.host, str(parsed.copy_with(username=None, password=None, query=None))


async def _no_long_wait(response: httpx2.Response) -> None:
    """Keep the client from sleeping through a long ``Retry-After``."""
    wait = response.headers.get("retry-after")
    if wait is not None and not (wait.isdecimal() and int(wait) <= _LONGEST_RETRY_WAIT):
        response.headers["x-should-retry"] = "false"
