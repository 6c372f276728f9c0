"""Work whose time might grow with the square of its input, or that might wait for ever: it is ended by a failure."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from waiting import PATIENCE_S

STALLED_CPU_S = PATIENCE_S / 10
"""CPU seconds: time that grows with the input takes a few of them, with its square many times as many."""


@contextmanager
def ending(*, waiting: bool = False) -> Iterator[None]:
    """Fail if the work takes more than STALLED_CPU_S of CPU time, or, if it may be waiting, PATIENCE_S of the clock."""
    timer, number, limit = signal.ITIMER_VIRTUAL, signal.SIGVTALRM, STALLED_CPU_S
    if waiting:
        timer, number, limit = signal.ITIMER_REAL, signal.SIGALRM, PATIENCE_S

    def stalled(*_: object) -> None:
        pytest.fail(f"it is still at work, or waits, after {limit:g} seconds")

    before = signal.signal(number, stalled)
    signal.setitimer(timer, limit)
    try:
        yield
    finally:
        signal.setitimer(timer, 0)
        signal.signal(number, before)
