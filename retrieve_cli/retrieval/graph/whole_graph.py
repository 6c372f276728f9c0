"""The edges of a graph as arrays, for what needs every one of them: counts, components, dangling names, PageRank."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from retrieve_cli.contracts.canonical import canonical
from retrieve_cli.frozen import Frozen
from retrieve_cli.retrieval.graph.directory import AMBIGUOUS, Lookalikes
from retrieve_cli.retrieval.graph.edge_list import EdgeList
from retrieve_cli.retrieval.graph.graph import Entity, Graph, Node

if TYPE_CHECKING:
    from retrieve_cli.contracts import Mask, Rows
    from retrieve_cli.storage.records.column import Column


class Dangling(Frozen):
    """An edge that leads nowhere."""

    record: int | None
    """Row of the record that names it; None where a file does."""
    kind: str
    name: str
    ambiguous: bool
    """True if several records have that name; False if nothing has."""


class WholeGraph:
    """The edges of a graph: its nodes are numbered, records by their rows, others behind them in order."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.kinds = graph.kinds
        self.first = len(graph.columns)
        """Number of the first node that is no record."""
        self._numbers: dict[Entity, int] = {}
        self._dangling: set[tuple[int, str, str, bool]] = set()
        graph.names.load()
        parts = [part for kind, column in graph.references for part in self._references(kind, column)]
        parts += [part for field, column in graph.shared.items() for part in self._values(field, column)]
        self.edges = EdgeList.joined([*parts, self._stated()]).simple()
        """(e,) edges between nodes; each kind is numbered by its place among `kinds`."""
        self.others = [*self._numbers]
        """The nodes that are no records."""

    def __len__(self) -> int:
        """Number of nodes, also of invisible records."""
        return self.first + len(self._numbers)

    def _number(self, node: Node) -> int:
        if isinstance(node, int):
            return node
        return self._numbers.setdefault(node, self.first + len(self._numbers))

    def _edges(self, kind: str, sources: Rows, targets: Rows) -> EdgeList:
        return EdgeList(sources, targets, np.full(len(sources), self.kinds.index(kind)), np.ones(len(sources)))

    def _references(self, kind: str, column: Column) -> Iterator[EdgeList]:
        """Yield the edges to records that the values of a column name; each value is looked up once, and for records of
        tenants also among the records of these."""
        names = self.graph.names
        for texts, rows, values in column.postings():
            targets = np.array([names.row(text) for text in texts], np.int64)[values]
            yield self._edges(kind, rows[targets >= 0], targets[targets >= 0])
            left = range(len(rows)) if names.has_tenants else np.flatnonzero(targets < 0).tolist()
            for place in left:
                source, name = int(rows[place]), texts[values[place]]
                meant = [row for row in names.meant_by(source, name) if row >= 0]
                yield self._edges(kind, np.full(len(meant), source), np.array(meant, np.int64))
                if not meant:
                    self._dangling.add((source, kind, name, targets[place] == AMBIGUOUS))

    def _values(self, field: str, column: Column) -> Iterator[EdgeList]:
        """Yield the edges to the values that records share."""
        for texts, rows, values in column.postings():
            numbers = np.zeros(len(texts), np.int64)
            for value in np.unique(values).tolist():
                numbers[value] = self._number(Entity(field, canonical(texts[value])))
            yield self._edges(field, rows, numbers[values])

    def _stated(self) -> EdgeList:
        """Return the edges that files state, between all nodes that their names mean."""
        graph, files = self.graph, self.graph.files
        rows: list[tuple[int, int, int, float]] = []
        for name, other, kind, weight in files:
            number = self.kinds.index(kind)
            for source in graph.meant(name):
                ends = graph.joined(source, name, other)
                rows += [(self._number(source), self._number(end), number, weight) for end in ends]
            for named in (name, other):
                if not graph.meant(named) or self._is_misspelt(named):
                    self._dangling.add((-1, kind, files.name(named), not graph.meant(named)))
        sources, targets, kinds = np.array([row[:3] for row in rows], np.int64).reshape(-1, 3).T
        return EdgeList(sources, targets, kinds, np.array([row[3] for row in rows], np.float64))

    def _is_misspelt(self, number: int) -> bool:
        """Return True if a name that nothing else has looks like the name of a record."""
        files = self.graph.files
        form = canonical(files.name(number))
        is_new = self.graph.meant(number) == [Entity("", form)] and not files.owners(form)
        return is_new and self._lookalikes.of(files.name(number)) is not None

    @cached_property
    def _lookalikes(self) -> Lookalikes:
        return Lookalikes(self.graph.names.spellings)

    @property
    def dangling(self) -> list[Dangling]:
        """The edges that lead nowhere, in order of the record's id, kind and name."""

        def order(entry: tuple[int, str, str, bool]) -> tuple[str, str, str]:
            record, kind, name, _ = entry
            return "" if record < 0 else self.graph.id_of(record), kind, name

        return [
            Dangling(None if record < 0 else record, kind, name, ambiguous)
            for record, kind, name, ambiguous in sorted(self._dangling, key=order)
        ]

    def why(self, entry: Dangling) -> str:
        """Return the reason for a dangling edge, in words."""
        if entry.ambiguous:
            return "several records have this name"
        near = self._lookalikes.of(entry.name) if entry.record is None else None
        if near is not None:
            return f"similar to the record {near}; a line {{id, label}} in the file makes it a separate node"
        return "no record has this name"

    def edges_of(self, kinds: Sequence[str] | None = None) -> EdgeList:
        """Return the edges of some kinds, or of all."""
        if kinds is None:
            return self.edges
        numbers = [number for number, kind in enumerate(self.kinds) if kind in kinds]
        return self.edges.chosen(np.isin(self.edges.kinds, numbers))

    def values(self, field: str) -> list[tuple[Entity, int]]:
        """Return the values of a field, and how many records have each, the most common one first."""
        counts = np.bincount(self.edges_of([field]).targets, minlength=len(self)).tolist()
        values = [(node, counts[number]) for node, number in self._numbers.items() if node.field == field]
        return sorted(values, key=lambda pair: (-pair[1], pair[0]))

    def components(self, kinds: Sequence[str] | None = None) -> Rows:
        """(nodes,) the smallest node of each node's weakly connected component."""
        edges, lowest = self.edges_of(kinds), np.arange(len(self))
        while True:
            sources, targets = lowest[edges.sources], lowest[edges.targets]
            apart = sources != targets
            if not apart.any():
                return lowest
            # Whole trees are hung below the lower of two roots, so that a long chain takes few rounds.
            low, high = np.minimum(sources, targets)[apart], np.maximum(sources, targets)[apart]
            np.minimum.at(lowest, high, low)
            while not np.array_equal(above := lowest[lowest], lowest):
                lowest = above

    def sizes(self) -> list[int]:
        """Return the sizes of the components, largest first."""
        components = self.components()[self.there(self.graph.columns.visible)]
        return sorted(map(int, np.unique(components, return_counts=True)[1]), reverse=True)

    def there(self, visible: Mask | None) -> Rows:
        """Return the nodes that are there if only some records are visible, (records,) bool: these, the values that one
        of them has, and the nodes of files."""
        if visible is None:
            return np.arange(len(self))
        flags = np.zeros(len(self), np.bool_)
        flags[: self.first] = visible
        flags[self.first :] = [not node.field for node in self.others]
        for field in self.graph.shared:
            edges = self.edges_of([field])
            held = np.zeros(len(self), np.bool_)
            held[edges.targets[flags[edges.sources] & (edges.sources < self.first)]] = True
            held[: self.first] = False
            held[self.first :] &= [node.field == field for node in self.others]
            flags |= held
        return np.flatnonzero(flags)
