"""A budget of time for an answer: which costly steps do not fit, by their measured costs.

Steps are skipped in one order until the rest fits: reranking first, then the costliest retriever. A retriever without
cost always answers. The cost of a step is measured on this machine: the first time in a process, when its model has yet
to be loaded, and later times. Until it is measured, an estimate is used. Time in which other processes had the
processor does not count: one query on a busy machine must not make later ones lose a retriever.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import RLock

from retrieve_cli.contracts import Json
from retrieve_cli.errors import Unavailable
from retrieve_cli.storage import durable
from retrieve_cli.untrusted.files import CONFIG, read_text

_GUESS = {
    "search": (0.01, 0.005),
    "results": (0.03, 0.001),
    "maxsim": (0.1, 0.02),
    "cross_encoder": (4.0, 1.0),
    "remote": (0.5, 0.5),
    "llm": (5.0, 5.0),
}
"""Seconds of a step that was never measured: the first time in a process, and after that for each query. Retrievers
bring their own."""
_UNKNOWN = (1.0, 1.0)
"""The same of a step without an estimate."""
_MOST_STEPS = 256
"""Steps that are read from a file."""
_ALWAYS = ("search", "results")
"""Steps of every answer: running the retrievers, and reading the results."""
_LONGEST = 3600.0


class OutOfTime(Unavailable):
    """A step for which a deadline leaves no time. It is never raised: such a step is skipped."""

    kind = "deadline"


class Costs:
    """Cost of steps on this machine, in seconds; kept in a file, which may be lost or unwritable.

    Threads may share one.
    """

    def __init__(self, path: Path, guesses: Mapping[str, tuple[float, float]] | None = None) -> None:
        """`guesses` are estimates for steps before they were measured, in addition to the built-in ones."""
        self._path = path
        self._guesses = {**_GUESS, **(guesses or {})}
        self._known: dict[str, list[float]] | None = None
        self._warm: set[str] = set()
        self._lock = RLock()

    def expected(self, step: str, queries: int) -> float:
        """Seconds that a step will take over a batch of `queries`."""
        with self._lock:
            first, next_ = self._of(step)
            return next_ * queries if step in self._warm else first + next_ * (queries - 1)

    def record(self, step: str, seconds: float, queries: int) -> None:
        """Learn from a run of a step, half-way: no single run decides."""
        with self._lock:
            first, next_ = self._of(step)
            if step in self._warm:
                seen = seconds / queries
                next_ = (next_ + seen) / 2 if step in self._costs else seen
            else:
                seen = max(seconds - next_ * (queries - 1), 0.0)
                first = (first + seen) / 2 if step in self._costs else seen
                next_ = min(next_, first)
            self._warm.add(step)
            self._costs[step] = [first, next_]

    def save(self) -> None:
        """Keep measured costs for the next process; a failure to write them is ignored."""
        with suppress(OSError), self._lock:
            durable.replace_later(self._path, json.dumps(self._costs))

    def _of(self, step: str) -> Sequence[float]:
        return self._costs.get(step) or self._guesses.get(step, _UNKNOWN)

    @property
    def _costs(self) -> dict[str, list[float]]:
        if self._known is None:
            try:
                steps = list(json.loads(read_text(self._path, limit=CONFIG)).items())[:_MOST_STEPS]
                self._known = {step: [_seconds(cost) for cost in costs] for step, costs in steps if len(costs) == 2}
            except (OSError, ValueError, TypeError, AttributeError, KeyError, RecursionError):  # no file of costs
                self._known = {}
        return self._known


def busy_clock() -> float:
    """Return seconds by a clock that stops while this thread is ready to run and other processes run instead.

    Waiting for a disk or a server counts. Without Linux's account of the thread it is a usual clock.
    """
    try:
        with open("/proc/thread-self/schedstat", "rb", buffering=0) as account:  # noqa: PTH123  several times a query
            waited = int(account.read(100).split()[1])
    except (OSError, ValueError, IndexError):
        waited = 0
    return time.perf_counter() - waited / 1e9


def _seconds(value: Json) -> float:
    if not 0 <= value < _LONGEST:
        raise ValueError(f"{value} seconds")
    return float(value)


class Deadline:
    """The time that one batch of queries has, from when its index began to open."""

    def __init__(self, ms: float | None, *, queries: int, spent: float, costs: Costs) -> None:
        """`ms` is for each query, None for as long as it takes; `spent` are seconds that went already."""
        self._ms = ms
        self._queries = max(queries, 1)
        self._costs = costs
        self._ends = None if ms is None else time.perf_counter() - spent + ms * queries / 1000.0

    @property
    def left(self) -> float | None:
        """Seconds; None where there is no deadline."""
        return None if self._ends is None else max(self._ends - time.perf_counter(), 0.0)

    def skipped(self, steps: Sequence[str], *, needed: Sequence[str]) -> dict[str, Unavailable]:
        """Of `steps`, in the order in which they are to be given up, those that there is no time for, and why.

        `needed` are the steps that run in any case.
        """
        if (left := self.left) is None:
            return {}
        costs = {step: self._costs.expected(step, self._queries) for step in (*steps, *needed, *_ALWAYS)}
        found: dict[str, Unavailable] = {}
        for step in steps:
            if sum(costs.values()) <= left:
                break
            del costs[step]
            found[step] = self._why(step)
        return found

    def no_room_for(self, step: str) -> Unavailable | None:
        """Why there is no time left for a step; None where there is."""
        left = self.left
        return None if left is None or self._expected(step, "results") <= left else self._why(step)

    def _expected(self, *steps: str) -> float:
        return sum(self._costs.expected(step, self._queries) for step in steps)

    @contextmanager
    def timed(self, step: str) -> Iterator[None]:
        """Run a step and record its cost."""
        begun = busy_clock()
        yield
        self.record(step, busy_clock() - begun)

    def record(self, step: str, seconds: float) -> None:
        """Learn what a step cost."""
        self._costs.record(step, max(seconds, 0.0), self._queries)

    def report(self, asked: Sequence[str], done: Sequence[str], *, took_ms: float) -> Mapping[str, Json] | None:
        """Return the steps that were requested and those that ran, and if the time was kept; None without a deadline.

        What the steps cost is kept for the next process."""
        if self._ms is None:
            return None
        self._costs.save()
        return {"ms": self._ms, "met": took_ms <= self._ms, "asked": list(asked), "done": list(done)}

    def _why(self, step: str) -> Unavailable:
        took = 1000.0 * self._expected(step) / self._queries
        message = f"it takes about {took:.0f} ms, more than the deadline of {self._ms:g} ms leaves"
        return OutOfTime(message, hint="raise --deadline-ms")
