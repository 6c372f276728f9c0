"""Crews of local processes, and what becomes of texts."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from waiting import pause

from retrieve_cli.contracts.models import Encoded
from retrieve_cli.models.executors.coordinator import Admission, Coordinator
from retrieve_cli.models.executors.local import LocalWorker, MachineShare
from retrieve_cli.models.executors.scheduler import Policy
from retrieve_cli.models.executors.workers import WorkerSlot

FACTORY = "worker_encoders:slow"
Crews = Callable[..., Coordinator]


@dataclass
class Collected:
    """Receives results and reasons by place."""

    results: dict[int, Encoded] = field(default_factory=dict)
    reasons: dict[int, str] = field(default_factory=dict)
    first: int = 0
    """Place of the first of the texts that are encoded now."""

    def done(self, places: Sequence[int], results: Sequence[Encoded]) -> None:
        found = {place + self.first: result for place, result in zip(places, results, strict=True)}
        assert not self.results.keys() & found.keys()
        self.results.update(found)

    def failed(self, place: int, reason: str) -> None:
        self.reasons[place + self.first] = reason


class Hired(Coordinator):
    """A crew that knows its processes and what it said."""

    processes: list[tuple[str, LocalWorker]]
    said: list[str]


@contextmanager
def each_killed_three_times(crews: Sequence[Hired], *, seed: int) -> Iterator[None]:
    """While the block runs, kill each of the eight workers of the last crew three times, at random moments."""
    kills = dict.fromkeys((f"worker {place}" for place in range(1, 9)), 0)
    ended = threading.Event()

    def kill() -> None:
        chance = random.Random(seed)
        while not ended.is_set() and min(kills.values()) < 3:
            pause(chance.uniform(0.02, 0.2), why="a kill at a random moment")
            ready = [name for crew in crews for name, slot in list(crew._slots.items()) if slot.ready]
            rarest = [name for name in ready if kills[name] == min(kills.values())]
            if rarest:
                name = chance.choice(rarest)
                next(worker for own, worker in reversed(crews[-1].processes) if own == name).kill()
                kills[name] += 1

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        yield
    finally:
        ended.set()
        killer.join()
    assert min(kills.values()) >= 3


@pytest.fixture(autouse=True)
def _encoders_for_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))


@pytest.fixture
def crew() -> Iterator[Crews]:
    """Function that makes a crew of processes; it is closed at the end."""
    made: list[Hired] = []

    def hire(
        count: int, settings: Any = None, *, admission: Admission | None = None, policy: Policy | None = None
    ) -> Hired:
        processes: list[tuple[str, LocalWorker]] = []
        said: list[str] = []

        def open_one(name: str, own: Any) -> LocalWorker:
            processes.append((name, LocalWorker(FACTORY, own, MachineShare(1))))
            return processes[-1][1]

        seats = []
        for place in range(count):
            name = f"worker {place + 1}"
            own = settings[place] if isinstance(settings, list) else settings or {}
            seats.append(WorkerSlot(name, lambda name=name, own=own: open_one(name, own)))  # type: ignore[misc]
        hired = Hired(seats, admission or Admission(None), policy=policy or Policy(), say=said.append)
        hired.processes, hired.said = processes, said
        made.append(hired)
        return hired

    yield hire
    for each in made:
        each.close()
        assert all(worker._process.wait(0) is not None for _, worker in each.processes)
