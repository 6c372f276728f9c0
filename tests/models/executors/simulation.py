"""A virtual clock, and workers that take their time on it: what the scheduler makes of them, without waiting."""

import heapq
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from retrieve_cli.models.executors.scheduler import GivenUp, Policy, Scheduler

_COUNT = count()
TICK_S = 0.25
"""Seconds after which a worker without work is offered some again, as the real loop does."""


@dataclass
class Outcome:
    """What a simulated run came to."""

    seconds: float = 0.0
    results: list[int] = field(default_factory=list)
    """Texts by the order of their first result."""
    encoded: int = 0
    """Texts that were encoded, again or not."""
    efficiency: float = 0.0
    """Seconds that the work takes if no worker ever waits, per second that it took."""
    most_open: int = 0
    given_up: list[GivenUp] = field(default_factory=list)


def lengths(number: int, seed: int) -> dict[int, int]:
    """Tokens of texts by number, as chunks have them: few of full length, many shorter."""
    chance = random.Random(seed)
    return {place: max(4, min(256, int(chance.lognormvariate(4.6, 0.6)))) for place in range(number)}


@dataclass
class Simulation:
    """Workers by name with their tokens per second, and what happens to them."""

    speeds: Mapping[str, float]
    policy: Policy = field(default_factory=Policy)
    overhead_s: float = 0.01
    """Seconds that each unit costs beside its texts."""
    start_s: float = 2.0
    """Seconds that a worker which has ended takes to be ready again."""
    deaths: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """Seconds at which each worker is killed."""
    poison: frozenset[int] = frozenset()
    stalls: frozenset[str] = frozenset()
    """Workers that never answer their second unit."""
    jitter: Callable[[], float] = lambda: 1.0
    """Factor of a unit's time."""
    batch: int = 2048

    def run(self, texts: Mapping[int, int]) -> Outcome:
        """Encode texts, given by their tokens."""
        self._scheduler, self._outcome, self._texts = Scheduler(self.policy), Outcome(), texts
        self._events: list[tuple[float, int, str, str, Any]] = []
        self._lives, self._units = dict.fromkeys(self.speeds, 0), dict.fromkeys(self.speeds, 0)
        for worker in self.speeds:
            self._at(0.0, "ready", worker)
            for time in self.deaths.get(worker, ()):
                self._at(time, "killed", worker)
        self._at(TICK_S, "tick", "")
        items, now = list(texts.items()), 0.0
        waiting = [dict(items[start : start + self.batch]) for start in range(0, len(items), self.batch)]
        while waiting or not self._scheduler.idle:
            now, _, kind, worker, what = heapq.heappop(self._events)
            getattr(self, f"_{kind}")(now, worker, what)
            self._feed(waiting)
            for name in self.speeds:
                self._lease(name, now)
        self._outcome.seconds, self._outcome.given_up = now, self._scheduler.given_up
        self._outcome.efficiency = sum(texts.values()) / sum(self.speeds.values()) / now
        return self._outcome

    def _at(self, time: float, kind: str, worker: str, what: Any = None) -> None:
        heapq.heappush(self._events, (time, next(_COUNT), kind, worker, what))

    def _feed(self, waiting: list[dict[int, int]]) -> None:
        while waiting and self._scheduler.has_room:
            self._scheduler.add(waiting.pop(0))
            self._outcome.most_open = max(self._outcome.most_open, self._scheduler.open)
        if not waiting:
            self._scheduler.close()

    def _lease(self, name: str, now: float) -> None:
        lease = self._scheduler.next(name, now)
        if lease is None:
            return
        self._units[name] += 1
        if name in self.stalls and self._units[name] == 2:
            return
        clock, factor, life = now + self.overhead_s, self.jitter() / self.speeds[name], self._lives[name]
        self._at(clock, "begun", name, life)
        for text in lease.texts:
            clock += self._texts[text] * factor
            if text in self.poison:
                self._at(clock, "poisoned", name, life)
                return
            self._at(clock, "result", name, (life, text))
        self._at(clock, "finished", name, life)

    def _ready(self, _: float, worker: str, __: None) -> None:
        self._scheduler.join(worker)

    def _killed(self, now: float, worker: str, _: None, reason: str = "signal SIGKILL") -> None:
        self._lives[worker] += 1
        self._scheduler.leave(worker, reason)
        self._at(now + self.start_s, "ready", worker)

    def _poisoned(self, now: float, worker: str, life: int) -> None:
        if life == self._lives[worker]:
            self._killed(now, worker, None)

    def _begun(self, now: float, worker: str, life: int) -> None:
        if life == self._lives[worker]:
            self._scheduler.received(worker, [], now)

    def _result(self, now: float, worker: str, what: tuple[int, int]) -> None:
        life, text = what
        if life == self._lives[worker]:
            self._outcome.encoded += 1
            self._outcome.results += self._scheduler.received(worker, [text], now)

    def _finished(self, now: float, worker: str, life: int) -> None:
        if life == self._lives[worker]:
            self._scheduler.finished(worker, now)

    def _tick(self, now: float, _: str, __: None) -> None:
        self._at(now + TICK_S, "tick", "")
        for late in self._scheduler.overdue(now):
            self._killed(now, late, None, "no sign of life")
