"""A PostgreSQL server of the tests' own, on a Unix socket in a temporary folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

_INSTALL = (
    "The tests need PostgreSQL's server programs (initdb, postgres). Install them: "
    "`apt-get install postgresql` on Debian, `brew install postgresql` on macOS."
)
_START_SECONDS = 60


def _program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        candidates = Path("/usr/lib/postgresql").glob(f"*/bin/{name}")
        newest = max(candidates, key=lambda path: int(path.parts[-3]), default=None)
        found = str(newest) if newest else None
    if found is None:
        pytest.fail(_INSTALL)
    return found


@pytest.fixture(scope="session")
def postgres_socket() -> Iterator[Path]:
    """A running server: the folder of its socket. The superuser is ``fenestra``, no password."""
    initdb, postgres = _program("initdb"), _program("postgres")
    # PostgreSQL refuses to run as root.
    user = "nobody" if os.geteuid() == 0 else None
    # Not pytest's own temporary folder: a socket's path has at most 107 bytes, and another user
    # must be able to reach it.
    folder = Path(tempfile.mkdtemp(prefix="fenestra-pg-"))
    try:
        if user is not None:
            shutil.chown(folder, user)
        subprocess.run(
            [
                initdb,
                "--pgdata=data",
                "--username=fenestra",
                "--auth=trust",
                "--encoding=UTF8",
                "--locale=C",
                "--no-sync",
            ],
            cwd=folder,
            user=user,
            check=True,
            stdout=subprocess.DEVNULL,
        )
        with (folder / "log").open("w") as log:
            server = subprocess.Popen(
                [
                    postgres,
                    "-D",
                    "data",
                    "-k",
                    str(folder),
                    "-c",
                    "listen_addresses=",
                    "-c",
                    "fsync=off",
                ],
                cwd=folder,
                user=user,
                stdout=log,
                stderr=log,
            )
        try:
            _wait_until_up(server, folder)
            yield folder
        finally:
            server.terminate()
            try:
                server.wait(10)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()
    finally:
        shutil.rmtree(folder)


def _connect(socket: Path) -> psycopg.Connection:
    return psycopg.connect(host=str(socket), user="fenestra", dbname="postgres", autocommit=True)


def _wait_until_up(server: subprocess.Popen[bytes], folder: Path) -> None:
    for _ in range(_START_SECONDS * 10):
        try:
            _connect(folder).close()
        except psycopg.OperationalError:
            if server.poll() is not None:
                break
            time.sleep(0.1)
        else:
            return
    pytest.fail(f"PostgreSQL did not start:\n{(folder / 'log').read_text()}")


@pytest.fixture(scope="session")
def new_postgres_url(postgres_socket: Path) -> Callable[[], str]:
    """Makes an empty database at each call and returns its URL."""

    def new() -> str:
        name = f"test_{uuid.uuid4().hex}"
        with _connect(postgres_socket) as connection:
            connection.execute(f'CREATE DATABASE "{name}" TEMPLATE template0')
        return f"postgresql://fenestra@/{name}?host={postgres_socket}"

    return new
