"""How far each kind of edge carries, what a node shared by many is worth, and the path that led somewhere.

A step multiplies a score by weight of the edge x weight of its kind x decay x damping of the node that it leaves.
Weights above 1 are counts: they are divided by the largest of their kind, so that no step raises a score.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import log

from retrieve_cli.errors import UsageError
from retrieve_cli.frozen import dataclass


@dataclass(frozen=True, slots=True)
class Walk:
    """How edges of a kind are walked."""

    weight: float = 1.0
    """From 0, never, to 1."""
    both: bool = False
    """Also from the target to the source."""
    damped: bool = True
    """Whether a node with many edges of the kind is worth less. What a tool requires it requires, however much that
    is; what it shares with a third of the catalog says little."""

    def __post_init__(self) -> None:
        if not 0 <= self.weight <= 1:
            raise UsageError(f"the weight {self.weight} of a kind of edges is not from 0 to 1")


WALKS: Mapping[str, Walk] = {
    "requires": Walk(1.0, damped=False),
    "part_of": Walk(0.5, both=True),
    "compatible_with": Walk(0.5, both=True),
    "co_occurs": Walk(0.5, both=True),
    "same_domain": Walk(0.25, both=True),
    "is_a": Walk(0.5, both=True),
}
"""The kinds of edges that have a meaning of their own."""
SHARED = Walk(0.25, both=True)
"""All others: values that records share."""


def walk_of(kind: str, walks: Mapping[str, Walk] | None) -> Walk | None:
    """How a kind is walked: as `walks` says, where they are given, and then those alone; else by default."""
    return WALKS.get(kind, SHARED) if walks is None else walks.get(kind)


def damping(edges: int, records: int) -> float:
    """From 1, where a node has one edge of a kind, to 0, where it has one to every record.

    log(n / edges) / log(n): the share of what there is to know about a record, in bits, that is known once it is known
    to be one of these (Spärck Jones 1972's idf, normalised).
    """
    if edges <= 1:
        return 1.0
    return max(0.0, log(records / edges) / log(records)) if records > 1 else 0.0


@dataclass(frozen=True, slots=True)
class Step:
    """One edge of a path, as it was walked."""

    node: int
    """Where it led."""
    kind: str
    weight: float
    """By how much it multiplied the score."""
    forward: bool = True
    """Whether it was walked from its source to its target."""


@dataclass(frozen=True, slots=True)
class Path:
    """How a node was found: what its best path started from, and each step of it."""

    start: int
    steps: tuple[Step, ...]
    score: float
    """That of the start times the weights of the steps."""

    @property
    def node(self) -> int:
        """Where it leads."""
        return self.steps[-1].node

    def rendered(self, label: Callable[[int], str]) -> str:
        """For people: `scanpy_preprocess —requires→ scrublet (0.42)`."""
        text = label(self.start)
        for step in self.steps:
            arrow = f"—{step.kind}→" if step.forward else f"←{step.kind}—"
            text += f" {arrow} {label(step.node)}"
        return f"{text} ({self.score:.2f})"
