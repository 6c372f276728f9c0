"""The time that an answer has: an optional step is skipped if its last run took longer than the remaining time.

Optional are reranking, expansion, and retrievers on a server, if another retriever answers. A step that did not run yet
in this process is skipped only when no time is left. Its first run does not count: it loads the model.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from retrieve_cli.contracts import Json
from retrieve_cli.errors import Unavailable

_FRESH_S = 60.0
"""Age of a duration that is still used: a server that was slow may have recovered."""


class OutOfTime(Unavailable):
    """A step for which a deadline leaves no time. It is never raised: such a step is skipped."""

    kind = "deadline"


class Durations:
    """The last duration of each step in this process, in seconds for each query. Threads may share it."""

    def __init__(self) -> None:
        self._ran: set[str] = set()
        self._last: dict[str, tuple[float, float]] = {}

    def record(self, step: str, seconds: float) -> None:
        """Remember a run of a step, unless it is the first."""
        if step in self._ran:
            self._last[step] = (seconds, time.monotonic())
        self._ran.add(step)

    def last(self, step: str) -> float:
        """Return the duration of the last run; 0 if it is not known."""
        seconds, at = self._last.get(step, (0.0, 0.0))
        return seconds if time.monotonic() - at <= _FRESH_S else 0.0


class Deadline:
    """The time that one batch of queries has, from when its index began to open."""

    def __init__(self, ms: float | None, *, queries: int, spent: float, durations: Durations) -> None:
        """`ms` is for each query, None for as long as it takes; `spent` are seconds that went already."""
        self._ms = ms
        self._queries = max(queries, 1)
        self._durations = durations
        self._ends = None if ms is None else time.monotonic() - spent + ms * queries / 1000.0

    @property
    def left(self) -> float | None:
        """Seconds; None without a deadline."""
        return None if self._ends is None else max(self._ends - time.monotonic(), 0.0)

    def no_room_for(self, step: str) -> Unavailable | None:
        """Return why a step is to be skipped; None if there is time for it."""
        left, last = self.left, self._durations.last(step)
        if left is None or (left > 0.0 and last * self._queries <= left):
            return None
        took = f"it took {1000.0 * last:.0f} ms the last time, more than" if last else "it does not fit into what"
        message = f"{took} the deadline of {self._ms:g} ms leaves"
        return OutOfTime(message, hint="raise --deadline-ms")

    @contextmanager
    def timed(self, *steps: str) -> Iterator[None]:
        """Run steps and remember how long they took."""
        begun = time.monotonic()
        yield
        for step in steps:
            self._durations.record(step, (time.monotonic() - begun) / self._queries)

    def report(self, asked: Sequence[str], done: Sequence[str], *, took_ms: float) -> Mapping[str, Json] | None:
        """Return the requested steps, those that ran, and if the time was kept; None without a deadline."""
        if self._ms is None:
            return None
        return {"ms": self._ms, "met": took_ms <= self._ms, "asked": list(asked), "done": list(done)}
