"""Waiting for states: the one place of the suite that sleeps, and the one limit for what hangs.

A test waits for a state (a file, an answer, the end of a process), never for a time that should be enough. PATIENCE_S
bounds what will never happen; no test passes or fails by how fast the machine is. On a machine that is slower than
any we know, TEST_PATIENCE=10 multiplies it.
"""

import os
import subprocess
import time
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")
PATIENCE_S = 300.0 * float(os.environ.get("TEST_PATIENCE", "1"))
"""Seconds without progress after which something is said to hang: for `timeout=` of processes, threads and requests."""
_PAUSE_S = 0.01


def until(state: Callable[[], T], what: str = "the state", *, progress: Callable[[], object] | None = None) -> T:
    """Ask for a state until it holds (is true), and return it.

    `progress` says how far the work is: the patience begins again whenever its value changes. Fails after PATIENCE_S
    without progress, with `what` was waited for and what the state was.
    """
    reached = progress() if progress else None
    end = time.monotonic() + PATIENCE_S
    while not (value := state()):
        if progress and (now := progress()) != reached:
            reached, end = now, time.monotonic() + PATIENCE_S
        if time.monotonic() > end:
            raise AssertionError(f"waited {PATIENCE_S:g} s for {what}; it is {value!r}")
        time.sleep(_PAUSE_S)
    return value


def brought_about(process: subprocess.Popen[Any], state: Callable[[], T], what: str) -> T:
    """Wait for a state that a process brings about; a process that ends before it is a failure with its exit code."""

    def reached() -> T:
        if not (value := state()) and process.poll() is not None and not (value := state()):
            raise AssertionError(f"the process ended with {process.returncode} before {what}")
        return value

    return until(reached, what)


def pause(seconds: float, *, why: str) -> None:
    """Sleep, for a reason that is no waiting: a random moment for a kill, or a fake that is slow on purpose."""
    time.sleep(seconds)
