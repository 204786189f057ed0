"""What all tests share: nothing reaches beyond loopback, nothing touches the user's library."""

from __future__ import annotations

import ipaddress
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

os.environ["HF_HUB_OFFLINE"] = "1"
for _name in [name for name in os.environ if name.startswith(("FENESTRA_", "OPENAI_"))]:
    if _name != "FENESTRA_CACHE":
        del os.environ[_name]


def _loopback(address: object) -> bool:
    if not isinstance(address, tuple):
        return True  # a Unix socket
    host = str(address[0])
    try:
        return ipaddress.ip_address(host.split("%")[0]).is_loopback
    except ValueError:
        return host == "localhost"


@pytest.fixture(autouse=True, scope="session")
def _no_network() -> Iterator[None]:
    """Refuse every connection beyond loopback that this process tries to make."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("connect", "connect_ex"):
            real = getattr(socket.socket, name)

            def guarded(self: socket.socket, address: object, _real: object = real) -> object:
                if self.family in (socket.AF_INET, socket.AF_INET6) and not _loopback(address):
                    raise AssertionError(f"a test tried to reach {address}")
                return _real(self, address)  # type: ignore[operator]

            patch.setattr(socket.socket, name, guarded)
        yield


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home, set for this test and the processes it starts."""
    folder = tmp_path / "home"
    monkeypatch.setenv("FENESTRA_HOME", str(folder))
    return folder
