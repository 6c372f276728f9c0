"""Graph as a whole: counts of its edges, connected components and dangling references."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from retrieve_cli.contracts.canonical import canonical
from retrieve_cli.frozen import Frozen
from retrieve_cli.retrieval.graph.directory import AMBIGUOUS
from retrieve_cli.retrieval.graph.graph import Entity, Graph, Node

if TYPE_CHECKING:
    from retrieve_cli.contracts import Rows
    from retrieve_cli.storage.records.column import Column


class Dangling(Frozen):
    """A name that leads to no node."""

    record: int | None
    """Row of the record that names it; None if a file does."""
    kind: str
    name: str
    ambiguous: bool
    """True if several records have the name; False if none has."""

    @property
    def why(self) -> str:
        """The reason, in words."""
        return "several records have this name" if self.ambiguous else "no record has this name"


class WholeGraph:
    """The edges of a graph between numbered nodes: records by their rows, then others by their edges."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._records = len(graph.columns)
        self._numbers: dict[Entity, int] = {}
        self._dangling: set[Dangling] = set()
        self._ends: dict[str, list[Rows]] = {kind: [] for kind in graph.kinds}
        """By kind, blocks of (2, e) sources and targets."""
        for kind, column in graph.references:
            self._ends[kind] += self._references(kind, column)
        for field, column in graph.shared.items():
            self._ends[field] += self._values(field, column)
        self._add_stated()
        self._edges = {kind: self._distinct(ends) for kind, ends in self._ends.items() if ends}
        """By kind, source x number of nodes + target of each edge, ascending."""

    def _number(self, node: Node) -> int:
        if isinstance(node, int):
            return node
        return self._numbers.setdefault(node, self._records + len(self._numbers))

    def _references(self, kind: str, column: Column) -> Iterator[Rows]:
        """Yield the edges to records that the values of a column name. Each value is looked up once; in an index of
        tenants, also once for each record, because a name may mean another record to a tenant."""
        names = self.graph.names
        for texts, rows, values in column.postings():
            targets = np.array([names.row(text) for text in texts], np.int64)[values]
            yield np.stack([rows, targets])[:, targets >= 0]
            unclear = np.full(len(rows), names.has_tenants) | (targets < 0)
            pairs: list[tuple[int, int]] = []
            for row, value in zip(rows[unclear].tolist(), values[unclear].tolist(), strict=True):
                name = texts[value]
                meant = [target for target in names.meant_by(row, name) if target >= 0]
                pairs += [(row, target) for target in meant]
                if not meant:
                    self._dangling.add(Dangling(row, kind, name, names.row(name) == AMBIGUOUS))
            yield _block(pairs)

    def _values(self, field: str, column: Column) -> Iterator[Rows]:
        """Yield the edges to the values that records share."""
        for texts, rows, values in column.postings():
            numbers = np.zeros(len(texts), np.int64)
            for value in np.unique(values).tolist():
                numbers[value] = self._number(Entity(field, canonical(texts[value])))
            yield np.stack([rows, numbers[values]])

    def _add_stated(self) -> None:
        """Add the edges that files state, between all nodes that their names mean."""
        graph = self.graph
        stated: dict[str, list[tuple[int, int]]] = {kind: [] for kind in graph.files.kinds}
        for name, other, kind in graph.files:
            for node in graph.meant(name):
                ends = graph.joined(node, name, other)
                stated[kind] += [(self._number(node), self._number(end)) for end in ends]
            for named in (name, other):
                if not graph.meant(named):
                    self._dangling.add(Dangling(None, kind, graph.files.name(named), ambiguous=True))
        for kind, pairs in stated.items():
            self._ends[kind].append(_block(pairs))

    def _distinct(self, ends: list[Rows]) -> Rows:
        """Return the edges without repeated ones and loops."""
        sources, targets = np.concatenate(ends, axis=1)
        is_edge = sources != targets
        return np.unique(sources[is_edge] * self._nodes + targets[is_edge])

    @property
    def _nodes(self) -> int:
        """Number of nodes, dead records included."""
        return self._records + len(self._numbers)

    @property
    def counts(self) -> dict[str, int]:
        """The number of edges of each kind that has any."""
        return {kind: len(edges) for kind, edges in self._edges.items() if len(edges)}

    @property
    def others(self) -> list[Entity]:
        """The nodes that are not records."""
        return [*self._numbers]

    @property
    def dangling(self) -> list[Dangling]:
        """The names that lead to no node, in order of the record's id, kind and name."""

        def order(entry: Dangling) -> tuple[str, str, str]:
            record = "" if entry.record is None else self.graph.id_of(entry.record)
            return record, entry.kind, entry.name

        return sorted(self._dangling, key=order)

    def values(self, field: str) -> list[tuple[Entity, int]]:
        """Return the values of a field with the number of records that have each, the most common one first."""
        edges = self._edges.get(field, np.empty(0, np.int64))
        counts = np.bincount(edges % self._nodes, minlength=self._nodes).tolist() if len(edges) else []
        values = [(node, counts[number]) for node, number in self._numbers.items() if node.field == field]
        return sorted(values, key=lambda pair: (-pair[1], pair[0]))

    def sizes(self) -> list[int]:
        """Return the sizes of the weakly connected components, largest first."""
        lowest = self._components()
        visible = self.graph.columns.visible
        if visible is not None:
            lowest = np.delete(lowest, np.flatnonzero(~visible))
        return sorted(map(int, np.unique(lowest, return_counts=True)[1]), reverse=True)

    def _components(self) -> Rows:
        """(nodes,) the smallest node of each node's weakly connected component."""
        lowest = np.arange(self._nodes)
        edges = np.concatenate([np.empty(0, np.int64), *self._edges.values()])
        ends = np.divmod(edges, max(1, self._nodes))
        while True:
            sources, targets = lowest[ends[0]], lowest[ends[1]]
            apart = sources != targets
            if not apart.any():
                return lowest
            # Whole trees are hung below the lower of two roots, so that a long chain takes few rounds.
            low, high = np.minimum(sources, targets)[apart], np.maximum(sources, targets)[apart]
            np.minimum.at(lowest, high, low)
            while not np.array_equal(above := lowest[lowest], lowest):
                lowest = above


def _block(pairs: list[tuple[int, int]]) -> Rows:
    """Return (2, e) the sources and targets of pairs."""
    return np.array(pairs, np.int64).reshape(-1, 2).T
