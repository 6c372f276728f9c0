"""Personalised PageRank: where a walker ends up who keeps returning to a few records (Haveliwala 2002)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from retrieve_cli.errors import UsageError
from retrieve_cli.retrieval.graph.adjacency import EdgeList
from retrieve_cli.retrieval.graph.graph import Graph, View
from retrieve_cli.retrieval.graph.walks import Walk, direction, walk_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from retrieve_cli.contracts import Mask, Rows

    Floats = NDArray[np.float64]


class PageRank:
    """The transitions of a graph, made ready for any number of walks."""

    def __init__(self, graph: Graph, walks: Mapping[str, Walk] | None = None, *, visible: Mask | None = None) -> None:
        """`walks` are the directions that are walked, by name; None: all, in their own ways. With `visible`, (records,)
        bool, the walker knows no other records."""
        edges, records = graph.edges_of(), graph.records
        self._there: Rows | None = None
        """The nodes that there are, if not all: they are numbered by their places here."""
        self._all = self._nodes = len(graph)
        if visible is not None:
            view = View(graph, visible)
            self._there, records = view.nodes, view.records
            self._nodes = len(self._there)
            edges = _between(edges, self._there, len(graph))
        edges = _walked(graph, edges, walks, records)
        leaving = np.bincount(edges.sources, weights=edges.weights, minlength=self._nodes)
        self._sources, self._targets = edges.sources, edges.targets
        self._shares = edges.weights / leaving[edges.sources]
        self._stuck = leaving == 0

    def __call__(
        self,
        seeds: Sequence[tuple[int, float]],
        *,
        alpha: float = 0.85,
        tolerance: float = 1e-10,
        iterations: int = 200,
    ) -> Floats:
        """(nodes,) the share of time spent at each node, in all 1, or 0 where no seed has a score above 0.

        From a node without an edge the walker returns to the seeds. Ends where a round moves less than `tolerance` in
        all, or after so many rounds.

        Raises:
            UsageError: alpha is not between 0 and 1.
        """
        if not 0 <= alpha < 1:
            raise UsageError(f"the alpha {alpha} of PageRank is not from 0 to below 1")
        start = np.zeros(self._all)
        for node, score in seeds:
            start[node] += max(0.0, score)
        if self._there is None:
            return self._walk(start, alpha, tolerance, iterations)
        rank = np.zeros(self._all)
        rank[self._there] = self._walk(start[self._there], alpha, tolerance, iterations)
        return rank

    def _walk(self, start: Floats, alpha: float, tolerance: float, iterations: int) -> Floats:
        if not start.any():
            return start
        start = start / start.sum()
        rank = start
        for _ in range(iterations):
            moved = np.bincount(self._targets, weights=self._shares * rank[self._sources], minlength=self._nodes)
            after = alpha * (moved + rank[self._stuck].sum() * start) + (1.0 - alpha) * start
            change, rank = float(np.abs(after - rank).sum()), after
            if change < tolerance:
                break
        return rank


def _between(edges: EdgeList, nodes: Rows, total: int) -> EdgeList:
    """The edges between some nodes, numbered by their places among these."""
    places = np.full(total, -1, np.int64)
    places[nodes] = np.arange(len(nodes))
    inner = edges.chosen((places[edges.sources] >= 0) & (places[edges.targets] >= 0))
    return EdgeList(places[inner.sources], places[inner.targets], inner.kinds, inner.weights)


def _walked(graph: Graph, edges: EdgeList, walks: Mapping[str, Walk] | None, records: int) -> EdgeList:
    """Edges in the directions of their walks, weighted by their kind in each direction."""
    if not len(edges):
        return edges
    there, back = (
        _weighed(graph, edges, [walk_of(direction(kind, forward=way), walks) for kind in graph.kinds], forward=way)
        for way in (True, False)
    )
    for kind in range(len(graph.kinds)):
        walk = walk_of(graph.kinds[kind], walks)
        if walk is not None and walk.most < 1:
            common = (edges.kinds == kind) & _to_common(edges, kind, records, walk.most)
            there.weights[common], back.weights[common] = 0.0, 0.0
    every = EdgeList.joined([there, back.reversed()])
    return every.chosen(every.weights > 0)


def _weighed(graph: Graph, edges: EdgeList, walks: Sequence[Walk | None], *, forward: bool) -> EdgeList:
    """Edges with the weights that they have in one direction. For a kind that is always damped, all such edges of a
    node together have the weight of one edge."""
    known = [walk or Walk(0.0) for walk in walks]
    share = np.array([walk.weight / max(1.0, largest) for walk, largest in zip(known, graph.largest, strict=True)])
    weights = edges.weights * share[edges.kinds]
    leaving = edges.sources if forward else edges.targets
    for kind in (kind for kind, walk in enumerate(known) if walk.damped == "always"):
        of_kind = edges.kinds == kind
        weights[of_kind] /= np.bincount(leaving[of_kind], minlength=1)[leaving[of_kind]]
    return EdgeList(edges.sources, edges.targets, edges.kinds, weights)


def _to_common(edges: EdgeList, kind: int, records: int, most: float) -> NDArray[np.bool_]:
    """(e,) the edges to a node that is no record and that more than this share of the records have."""
    counts = np.bincount(edges.targets[edges.kinds == kind], minlength=int(edges.targets.max()) + 1)
    return (edges.targets >= records) & (counts[edges.targets] > most * records)
