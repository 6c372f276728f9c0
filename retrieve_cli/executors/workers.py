"""The promise of a worker to its coordinator. Transports keep it: local processes, servers, Ray."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol

from retrieve_cli.executors.messages import Answer, Results, Work


class WorkerEnded(Exception):
    """The worker is gone, with the unit that it had; the text says why."""


class Unfit(Exception):
    """The worker will never be of use: its model is missing, or it is another one. The text says why."""


class NotEncoded(Exception):
    """The worker lives, and could not encode what it has not returned; the text says why."""


class Worker(Protocol):
    """Encodes one unit at a time. All methods but `kill` are called from one thread, and may block."""

    def start(self, probes: Sequence[str]) -> Answer:
        """Make it ready, and return what it makes of the probes. Raises: WorkerEnded, Unfit."""

    def encode(self, work: Work) -> Iterator[Results]:
        """Yield results as they come. Raises: WorkerEnded, NotEncoded."""

    def kill(self) -> None:
        """End it at once, from any thread."""

    def close(self) -> None:
        """End it, and free what belongs to it."""


class Seat(NamedTuple):
    """A place for a worker, which is replaced if it ends."""

    name: str
    """For people and for the scheduler: "worker 3", "http://a:8080"."""
    open: Callable[[], Worker]
    """Returns a new worker. Raises: OSError if this machine cannot start it."""
