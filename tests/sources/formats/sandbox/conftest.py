"""Pools of processes that tests share, and the program with a parser that does what a file says."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sources.formats.sandbox.odd_parsers import MB

from retrieve_cli.sources.formats.processes.pool import ParserPool

TESTS = Path(__file__).parents[3]
PROGRAM = """
import sys
from retrieve_cli.sources.formats import formats
formats.FORMATS["rst"] = formats.FORMATS["rst"]._replace(module="sources.formats.sandbox.odd_parsers", distributions=())
from retrieve_cli.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture(scope="module")
def pool() -> Iterator[ParserPool]:
    """One process with little memory, used for all files of a module."""
    with closing(ParserPool(256 * MB, workers=1)) as made:
        yield made


@pytest.fixture
def alone() -> Iterator[ParserPool]:
    """One process that has done nothing yet."""
    with closing(ParserPool(256 * MB, workers=1)) as made:
        yield made


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    """A named pipe outside the folder of documents: a parser that reads it waits for the test."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    return path


def start(*arguments: object, **environment: str) -> subprocess.Popen[str]:
    """Start the program; it heeds SIGINT, which a job in the background ignores."""
    words = [sys.executable, "-W", "error", "-c", PROGRAM, *map(str, arguments)]
    paths = os.pathsep.join([str(TESTS), str(TESTS.parent)])
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "PYTHONPATH": paths, **environment}, start_new_session=True,
        )  # fmt: skip
    finally:
        signal.signal(signal.SIGINT, before)


def ended(pid: int) -> bool:
    """Return True if a process is no more, or waits for its parent to say so."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def children(pid: int) -> list[int]:
    """Return the processes that a process has started and that live."""
    numbers = [
        int(number) for path in Path(f"/proc/{pid}/task").glob("*/children") for number in path.read_text().split()
    ]
    return [number for number in numbers if not ended(number)]
