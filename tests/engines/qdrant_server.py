"""The substitute for a Qdrant server as a fixture: started once for all tests of a session, on a free port."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

MEMORY = "/dev/shm"
"""A file system in memory, if there is one: the core writes many small files, and waits for each to be on a disk."""


@dataclass(frozen=True)
class Server:
    """A running server."""

    url: str
    folder: Path
    process: subprocess.Popen[str]


@contextmanager
def started(folder: Path, *api_key: str) -> Iterator[Server]:
    """Start the substitute with its data in a folder, and kill it at the end."""
    command = [sys.executable, str(Path(__file__).with_name("qdrant_rest.py")), str(folder), *api_key]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        port = process.stdout.readline().strip()
        assert port, "the substitute for a Qdrant server did not start"
        yield Server(f"http://127.0.0.1:{port}", folder, process)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@contextmanager
def running() -> Iterator[Server]:
    """Start the substitute with its data in a temporary folder."""
    memory = MEMORY if os.access(MEMORY, os.W_OK) else None
    with TemporaryDirectory(dir=memory) as folder, started(Path(folder)) as server:
        yield server


def skip_without_packages() -> None:
    """Skip the test if the client or the core is not installed."""
    for module, package in (("qdrant_client", "qdrant-client"), ("qdrant_edge", "qdrant-edge-py==0.9.0")):
        if find_spec(module) is None:
            pytest.skip(f"needs {package}: pip install '{package}'")


@pytest.fixture(scope="session")
def qdrant() -> Iterator[Server]:
    """A running substitute for a Qdrant server."""
    skip_without_packages()
    with running() as server:
        yield server
