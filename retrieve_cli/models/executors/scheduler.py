"""The division of texts among workers: pure decisions, without clocks, threads, processes or networks.

The caller reports every event and its time. The longest texts of a batch come first. If a worker that has begun a
unit ends, or gives no sign for the time of its lease, one of its texts may be the reason: its remaining texts are
halved, and halved again with each worker that ends with it, until one text is alone. A text that ends several workers
alone is given up. Towards the end units become smaller, and a worker without work encodes again what a much slower one
still has.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import NamedTuple

from retrieve_cli.frozen import Frozen


class Policy(Frozen):
    """Limits of the scheduler."""

    unit_tokens: int = 16_384
    """Tokens that a worker gets at a time, at most; a longer text comes alone."""
    unit_texts: int = 512
    window: int = 4096
    """Texts that are queued or leased at most before the scheduler accepts no more."""
    lease_s: float = 300.0
    """Seconds without a result after which a worker is taken for dead."""
    kills: int = 3
    """Workers that a text may end, alone in its unit, before it is given up."""
    share: float = 2.0
    """Towards the end a unit is this fraction of a worker's fair share of the remaining texts, so that all end
    together,"""
    least_tokens: int = 512
    """and at least this many tokens: a unit costs some time beside its texts."""
    patience: float = 2.0
    """A text is encoded twice if waiting for it takes this many times as long as encoding it again."""


class Lease(NamedTuple):
    """A unit of work, as a worker gets it."""

    number: int
    texts: tuple[int, ...]
    """Numbers of the texts, the longest first."""
    tokens: int


class GivenUp(NamedTuple):
    """A text that no worker survives or encodes."""

    text: int
    reason: str


@dataclass(slots=True, eq=False)
class Unit:
    """A lease that has not ended, and its texts without a result."""

    lease: Lease
    worker: str
    left: dict[int, int]
    """Tokens of the texts that have no result from this worker yet."""
    since: float
    renewed: float
    suspect: bool = False
    """True if its texts are the rest of a unit during which a worker ended."""
    begun: bool = False
    """True if the worker has given a sign of it: one that ended before, idle, did not end because of these texts."""
    copied: bool = False
    """True if another worker got the same texts, or this one got another one's."""


@dataclass(slots=True, eq=False)
class Speeds:
    """Tokens per second of each worker, as measured."""

    of: dict[str, float] = field(default_factory=dict)

    def measured(self, worker: str, tokens: int, seconds: float) -> None:
        """Take in a unit that a worker encoded; later ones count more."""
        now = tokens / max(seconds, 1e-6)
        before = self.of.get(worker)
        self.of[worker] = now if before is None else 0.5 * before + 0.5 * now

    def get(self, worker: str) -> float | None:
        """Return the speed of a worker, the mean of all if it has not been measured; None if none has been."""
        return self.of.get(worker) or (sum(self.of.values()) / len(self.of) if self.of else None)

    def share(self, worker: str, present: Mapping[str, object]) -> float:
        """Return the part of all work that a worker does while these are present."""
        own = self.get(worker)
        if own is None:
            return 1 / max(len(present), 1)
        return own / max(sum(self.get(other) or 0.0 for other in present), own)


class Scheduler:
    """Texts by number, and the workers that have them. Not for several threads at once."""

    def __init__(self, policy: Policy | None = None) -> None:
        self.policy = policy or Policy()
        self.given_up: list[GivenUp] = []
        """Texts that are not encoded, in the order in which they were given up."""
        self._queue: list[tuple[int, int, int]] = []
        """A heap of batch, tokens below 0, number."""
        self._queued_tokens = 0
        self._suspects: deque[dict[int, int]] = deque()
        self._open: dict[int, int] = {}
        """Tokens of texts that are neither encoded nor given up."""
        self._units: dict[str, Unit] = {}
        self._present: dict[str, None] = {}
        self._speeds = Speeds()
        self._kills: dict[int, int] = {}
        self._batches = 0
        self._number = 0
        self._closed = False

    # ------------------------------------------------------------------------------------------ texts

    def add(self, texts: Mapping[int, int]) -> None:
        """Queue a batch: the tokens of texts by their numbers, which no other text ever had. Batches keep their
        order."""
        for number, tokens in texts.items():
            self._open[number] = tokens
            heappush(self._queue, (self._batches, -tokens, number))
            self._queued_tokens += tokens
        self._batches += 1
        self._closed = False

    def close(self) -> None:
        """Note that nothing is added for now: the queue is divided so that all workers end together."""
        self._closed = True

    @property
    def open(self) -> int:
        """Texts that are neither encoded nor given up."""
        return len(self._open)

    @property
    def idle(self) -> bool:
        """True if every text is encoded or given up."""
        return not self._open

    @property
    def has_room(self) -> bool:
        """True if more texts may be added; else results have to come first."""
        return self.open < self.policy.window

    # ------------------------------------------------------------------------------------------ workers

    def join(self, worker: str) -> None:
        """Note that a worker is ready."""
        self._present[worker] = None

    def next(self, worker: str, now: float) -> Lease | None:
        """Return work for an idle worker; None if there is no work for it now."""
        if worker not in self._present or worker in self._units:
            return None
        if (suspects := self._suspected()) is not None:
            return self._lease(worker, suspects, now, suspect=True)
        if self._queue:
            return self._lease(worker, self._fresh(worker), now)
        slow = self._slowest(worker, now)
        if slow is None:
            return None
        slow.copied = True
        return self._lease(worker, dict(slow.left), now, copied=True)

    def received(self, worker: str, texts: Iterable[int], now: float) -> list[int]:
        """Return which of these results of a worker are the first of their text; the others are not needed. No
        results: it has begun its unit."""
        unit = self._units.get(worker)
        if unit is not None:
            unit.begun = True
        new = []
        for number in texts:
            if unit is not None and number in unit.left:
                del unit.left[number]
                unit.renewed = now
            if self._open.pop(number, None) is not None:
                new.append(number)
                self._kills.pop(number, None)
        return new

    def finished(self, worker: str, now: float, reason: str = "") -> None:
        """End the lease of a worker that stays. It could not encode the remaining texts, for this reason."""
        unit = self._units.pop(worker, None)
        if unit is None:
            return
        if done := unit.lease.tokens - sum(unit.left.values()):
            self._speeds.measured(worker, done, now - unit.since)
        self._blame(unit, reason or "a worker left it without a vector")

    def leave(self, worker: str, reason: str) -> None:
        """Note that a worker has ended, and queue its texts again."""
        self._present.pop(worker, None)
        unit = self._units.pop(worker, None)
        if unit is None:
            return
        if unit.begun:
            self._blame(unit, reason)
        elif left := self._left(unit):
            self._suspects.append(left)

    def overdue(self, now: float) -> list[str]:
        """Return the workers that have given no sign for too long; the caller ends them and calls `leave`."""
        late = []
        for worker, unit in self._units.items():
            speed = self._speeds.of.get(worker)  # a slow one has more patience
            patience = max(self.policy.lease_s, 8 * unit.lease.tokens / speed if speed else 0.0)
            late += [worker] if now - unit.renewed > patience else []
        return late

    # ------------------------------------------------------------------------------------------ decisions

    def _lease(
        self, worker: str, texts: Mapping[int, int], now: float, *, suspect: bool = False, copied: bool = False
    ) -> Lease:
        self._number += 1
        lease = Lease(self._number, tuple(sorted(texts, key=lambda text: (-texts[text], text))), sum(texts.values()))
        self._units[worker] = Unit(lease, worker, dict(texts), now, now, suspect=suspect, copied=copied)
        return lease

    def _suspected(self) -> dict[int, int] | None:
        """Return a group of texts with which a worker has ended, as far as they still have no result."""
        while self._suspects:
            group = {number: tokens for number, tokens in self._suspects.popleft().items() if number in self._open}
            if group:
                return group
        return None

    def _fresh(self, worker: str) -> dict[int, int]:
        """Take texts from the queue: as many as fit in a unit, at least one."""
        most = float(self.policy.unit_tokens)
        if self._closed:
            fair = self._queued_tokens * self._speeds.share(worker, self._present)
            most = min(most, max(fair / self.policy.share, self.policy.least_tokens))
        texts: dict[int, int] = {}
        total, batch = 0, self._queue[0][0]
        while self._queue and len(texts) < self.policy.unit_texts:
            order, below, number = self._queue[0]
            # A unit does not mix the shortest texts of a batch with the longest of the next one.
            if texts and (total - below > most or (order != batch and total > most / 2)):
                break
            heappop(self._queue)
            texts[number] = -below
            total -= below
        self._queued_tokens -= total
        return texts

    def _slowest(self, worker: str, now: float) -> Unit | None:
        """Return the unit that is worth encoding again, the one that would end last."""
        own = self._speeds.get(worker)
        if own is None:
            return None
        late = [
            (left, unit)
            for unit in self._units.values()
            if not (unit.copied or unit.suspect) and (left := self._time_left(unit, now))
            if left > self.policy.patience * sum(unit.left.values()) / own
        ]
        return max(late, key=lambda pair: pair[0])[1] if late else None

    def _time_left(self, unit: Unit, now: float) -> float:
        """Return the seconds that a unit will still take; one that is late will be as late again. 0 if it is done."""
        speed = self._speeds.get(unit.worker)
        if not unit.left or speed is None:
            return 0.0
        late = now - unit.since - unit.lease.tokens / speed
        return max(sum(unit.left.values()) / speed, late)

    def _left(self, unit: Unit) -> dict[int, int]:
        """Return the texts without a result that only this worker had, with their tokens."""
        open_ = self._open.keys() - {number for other in self._units.values() for number in other.left}
        return {number: tokens for number, tokens in unit.left.items() if number in open_}

    def _blame(self, unit: Unit, reason: str) -> None:
        """Queue again what a unit left, in halves, unless another worker has it; give up a text that was alone too
        often."""
        left = self._left(unit)
        if not left:
            return
        if len(unit.lease.texts) > 1:
            items, middle = list(left.items()), (len(left) + 1) // 2
            self._suspects.extend(dict(half) for half in (items[:middle], items[middle:]) if half)
            return
        (number,) = left
        self._kills[number] = self._kills.get(number, 0) + 1
        if self._kills[number] < self.policy.kills:
            self._suspects.append(left)
            return
        del self._open[number], self._kills[number]
        self.given_up.append(GivenUp(number, reason))
