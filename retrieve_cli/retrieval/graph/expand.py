"""Records that can be reached from a few others: a bounded best-first search; the best path to each node counts.

Every step multiplies a score by 1 at most, so that nodes are reached in the order of their scores, and a hub's edges,
heaviest first, are looked at only as far as the search goes: a million of them cost no more than `max_nodes`.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import isnan
from typing import TYPE_CHECKING

from retrieve_cli.frozen import Frozen
from retrieve_cli.retrieval.graph.graph import Graph, Group, View
from retrieve_cli.retrieval.graph.walks import Path, PathStep, Walk, damping, direction, walk_of

if TYPE_CHECKING:
    from retrieve_cli.contracts import Mask

Seed = tuple[int, float]
"""A record's row and its score."""
_Ways = tuple[Walk | None, Walk | None]
"""Walks of a kind backwards and forwards, None if it is not walked."""


class WalkLimits(Frozen):
    """Limits of a search."""

    depth: int = 2
    """Steps from a seed at most: an edge between two records is one, an edge to or from any other node half of one."""
    max_nodes: int = 200
    """Nodes that are visited at most, the seeds among them."""
    decay: float = 0.7
    """Share of a score that is kept when a record is left."""
    damping: float = 1.0
    """Exponent of the damping of a node that many share; 0: none is damped."""
    walks: Mapping[str, Walk] | None = None
    """By the name of a direction, how it is walked, and no other is; None: all, in their own ways."""

    @property
    def halves(self) -> int:
        """The depth in half steps."""
        return 2 * self.depth


class _Label(Frozen):
    """A node as one path reached it."""

    node: int
    hops: int
    """Half steps."""
    score: float
    step: PathStep | None = None
    parent: _Label | None = None

    @property
    def path(self) -> Path:
        steps: list[PathStep] = []
        label = self
        while label.step is not None and label.parent is not None:
            steps.append(label.step)
            label = label.parent
        return Path(label.node, tuple(reversed(steps)), self.score)


_Order = tuple[float, int, int, int, str, bool]
"""Score, half steps, node, the node before, kind and direction: no two labels have the same."""


class _Cursor:
    """The edges of one kind and direction that leave a label, as the labels that they lead to, best first."""

    def __init__(
        self, label: _Label, kind: str, forward: bool, steps: Iterator[tuple[int, float]], hops: Callable[[int], int]
    ) -> None:
        """`hops` gives the half steps of a label at a node, or more than are allowed."""
        self._label = label
        self._kind = kind
        self._forward = forward
        self._steps = steps
        self._hops = hops

    def advance(self, closed: Mapping[int, int], most: int) -> _Waiting | None:
        """The next label of at most so many half steps that is not known to be worse than another; None at the end.

        `closed` are the fewest half steps by which a node was reached so far, by node.
        """
        for node, weight in self._steps:
            hops = self._hops(node)
            if hops > most or hops >= closed.get(node, hops + 1):
                continue
            score = self._label.score * weight
            if score <= 0:
                return None
            label = _Label(node, hops, score, PathStep(node, self._kind, weight, self._forward), self._label)
            return (-score, hops, node, self._label.node, self._kind, self._forward), label, self
        return None


_Waiting = tuple[_Order, _Label, _Cursor | None]
"""A label on the heap, and where the one after it comes from."""


def expand(graph: Graph, seeds: Sequence[Seed], reach: WalkLimits, visible: Mask | None = None) -> list[Path]:
    """Return the best path to each record that is found by walking, best first, then in order of rows.

    A seed is among them where a path from another one gives it more than its own score. Seeds without a score above 0
    start nothing. With `visible`, (records,) bool, only these records are there: none of the others is found, stepped
    on or counted.

    Raises:
        ValueError: the score of a seed is not a number.
    """
    if any(isnan(score) for _, score in seeds):
        raise ValueError("the score of a seed is not a number")
    view = None if visible is None else View(graph, visible)
    walks = [(walk_of(direction(kind, forward=False), reach.walks), walk_of(kind, reach.walks)) for kind in graph.kinds]
    best: dict[int, _Label] = {}
    closed: dict[int, int] = {}
    heap: list[_Waiting] = [
        ((-score, 0, node, -1, "", True), _Label(node, 0, score), None)
        for node, score in _best_seeds(seeds)
        if view is None or view.has(node)
    ]
    heapq.heapify(heap)
    while heap:
        _, label, cursor = heapq.heappop(heap)
        if cursor is not None and (following := cursor.advance(closed, reach.halves)):
            heapq.heappush(heap, following)
        if label.hops >= closed.get(label.node, label.hops + 1):
            continue
        if label.node not in best:
            if len(best) >= reach.max_nodes:
                break
            best[label.node] = label
        closed[label.node] = label.hops
        if label.hops < reach.halves:
            for opened in _cursors(graph, label, walks, reach, view):
                if first := opened.advance(closed, reach.halves):
                    heapq.heappush(heap, first)
    found = [label.path for label in best.values() if label.hops and label.node < graph.records]
    return sorted(found, key=lambda path: (-path.score, path.node))


def _best_seeds(seeds: Iterable[Seed]) -> list[Seed]:
    """Each seed once, with the best of its scores."""
    best: dict[int, float] = {}
    for node, score in seeds:
        if score > max(0.0, best.get(node, 0.0)):
            best[node] = score
    return list(best.items())


def _cursors(
    graph: Graph, label: _Label, walks: Sequence[_Ways], reach: WalkLimits, view: View | None
) -> Iterator[_Cursor]:
    at_record = label.node < graph.records

    def hops(node: int) -> int:
        return label.hops + (2 if at_record and node < graph.records else 1)

    for group in graph.groups(label.node):
        walk = walks[group.kind][group.forward]
        if walk is not None and (factor := _kept(graph, label, group, walk, reach, view)) > 0:
            steps = _steps(graph, group, factor, reach.max_nodes, view)
            yield _Cursor(label, graph.kinds[group.kind], group.forward, steps, hops)


def _kept(graph: Graph, label: _Label, group: Group, walk: Walk, reach: WalkLimits, view: View | None) -> float:
    """The share of a score that is kept on the way to the ends of a group of edges, their weights aside."""
    at_record = label.node < graph.records
    to_holders = not at_record and not group.forward and graph.is_value(label.node, graph.kinds[group.kind])
    if at_record:
        factor = walk.weight * reach.decay
    else:
        factor = float(walk.weight > 0) if to_holders or walk.once else walk.weight
    damped = walk.damped == "always" or (walk.damped == "later" and label.hops > 0)
    if factor > 0 and (damped or (to_holders and walk.most < 1)):
        edges, records = (group.end - group.start, graph.records) if view is None else (view.count(group), view.records)
        if to_holders and edges > walk.most * records:
            return 0.0
        factor *= float(damping(edges, records) ** reach.damping) if damped else 1.0
    return factor


def _steps(graph: Graph, group: Group, factor: float, limit: int, view: View | None) -> Iterator[tuple[int, float]]:
    """The ends of a group's edges with the weight of each step, of which a search that visits `limit` nodes needs no
    more: those behind lead to nodes that are at most as good."""
    largest = max(1.0, graph.largest[group.kind])
    if view is not None:
        return ((end, weight / largest * factor) for end, weight in view.edges(group, limit))
    ends, weights = group.edges.edges(group.start, min(group.end, group.start + limit))
    return ((end, weight / largest * factor) for end, weight in zip(ends, weights, strict=True))
