"""Records that can be reached from a few others: a bounded best-first search; the best path to each node counts.

Every step multiplies a score by 1 at most, so that nodes are reached in the order of their scores, and a hub's edges,
heaviest first, are looked at only as far as the search goes: a million of them cost no more than `max_nodes`.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from math import isnan

from retrieve_cli.frozen import Frozen
from retrieve_cli.retrieval.graph.graph import Graph, Group, Node, field_of
from retrieve_cli.retrieval.graph.walks import Path, PathStep, Walk, damping, direction, walk_of

Seed = tuple[int, float]
"""A record's row and its score."""
DECAY = 0.7
"""Share of its score that a record passes on over one edge."""
_NOWHERE = (0, "", "")
"""Place of the node before a seed."""


class WalkLimits(Frozen):
    """Limits of a search."""

    depth: int = 2
    """Steps from a seed at most: an edge between two records is one, an edge to or from any other node half of one."""
    max_nodes: int = 200
    """Nodes that are visited at most, the seeds among them."""
    walks: Mapping[str, Walk] | None = None
    """By the name of a direction, how it is walked, and no other is; None: all, in their own ways."""


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


def expand(graph: Graph, seeds: Sequence[Seed], reach: WalkLimits) -> list[Path]:
    """Return the best path to each record that is found by walking, best first, then in order of ids.

    A seed is among them if a path from another one gives it more than its own score. Seeds without a score above 0
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
    """The fewest half steps by which a node was reached so far."""
    heap: list[tuple[_Order, _Label, Iterator[tuple[_Order, _Label]]]] = [
        ((-score, 0, graph.order(node), _NOWHERE, "", True), _Label(node, 0, score), iter(()))
        for node, score in _best_seeds(seeds)
        if graph.has(node)
    ]
    """Labels, each with those that its edge's kind and direction lead to after it."""
    heapq.heapify(heap)
    while heap:
        _, label, siblings = heapq.heappop(heap)
        for following in islice(siblings, 1):
            heapq.heappush(heap, (*following, siblings))
        if label.hops >= closed.get(label.node, label.hops + 1):
            continue
        if label.node not in best:
            if len(best) >= reach.max_nodes:
                break
            best[label.node] = label
        closed[label.node] = label.hops
        for group in graph.groups(label.node, walks) if label.hops < 2 * reach.depth else ():
            ends = _ends(graph, label, group, walk=walks[group.kind, group.forward], limit=reach.max_nodes)
            labels = _labels(graph, label, group, ends=ends, closed=closed, most=2 * reach.depth)
            for first in islice(labels, 1):
                heapq.heappush(heap, (*first, labels))
    found = [label.path for label in best.values() if label.hops and isinstance(label.node, int)]
    return sorted(found, key=lambda path: (-path.score, graph.order(path.node)))


def _best_seeds(seeds: Iterable[Seed]) -> list[Seed]:
    """Return each seed once, with the best of its scores."""
    best: dict[int, float] = {}
    for node, score in seeds:
        if score > max(0.0, best.get(node, 0.0)):
            best[node] = score
    return list(best.items())


def _labels(
    graph: Graph,
    label: _Label,
    group: Group,
    *,
    ends: Iterable[tuple[Node, float]],
    closed: Mapping[Node, int],
    most: int,
) -> Iterator[tuple[_Order, _Label]]:
    """Yield the labels of at most so many half steps to which edges of a group lead, best first.

    Those that are known by then to be worse than another are skipped: `closed` has the fewest half steps to each node.
    """
    for node, weight in ends:
        hops = label.hops + (2 if isinstance(label.node, int) and isinstance(node, int) else 1)
        score = label.score * weight
        if score <= 0:
            return
        if hops <= most and hops < closed.get(node, hops + 1):
            order = -score, hops, graph.order(node), graph.order(label.node), group.kind, group.forward
            yield order, _Label(node, hops, score, PathStep(node, group.kind, weight, group.forward), label)


def _ends(graph: Graph, label: _Label, group: Group, *, walk: Walk, limit: int) -> Iterator[tuple[Node, float]]:
    """Yield the ends of a group's edges with the weight of each step, of which a search that visits `limit` nodes needs
    no more: those behind lead to nodes that are at most as good."""
    factor = _kept(graph, label, group, walk)
    largest = graph.largest[group.kind]
    for end, weight in group.ends(limit) if factor > 0 else ():
        yield end, weight / largest * factor


def _kept(graph: Graph, label: _Label, group: Group, walk: Walk) -> float:
    """Return the share of a score that is kept on the way to the ends of a group of edges, their weights aside."""
    to_holders = not group.forward and field_of(label.node) == group.kind
    if to_holders and group.total > walk.most * graph.records:
        return 0.0
    factor = 1.0
    if isinstance(label.node, int):
        factor = walk.weight * DECAY
    elif not to_holders and not walk.once:
        factor = walk.weight
    is_damped = walk.damped == "always" or (walk.damped == "later" and label.hops > 0)
    return factor * damping(group.total, graph.records) if is_damped else factor
