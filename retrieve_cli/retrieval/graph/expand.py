"""Records that can be reached from a few others: a bounded best-first search; the best path to each node counts.

Every step multiplies a score by 1 at most, so that nodes are reached in the order of their scores, and a hub's edges,
heaviest first, are looked at only as far as the search goes: a million of them cost no more than `max_nodes`.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import isnan

from retrieve_cli.frozen import Frozen
from retrieve_cli.retrieval.graph.graph import Graph, Group, Node, field_of
from retrieve_cli.retrieval.graph.walks import Path, PathStep, Walk, damping, direction, walk_of

Seed = tuple[int, float]
"""A record's row and its score."""
_NOWHERE = (0, "", "")
"""Place of the node before a seed."""


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

    node: Node
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


_Place = tuple[int, str, str]
_Order = tuple[float, int, _Place, _Place, str, bool]
"""Score, half steps, place of the node and of the node before, kind and direction: no two labels have the same."""


class _Cursor:
    """The edges of one kind and direction that leave a label, as the labels that they lead to, best first."""

    def __init__(self, graph: Graph, label: _Label, group: Group, steps: Iterator[tuple[Node, float]]) -> None:
        self._order = graph.order
        self._label = label
        self._kind, self._forward = group.kind, group.forward
        self._steps = steps

    def advance(self, closed: Mapping[Node, int], most: int) -> _Waiting | None:
        """The next label of at most so many half steps that is not known to be worse than another; None at the end.

        `closed` are the fewest half steps by which a node was reached so far, by node.
        """
        for node, weight in self._steps:
            between = isinstance(self._label.node, int) and isinstance(node, int)
            hops = self._label.hops + (2 if between else 1)
            if hops > most or hops >= closed.get(node, hops + 1):
                continue
            score = self._label.score * weight
            if score <= 0:
                return None
            label = _Label(node, hops, score, PathStep(node, self._kind, weight, self._forward), self._label)
            places = self._order(node), self._order(self._label.node)
            return (-score, hops, *places, self._kind, self._forward), label, self
        return None


_Waiting = tuple[_Order, _Label, _Cursor | None]
"""A label on the heap, and where the one after it comes from."""


def expand(graph: Graph, seeds: Sequence[Seed], reach: WalkLimits) -> list[Path]:
    """Return the best path to each record that is found by walking, best first, then in order of ids.

    A seed is among them where a path from another one gives it more than its own score. Seeds without a score above 0
    start nothing.

    Raises:
        ValueError: the score of a seed is not a number.
    """
    if any(isnan(score) for _, score in seeds):
        raise ValueError("the score of a seed is not a number")
    ways = [(kind, forward) for kind in graph.kinds for forward in (True, False)]
    named = {(kind, forward): walk_of(direction(kind, forward=forward), reach.walks) for kind, forward in ways}
    walks = {way: walk for way, walk in named.items() if walk is not None and walk.weight > 0}
    best: dict[Node, _Label] = {}
    closed: dict[Node, int] = {}
    heap: list[_Waiting] = [
        ((-score, 0, graph.order(node), _NOWHERE, "", True), _Label(node, 0, score), None)
        for node, score in _best_seeds(seeds)
        if graph.has(node)
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
            for opened in _cursors(graph, label, walks, reach):
                if first := opened.advance(closed, reach.halves):
                    heapq.heappush(heap, first)
    found = [label.path for label in best.values() if label.hops and isinstance(label.node, int)]
    return sorted(found, key=lambda path: (-path.score, graph.order(path.node)))


def _best_seeds(seeds: Iterable[Seed]) -> list[Seed]:
    """Each seed once, with the best of its scores."""
    best: dict[int, float] = {}
    for node, score in seeds:
        if score > max(0.0, best.get(node, 0.0)):
            best[node] = score
    return list(best.items())


def _cursors(
    graph: Graph, label: _Label, walks: Mapping[tuple[str, bool], Walk], reach: WalkLimits
) -> Iterator[_Cursor]:
    for group in graph.groups(label.node, walks):
        factor = _kept(graph, label, group, walks[group.kind, group.forward], reach)
        if factor > 0:
            yield _Cursor(graph, label, group, _steps(graph, group, factor, reach.max_nodes))


def _kept(graph: Graph, label: _Label, group: Group, walk: Walk, reach: WalkLimits) -> float:
    """The share of a score that is kept on the way to the ends of a group of edges, their weights aside."""
    to_holders = not group.forward and field_of(label.node) == group.kind
    if to_holders and group.total > walk.most * graph.records:
        return 0.0
    factor = 1.0
    if isinstance(label.node, int):
        factor = walk.weight * reach.decay
    elif not to_holders and not walk.once:
        factor = walk.weight
    is_damped = walk.damped == "always" or (walk.damped == "later" and label.hops > 0)
    return factor * float(damping(group.total, graph.records) ** reach.damping) if is_damped else factor


def _steps(graph: Graph, group: Group, factor: float, limit: int) -> Iterator[tuple[Node, float]]:
    """The ends of a group's edges with the weight of each step, of which a search that visits `limit` nodes needs no
    more: those behind lead to nodes that are at most as good."""
    largest = graph.largest[group.kind]
    return ((end, weight / largest * factor) for end, weight in group.ends(limit))
