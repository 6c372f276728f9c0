"""A server that speaks OpenSearch's API, started once for all tests that need it and stopped at the end.

It is noida-db, which speaks Elasticsearch's API, behind a translation of the few requests in which the two differ.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from urllib.request import urlopen

import pytest
from engines.opensearch_translation import translated
from told_servers import free_port, serving
from waiting import PATIENCE_S, until


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
            command = [_binary(), "start", "--only", "elasticsearch"]
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
        if self._process is not None and self._process.poll() is not None:
            pytest.skip("noida-db does not start on this machine")
        try:
            with urlopen(f"http://127.0.0.1:{port}/", timeout=PATIENCE_S) as response:
                return bool(response.read())
        except OSError:
            return False


@pytest.fixture(scope="session")
def noida_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Noida]:
    """A running server."""
    server = Noida(tmp_path_factory.mktemp("noida"))
    yield server
    server.kill()


def _binary() -> str:
    pytest.importorskip("opensearchpy", reason="pip install 'retrieve-cli[opensearch]'")
    package = find_spec("noida_db")
    if package is None or package.origin is None:
        pytest.skip("no server: pip install noida-db==0.2.3")
    binary = Path(package.origin).with_name("noida-db")
    if not binary.exists():
        pytest.skip("noida-db has no server for this kind of machine")
    binary.chmod(0o755)
    return str(binary)
