"""Servers that speak OpenSearch's API, started once for all tests that need them and stopped at the end.

`osmem` is osmem-server: everything but vectors and snapshots. `noida` is noida-db, which speaks Elasticsearch's API,
behind a translation of the few requests in which the two differ: it has vectors.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from http.client import HTTPConnection, HTTPException
from importlib.util import find_spec
from pathlib import Path

import pytest
from engines.opensearch_translation import translated
from told_servers import free_port, serving
from waiting import PATIENCE_S, until


class Osmem:
    """A process of osmem-server."""

    def __init__(self) -> None:
        self.url = ""
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Start it, unless it runs."""
        if self._process is None:
            command = [_binary("osmem_server", "bin/osmem-server"), "-no-ja", "-parent-pid", str(os.getpid())]
            environment = {**os.environ, "GOMEMLIMIT": str(2 << 30)}
            command.append("-no-stdin-watch")
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
            assert self._process.stdout is not None
            self.url = json.loads(self._process.stdout.readline())["url"]

    def kill(self) -> None:
        """End the process at once."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


class Noida:
    """A process of noida-db and the translation in front of it."""

    def __init__(self, folder: Path) -> None:
        self.url = ""
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start both, unless they run."""
        if self._process is None:
            port = free_port()
            command = [_binary("noida_db", "noida-db"), "start", "--only", "elasticsearch"]
            command += ["--data-dir", str(self._folder), "--elasticsearch-port", str(port)]
            self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            until(lambda: self._answers(port), "noida-db to answer")
            self._servers = ExitStack()
            self.url = self._servers.enter_context(serving(lambda asked: translated(asked, port)))

    def kill(self) -> None:
        """End the process at once, and the translation."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._servers.close()
            self._process = None

    def _answers(self, port: int) -> bool:
        connection = HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
        try:
            connection.request("GET", "/")
            return bool(connection.getresponse().read())
        except (OSError, HTTPException):
            if self._process is not None and self._process.poll() is not None:
                pytest.skip("noida-db does not start on this machine")
            return False
        finally:
            connection.close()


@pytest.fixture(scope="session")
def osmem_process() -> Iterator[Osmem]:
    """A server in memory, without vectors."""
    server = Osmem()
    yield server
    server.kill()


@pytest.fixture(scope="session")
def noida_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Noida]:
    """A server with vectors."""
    server = Noida(tmp_path_factory.mktemp("noida"))
    yield server
    server.kill()


def _binary(package: str, name: str) -> str:
    pytest.importorskip("opensearchpy", reason="pip install 'retrieve-cli[opensearch]'")
    found = find_spec(package)
    if found is None or found.origin is None:
        pytest.skip("no server: pip install osmem-server==0.1.6 noida-db==0.2.3")
    binary = Path(found.origin).parent / name
    if not binary.exists():
        pytest.skip(f"{package} has no server for this kind of machine")
    binary.chmod(0o755)
    return str(binary)
