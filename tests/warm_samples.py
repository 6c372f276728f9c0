"""What tests of the warm process build on: real processes, answered by it or by themselves."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from waiting import PATIENCE_S, until

BY_ANOTHER = """
import os, sys
sys.argv[0] = "retrieve"
from retrieve_cli.cli.warm.client import answer
code = answer()
os._exit(99 if code is None else code)
"""
"""A command that does not answer by itself: its exit code is 99 then."""
NOT_ANSWERED = 99
_CHANGING = [
    (re.compile(rb'"timings_ms": ?\{[^}]*\}'), b'"timings_ms":{}'),
    (re.compile(rb"\d{8}-\d{6}-[0-9a-f]{6}"), b"RUN"),
    (re.compile(rb"\b\d+(\.\d+)? ms\b"), b"N ms"),
    (re.compile(rb'"total_ms": ?[0-9.]+'), b'"total_ms":0'),
    (re.compile(rb"\b(open|encode|search|rerank|total|total_ms|latency_ms)=[0-9.]+"), b"\\1=N"),
]
"""Times and names of runs, which are others each time."""


class Ended(NamedTuple):
    """What a process left."""

    code: int
    out: bytes
    err: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def environment(**more: str) -> dict[str, str]:
    """The variables of a command; none that measures coverage, which a warm process would not."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("COV_", "COVERAGE_"))}
    return {**kept, **more}


def start(*words: object, warm: bool, folder: Path, **options: Any) -> "subprocess.Popen[bytes]":
    """A command that is answered by the warm process, or answers by itself."""
    flags = ["-c", BY_ANOTHER] if warm else ["-m", "retrieve_cli"]
    own = {} if warm else {"RETRIEVE_QUERY__SERVER": "never"}
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    heeded = signal.signal(signal.SIGINT, signal.default_int_handler)  # which a background job would ignore
    try:
        return subprocess.Popen(
            [sys.executable, *flags, *map(str, words)],
            cwd=folder, env=environment(**{**own, **options.pop("env", {})}), **{**pipes, **options},
        )  # fmt: skip
    finally:
        signal.signal(signal.SIGINT, heeded)


def ask(*words: object, warm: bool, folder: Path, stdin: bytes = b"", **options: Any) -> Ended:
    """What such a command leaves, without what is another each time."""
    process = start(*words, warm=warm, folder=folder, **options)
    out, err = process.communicate(stdin, timeout=PATIENCE_S)
    for pattern, same in _CHANGING:
        out, err = pattern.sub(same, out or b""), pattern.sub(same, err or b"")
    return Ended(process.returncode, out, err)


def command(*words: object, folder: Path, **env: str) -> Ended:
    """What any other command leaves."""
    done = subprocess.run(
        [sys.executable, "-m", "retrieve_cli", *map(str, words)],
        cwd=folder, env=environment(**env), capture_output=True, timeout=PATIENCE_S,
    )  # fmt: skip
    return Ended(done.returncode, done.stdout, done.stderr)


def socket_of(artifacts: Path) -> Path:
    return artifacts / f"serve-{os.geteuid()}.sock"


def copies(pid: int) -> list[int]:
    """The processes that a process has started and that have not ended."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def runs(pid: int) -> bool:
    """Return True if a process has not ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


class Warm:
    """The warm process of an index."""

    def __init__(self, folder: Path, *words: object, **env: str) -> None:
        """`folder` is the one that commands are given in; the index lies in its `artifacts` unless `words` say else."""
        self.folder = folder
        self.words = words
        done = command("serve", "--background", "--json", *words, folder=folder, **env)
        assert done.code == 0, done.err
        self.pid: int = done.json["pid"]

    def asked(self, *words: object, **options: Any) -> Ended:
        """What a command leaves that it answers."""
        return ask(*words, warm=True, folder=self.folder, **options)

    def cold(self, *words: object, **options: Any) -> Ended:
        """What the same command leaves that answers by itself."""
        return ask(*words, warm=False, folder=self.folder, **options)

    def both(self, *words: object, **options: Any) -> tuple[Ended, Ended]:
        return self.asked(*words, **options), self.cold(*words, **options)

    @property
    def runs(self) -> bool:
        return runs(self.pid)

    def end(self) -> None:
        if self.runs:
            os.kill(self.pid, signal.SIGTERM)
        until(lambda: not self.runs, "the warm process ends")


def lines(*queries: str | dict[str, Any]) -> bytes:
    """Queries as standard input."""
    texts: Sequence[str] = [query if isinstance(query, str) else json.dumps(query) for query in queries]
    return "".join(f"{text}\n" for text in texts).encode()
