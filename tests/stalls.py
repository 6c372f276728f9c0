"""Work whose time might grow with the square of its input: it is ended, instead of holding up all other tests."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager

from waiting import PATIENCE_S

STALLED_CPU_S = PATIENCE_S / 10
"""CPU seconds: time that grows with the input takes a few of them, with its square many times as many."""


@contextmanager
def ending() -> Iterator[None]:
    """Fail if the work takes more than STALLED_CPU_S of CPU time, whatever else the machine does."""

    def stalled(*_: object) -> None:
        raise TimeoutError("it is still at work")

    before = signal.signal(signal.SIGVTALRM, stalled)
    signal.setitimer(signal.ITIMER_VIRTUAL, STALLED_CPU_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
