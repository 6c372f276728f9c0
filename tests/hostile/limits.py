"""Limits of a forked child, and waiting for its end."""

from __future__ import annotations

import os
import resource
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from program.clones import Watch
from waiting import pause

from retrieve_cli.cli.main import main

ADDRESSES = 3 << 30
"""Bytes of address space: what may be in memory, and the libraries that a child inherits, which take 0.8 GB of it
before it begins. NumPy, faiss and threads reserve more than they use, so what is in memory is measured besides."""
MEMORY = 2 << 30
"""Bytes that a child may have in memory at once."""
WATCHED = "WATCHED"
"""Names the variable with a folder that a child must not open; nor may it connect to anything."""
CPU_S = 20
WALL_S = 60
OUTPUT = 10 << 20
"""Bytes on stdout, or on stderr."""
FILE = 1 << 30
"""Bytes of any file that it writes."""


@dataclass(frozen=True)
class Ended:
    """Outcome of a command."""

    command: tuple[str, ...]
    code: int
    """Its exit code, negative for the signal that ended it."""
    out: bytes
    err: bytes
    cpu: float
    wall: float
    memory: int
    """Peak memory in bytes."""
    over: str = ""
    """Limit for which it was killed; empty if it kept all limits."""


def limited(arguments: list[str]) -> int:
    """Run the program within the limits: what a child does. What a watched one must not do is noted in `canary`."""
    apply()
    watch = Watch(Path(os.environ[WATCHED])) if WATCHED in os.environ else None
    code = main(arguments)
    if watch and watch.found:
        Path("canary").write_text(str(watch.found[0]))
    return code


def apply(*, cpu_s: int = CPU_S) -> None:
    """Limit what this process may use from now on."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES, ADDRESSES))
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s + 2))
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE, FILE))


def wait(pid: int, command: tuple[str, ...], out: Path, err: Path, *, seconds: float = WALL_S) -> Ended:
    """Wait for a child; kill it if it takes too long or says too much."""
    start, over = time.monotonic(), ""
    looked, step = start, 0.001
    while True:
        ended, status, used = os.wait4(pid, os.WNOHANG)
        if ended:
            break
        now = time.monotonic()
        if not over and now - start > seconds:
            over = f"no end within {seconds:.0f} s"
            os.kill(pid, signal.SIGKILL)
        if not over and now - looked > 0.05:
            looked = now
            if max(out.stat().st_size, err.stat().st_size) > OUTPUT:
                over = f"more than {OUTPUT >> 20} MB of output"
                os.kill(pid, signal.SIGKILL)
        pause(step, why="a child is looked at for its limits, first often and then seldom")
        step = min(step * 1.3, 0.02)
    cpu, wall = used.ru_utime + used.ru_stime, time.monotonic() - start
    texts = [_read(path) for path in (out, err)]
    return Ended(command, os.waitstatus_to_exitcode(status), *texts, cpu, wall, used.ru_maxrss << 10, over)


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(OUTPUT + 1)
