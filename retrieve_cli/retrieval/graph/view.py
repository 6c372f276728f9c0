"""The part of a graph that a request sees if only some records exist for it.

Edges to other records are not there, and neither is a value that only other records have: nothing steps on them, counts
them or names them. The rest is the graph of the visible records, so that a walk finds the same as in an index of these
records alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from retrieve_cli.retrieval.graph.graph import Graph, Group

if TYPE_CHECKING:
    from retrieve_cli.contracts import Mask, Rows
    from retrieve_cli.retrieval.graph.adjacency import Floats

_BLOCK = 1024
"""Edges that are looked at together: a walk needs the first few of a hub that it may see."""


class View:
    """The visible part of a graph, for one request."""

    def __init__(self, graph: Graph, visible: Mask) -> None:
        """`visible` is (records,) bool."""
        self._graph = graph
        self._visible = visible
        self._values: dict[int, tuple[str, str] | None] = {}
        self._seen: dict[int, bool] = {}
        self.records = int(np.count_nonzero(visible))
        """Number of visible records."""

    def has(self, node: int) -> bool:
        """Return True for a visible record, for a value that one has, and for a node that a file declares."""
        if node < self._graph.records:
            return bool(self._visible[node])
        if node not in self._seen:
            self._seen[node] = self._held(node)
        return self._seen[node]

    def value(self, node: int) -> tuple[str, str] | None:
        """Return the field and the value of a value node; None for any other node."""
        if node not in self._values:
            label = "" if node < self._graph.records else self._graph.label(node)
            kinds = (self._graph.kinds[kind] for kind, _, _ in self._graph.inward.groups(node))
            fields = (kind for kind in kinds if label.startswith(f"{kind}:") and len(self._holders(node, kind)))
            field = next(fields, None)
            self._values[node] = None if field is None else (field, label.removeprefix(f"{field}:"))
        return self._values[node]

    def count(self, group: Group) -> int:
        """Return the number of edges of a group that are there."""
        return sum(len(ends) for ends, _ in self._blocks(group, group.end - group.start))

    def edges(self, group: Group, limit: int) -> Iterator[tuple[int, float]]:
        """Yield the ends and weights of the first `limit` edges of a group that are there."""
        left = limit
        for ends, weights in self._blocks(group, _BLOCK):
            yield from zip(ends[:left].tolist(), weights[:left].tolist(), strict=True)
            left -= len(ends)
            if left <= 0:
                return

    @property
    def nodes(self) -> Rows:
        """The nodes that are there, ascending."""
        others = range(self._graph.records, len(self._graph))
        return np.array([*np.flatnonzero(self._visible).tolist(), *filter(self.has, others)], np.int64)

    def _held(self, node: int) -> bool:
        found = self.value(node)
        return found is None or bool(self._visible[self._holders(node, found[0])].any())

    def _holders(self, node: int, field: str) -> Rows:
        """The records with an edge of a kind to a node."""
        groups = self._graph.inward.groups(node)
        start, end = next((start, end) for kind, start, end in groups if self._graph.kinds[kind] == field)
        ends, _ = self._graph.inward.arrays(start, end)
        return ends[ends < self._graph.records]

    def _blocks(self, group: Group, size: int) -> Iterator[tuple[Rows, Floats]]:
        """The ends and weights of the edges that are there, so many edges looked at together."""
        for start in range(group.start, group.end, size):
            ends, weights = group.edges.arrays(start, min(group.end, start + size))
            records = ends < self._graph.records
            kept = np.zeros(len(ends), np.bool_)
            kept[records] = self._visible[ends[records]]
            kept[~records] = [self.has(node) for node in ends[~records].tolist()]
            yield ends[kept], weights[kept]
