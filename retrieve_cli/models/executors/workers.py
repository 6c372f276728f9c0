"""The promise of a worker to its coordinator. Transports keep it: local processes, servers, Ray."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol

from retrieve_cli.contracts import Json
from retrieve_cli.contracts.executors import Encoded, Wanted


class Hello(NamedTuple):
    """The first request to a process."""

    factory: str
    """"module:function", which returns `encoding.Encoders` for the settings."""
    settings: Json
    threads: int
    paths: Sequence[str]
    """Search path for modules."""
    probes: Sequence[str]


class WorkUnit(NamedTuple):
    """Texts of a unit."""

    unit: int
    texts: Sequence[str]
    wanted: Sequence[Wanted]


class UnitResults(NamedTuple):
    """Encodings of some texts of a unit."""

    places: Sequence[int]
    encoded: Sequence[Encoded]
    truncated: int = 0
    """Number of these texts that were truncated."""


class ProbeAnswer(NamedTuple):
    """Cards and device of a worker, and its encodings of the probes."""

    cards: Json
    """Cards of its encoders; None if it cannot tell them."""
    probes: Sequence[Encoded]
    about: str = ""
    """Device or address, in words."""


class WorkerEnded(Exception):
    """The worker is gone, with its unit; the text gives the reason."""


class Unfit(Exception):
    """The worker cannot be used: its model is missing or is another model. The text gives the reason."""


class NotEncoded(Exception):
    """The worker lives, and could not encode the texts without a result; the text gives the reason."""


class EncodingWorker(Protocol):
    """Encodes one unit at a time. All methods but `kill` are called from one thread, and may block."""

    def start(self, probes: Sequence[str]) -> ProbeAnswer:
        """Make the worker ready, and return the encoded probes. Raises: WorkerEnded, Unfit."""

    def encode(self, work: WorkUnit) -> Iterator[UnitResults]:
        """Yield results as they come, first of all none: the texts of a unit that was begun may be why a worker ends.

        Raises:
            WorkerEnded, NotEncoded
        """

    def kill(self) -> None:
        """End it at once, from any thread."""

    def close(self) -> None:
        """End it, and free what belongs to it."""


class WorkerSlot(NamedTuple):
    """A place for a worker, which is replaced if it ends."""

    name: str
    """For people and for the scheduler: "worker 3", "http://a:8080"."""
    open: Callable[[], EncodingWorker]
    """Returns a new worker. Raises: OSError if this machine cannot start it."""
