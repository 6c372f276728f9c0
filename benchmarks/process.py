"""Whole commands: seconds, processor seconds, peak memory and what was read from disk, in turn with a peer."""

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT.parent / "shared" / "data"
WORK = ROOT / "build" / "bench"
RETRIEVE = (str(Path(sys.executable).with_name("retrieve")),)
NAIVE = (sys.executable, str(ROOT / "benchmarks" / "naive.py"))
ENVIRONMENT = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
"""Both sides run from compiled files, as installed programs do."""


@dataclass(frozen=True)
class Run:
    """Resources that a finished process used."""

    seconds: float
    mebibytes: float
    output: str
    errors: str
    cpu: float = 0.0
    """Processor seconds of all its threads, user and system."""
    read: float = 0.0
    """Mebibytes that came from the disk, those of mapped files included."""
    code: int = 0


def run(
    command: Sequence[str],
    *,
    stdin: str | None = None,
    fails: bool = False,
    environment: Mapping[str, str] = ENVIRONMENT,
    folder: Path = WORK,
    limit: float | None = None,
) -> Run:
    """Runs a command to its end in a folder of its own, so that no config.yaml is at hand.

    `limit` is the most GiB of address space that it may have.
    """
    folder.mkdir(parents=True, exist_ok=True)
    out, err, given = folder / "out.txt", folder / "err.txt", folder / "in.txt"
    given.write_text(stdin or "", "utf-8")
    if limit is not None:
        command = ("/bin/sh", "-c", f'ulimit -v {int(limit * 2**20)}; exec "$@"', "sh", *command)
    with out.open("wb") as stdout, err.open("wb") as stderr, given.open("rb") as source:
        begun = time.perf_counter()
        process = subprocess.Popen(command, stdin=source, stdout=stdout, stderr=stderr, cwd=folder, env=environment)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - begun
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode and not fails:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}:\n{err.read_text('utf-8')}")
    return Run(
        seconds,
        usage.ru_maxrss / 1024,
        out.read_text("utf-8"),
        err.read_text("utf-8"),
        cpu=usage.ru_utime + usage.ru_stime,
        read=usage.ru_inblock * 512 / 2**20,
        code=process.returncode,
    )


def in_turn(ours: Sequence[str], peer: Sequence[str], *, rounds: int) -> tuple[list[Run], list[Run], float]:
    """Both commands in turn, `rounds` times after an unmeasured one; and the median of the ratios peer / ours."""
    run(ours), run(peer)
    pairs = [(run(ours), run(peer)) for _ in range(rounds)]
    ratio = statistics.median(theirs.seconds / mine.seconds for mine, theirs in pairs)
    return [mine for mine, _ in pairs], [theirs for _, theirs in pairs], ratio


def median(runs: Sequence[Run]) -> float:
    """Median seconds."""
    return statistics.median(run.seconds for run in runs)
