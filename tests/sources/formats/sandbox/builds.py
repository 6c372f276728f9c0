"""The program with a parser that does what a file says, for files named `.rst`."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parents[3]
PROGRAM = """
import sys
from retrieve_cli.sources.formats import formats
formats.FORMATS["rst"] = formats.FORMATS["rst"]._replace(module="sources.formats.sandbox.odd_parsers", distributions=())
from retrieve_cli.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


def write(folder: Path, name: str, do: str, argument: Any = None, page: int = 0) -> None:
    """Write a file on which the parser does something."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(json.dumps({"do": do, "with": argument, "page": page}))


@contextmanager
def heeding_interrupts() -> Iterator[None]:
    """Let processes that are started here heed SIGINT, which a job in the background ignores."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def start(*arguments: object, **environment: str) -> subprocess.Popen[str]:
    """Start the program."""
    readable = [path for path in sys.path if Path(path).name == "readable"]  # see conftest.py
    paths = os.pathsep.join([str(TESTS), str(TESTS.parent), *readable])
    with heeding_interrupts():
        return subprocess.Popen(
            [sys.executable, "-W", "error", "-c", PROGRAM, *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": paths, **environment},
            start_new_session=True,
        )


def ended(pid: int) -> bool:
    """Return True if a process is no more, or waits for its parent to say so."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def children(pid: int) -> list[int]:
    """Return the processes that a process has started and that live."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = path.read_text().rpartition(")")[2].split()[:2]
        except OSError:
            continue
        if int(parent) == pid and state not in "ZX":
            found.append(int(path.parent.name))
    return found
