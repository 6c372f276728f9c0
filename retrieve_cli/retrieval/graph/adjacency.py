"""Neighbours of every node in compressed sparse rows: by node its kinds of edges, by kind the heaviest edge first.

That order lets a search look at the first few edges of a hub without reading the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from retrieve_cli.contracts import Json
from retrieve_cli.errors import IndexCorrupt, quoted
from retrieve_cli.frozen import Frozen

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from retrieve_cli.contracts import Rows

    Floats = NDArray[np.float64]

MOST_KINDS = 256
_HINT = "build again: retrieve build"
_NO_NODE = "an edge in graph.pkl leads to no node"
_DTYPES = {"node_starts": "<i8", "group_kinds": "|u1", "edge_starts": "<i8", "ends": "<i4", "weights": "<f4"}


class EdgeList(Frozen, eq=False):
    """(e,) edges between numbered nodes, in any order."""

    sources: Rows
    targets: Rows
    kinds: Rows
    weights: Floats

    def __len__(self) -> int:
        return len(self.sources)

    @classmethod
    def joined(cls, parts: list[EdgeList]) -> EdgeList:
        """Return the edges of several lists."""
        none = [np.empty(0, np.int64)]
        columns = [[getattr(part, name) for part in parts] for name in ("sources", "targets", "kinds", "weights")]
        sources, targets, kinds, weights = (np.concatenate(none + column) for column in columns)
        # As they are stored: what is equal there has to be equal when edges are put in order.
        return cls(sources, targets, kinds, weights.astype(np.float32).astype(np.float64))

    def reversed(self) -> EdgeList:
        """The same edges, each from its target to its source."""
        return EdgeList(self.targets, self.sources, self.kinds, self.weights)

    def chosen(self, which: NDArray[Any]) -> EdgeList:
        """The edges that a mask or an array of places picks."""
        return EdgeList(self.sources[which], self.targets[which], self.kinds[which], self.weights[which])

    def simple(self) -> EdgeList:
        """Return the edges without loops, of each kind one at most between two nodes: the heaviest."""
        apart = self.chosen(self.sources != self.targets)
        ordered = apart.chosen(np.lexsort((-apart.weights, apart.targets, apart.kinds, apart.sources)))
        return ordered.chosen(_changes(ordered.sources, ordered.kinds, ordered.targets))


def pack(edges: EdgeList, nodes: int) -> dict[str, Json]:
    """The arrays of an `Adjacency` by source, the same for every order of the edges."""
    edges = edges.chosen(np.lexsort((edges.targets, -edges.weights, edges.kinds, edges.sources)))
    first = np.flatnonzero(_changes(edges.sources, edges.kinds))
    return {
        "node_starts": np.searchsorted(edges.sources[first], np.arange(nodes + 1)).astype(np.int64),
        "group_kinds": edges.kinds[first].astype(np.uint8),
        "edge_starts": np.append(first, len(edges)).astype(np.int64),
        "ends": edges.targets.astype(np.int32),
        "weights": edges.weights.astype(np.float32),
    }


def _changes(*columns: Rows) -> NDArray[np.bool_]:
    """Rows of ordered columns that differ from the row before; the first one does."""
    fresh = np.ones(len(columns[0]), np.bool_)
    fresh[1:] = np.any([column[1:] != column[:-1] for column in columns], axis=0)
    return fresh


class Adjacency:
    """For each node the edges that leave it, or those that reach it, in groups of one kind."""

    def __init__(self, stored: Mapping[str, Json], nodes: int) -> None:
        """Take the result of `pack`. Raises: IndexCorrupt: the lengths of the arrays do not fit; their values are not
        read."""
        try:
            arrays = [stored[name] for name in _DTYPES]
            typed = [(array.dtype.str, array.ndim) for array in arrays] == [(dtype, 1) for dtype in _DTYPES.values()]
            self._node_starts, self._group_kinds, self._edge_starts, self._ends, self._weights = arrays
            fit = (
                typed
                and len(self._node_starts) == nodes + 1
                and int(self._node_starts[-1]) == len(self._group_kinds) == len(self._edge_starts) - 1
                and int(self._edge_starts[-1]) == len(self._ends) == len(self._weights)
            )
        except (KeyError, TypeError, AttributeError, IndexError) as error:
            raise IndexCorrupt(f"graph.pkl is incomplete ({quoted(error)})", hint=_HINT) from error
        if not fit:
            raise IndexCorrupt("the arrays of graph.pkl do not match", hint=_HINT)
        self._nodes = nodes

    def __len__(self) -> int:
        """Number of edges."""
        return len(self._ends)

    def groups(self, node: int) -> Iterator[tuple[int, int, int]]:
        """The kinds of a node's edges, with the start and the end of each kind."""
        first, last = self._node_starts[node : node + 2].tolist()
        bounds = self._edge_starts[first : last + 1].tolist()
        for kind, start, end in zip(self._group_kinds[first:last].tolist(), bounds, bounds[1:], strict=False):
            if not 0 <= start < end <= len(self._ends):
                raise IndexCorrupt(f"the edges of node {node} in graph.pkl are damaged", hint=_HINT)
            yield kind, start, end

    def edges(self, start: int, end: int) -> tuple[list[int], list[float]]:
        """The other ends of a stretch of edges, and their weights. Raises: IndexCorrupt: a node does not exist."""
        ends = self._ends[start:end].tolist()
        if ends and not (min(ends) >= 0 and max(ends) < self._nodes):
            raise IndexCorrupt(_NO_NODE, hint=_HINT)
        return ends, self._weights[start:end].tolist()

    @cached_property
    def edge_list(self) -> EdgeList:
        """Return the edges, in order. Raises: IndexCorrupt if they are damaged."""
        groups, edges = np.diff(self._node_starts), np.diff(self._edge_starts)
        sound = (not len(groups) or groups.min() >= 0) and (not len(edges) or edges.min() > 0)
        ends = self._ends.astype(np.int64)
        if not sound or (len(ends) and not (ends.min() >= 0 and ends.max() < self._nodes)):
            raise IndexCorrupt("the edges of graph.pkl are damaged", hint=_HINT)
        sources = np.repeat(np.repeat(np.arange(self._nodes), groups), edges)
        kinds = np.repeat(self._group_kinds.astype(np.int64), edges)
        return EdgeList(sources, ends, kinds, self._weights.astype(np.float64))
