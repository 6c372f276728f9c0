"""Start of a process that parses documents."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from retrieve_cli.documents.processes.kernel_rules import missing

_KEPT = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "PYTHONHOME", "SYSTEMROOT", "PATH")
"""Variables of the environment that may be needed to start Python. No other one is passed on: they hold secrets."""
_ENVIRONMENT = {
    "LC_ALL": "C.UTF-8",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONSAFEPATH": "1",
    "PYTHONNOUSERSITE": "1",
    "PYTHONUTF8": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MALLOC_ARENA_MAX": "2",
}


def state_file() -> Any:
    """Return a file without a name."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("documents"), "w+b")
    return tempfile.TemporaryFile()


@cache
def say_what_is_missing() -> None:
    """Say on standard error, once in a run, what this kernel lacks for a complete sandbox."""
    if lacks := missing():
        print(f"Documents are parsed with less protection here: {'; '.join(lacks)}.", file=sys.stderr)


def start(state: int, memory_bytes: int) -> subprocess.Popen[bytes]:
    """Start a process. It is another program, not a copy of this one, which may have threads and locks.

    The search path for modules is that of this process, without the folder that is current at the time.
    """
    say_what_is_missing()
    package = str(Path(__file__).parents[3])
    paths = os.pathsep.join([*(path for path in sys.path if Path(path).is_absolute()), package])
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    words = [sys.executable, "-m", "retrieve_cli.documents.processes.child"]
    return subprocess.Popen(  # noqa: S603  this program
        [*words, str(os.getpid()), str(state), str(memory_bytes)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
        pass_fds=(state,),
        env={**kept, **_ENVIRONMENT, "PYTHONPATH": paths},
        cwd="/",
        start_new_session=True,  # the terminal of the user is not its terminal
    )
