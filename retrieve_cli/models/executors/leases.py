"""Texts that a worker has to encode, and for how long it may keep them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
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
