"""Makes the graph of a generation from the columns of its records and from files with further edges.

Records are not read again: after a sync their columns equal the columns of a fresh build, and so does the graph. Names
are resolved again each time, since rows move.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from retrieve_cli.contracts import Json
from retrieve_cli.errors import UsageError
from retrieve_cli.retrieval.graph.adjacency import MOST_KINDS, EdgeList, pack
from retrieve_cli.retrieval.graph.directory import AMBIGUOUS, UNKNOWN, EntityNodes, Lookalikes, RecordNames, ValueColumn
from retrieve_cli.retrieval.graph.edges import GraphEdge, GraphNode, checked

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from retrieve_cli.contracts import Rows

NOT_A_RECORD = -1
"""In place of a record's row, if a file names a record that does not exist."""


class GraphWriter:
    """Gathers edges in any order; the same edges give the same bytes.

    A name in an edge of a file that means no record, no value and no declared node becomes a new node. If it differs
    from the name of a record by one letter it is reported instead, like a dangling reference of a record.
    """

    def __init__(
        self, *, ids: ValueColumn, names: ValueColumn, records: int, tenants: ValueColumn | None = None
    ) -> None:
        """`ids` and `names` are the columns of the records that every one of them has; `tenants` names their tenants,
        if the index has tenants."""
        self._records = records
        self._names = RecordNames(ids, names, tenants)
        self._references: dict[str, list[ValueColumn]] = {}
        self._shared: dict[str, ValueColumn] = {}
        self._declared: list[GraphNode] = []
        self._external: list[GraphEdge] = []
        self._numbers: dict[str, int] = {}
        self._dangling: list[tuple[int, str, str, int]] = []

    def refer(self, kind: str, column: ValueColumn) -> None:
        """The values of a column are ids or names of records, to which there are edges of a kind."""
        self._references.setdefault(kind, []).append(column)

    def share(self, field: str, column: ValueColumn) -> None:
        """Make the values of a column nodes, with edges of the field's name to them."""
        self._shared[field] = column

    def add(self, found: Iterable[GraphNode | GraphEdge]) -> None:
        """Nodes and edges from a file. Raises: UsageError for a weight below 0 or that is no number."""
        for each in found:
            if isinstance(each, GraphNode):
                self._declared.append(each)
            else:
                checked(each.weight, f"{each.source} -> {each.target}")
                self._external.append(each)

    def finish(self) -> dict[str, Json]:
        """Return the content of the file. Raises: UsageError if there are too many kinds of edges."""
        kinds = sorted({*self._references, *self._shared, *(edge.kind for edge in self._external)})
        if len(kinds) > MOST_KINDS:
            raise UsageError(f"the graph has {len(kinds)} kinds of edges", hint=f"at most {MOST_KINDS} are possible")
        self._numbers = {kind: number for number, kind in enumerate(kinds)}
        self._dangling = []
        entities = EntityNodes(self._shared, records=self._records)
        gathered = [
            self._referred(kind, column) for kind in sorted(self._references) for column in self._references[kind]
        ]
        for field in sorted(self._shared):
            column = self._shared[field]
            nodes = entities.nodes_of(field)[column.values]
            gathered.append(self._edges(field, column.records.astype(np.int64), nodes))
        gathered.append(self._stated(entities))
        edges, loops, duplicates = EdgeList.joined(gathered).simple()
        total = self._records + len(entities.found)
        return {
            "records": self._records,
            "kinds": kinds,
            "largest": [float(edges.weights[edges.kinds == kind].max(initial=0.0)) for kind in range(len(kinds))],
            "labels": _texts([entity.label for entity in entities.found]),
            "outward": pack(edges, total),
            "inward": pack(edges.reversed(), total),
            "loops": loops,
            "duplicates": duplicates,
            "dangling": self._unresolved(),
        }

    def _referred(self, kind: str, column: ValueColumn) -> EdgeList:
        """The edges to records that the values of a column name; each value is looked up once, and for records of
        tenants also among the records of these."""
        rows = np.array([self._names.row(column.text(value)) for value in range(len(column))], np.int64)
        targets, sources = rows[column.values], column.records.astype(np.int64)
        own = [
            (place, row)
            for place, (source, value) in enumerate(zip(sources.tolist(), column.values.tolist(), strict=True))
            if source in self._names.tenants_of
            for row in self._names.rows_of_tenants(column.text(value), source)
            if row != targets[place]
        ]
        places, meant = np.array(own, np.int64).reshape(-1, 2).T
        for place in sorted({*np.flatnonzero(targets < 0).tolist()} - {*places.tolist()}):
            name = column.text(int(column.values[place]))
            self._dangling.append((int(sources[place]), kind, name, int(targets[place])))
        to_anybody = self._edges(kind, sources, targets).chosen(targets >= 0)
        return EdgeList.joined([to_anybody, self._edges(kind, sources[places], meant)])

    def _edges(self, kind: str, sources: Rows, targets: Rows) -> EdgeList:
        return EdgeList(sources, targets, np.full(len(sources), self._numbers[kind]), np.ones(len(sources)))

    def _stated(self, entities: EntityNodes) -> EdgeList:
        """The edges that files state, between all nodes that their names mean."""
        if not self._external and not self._declared:
            return EdgeList.joined([])
        declared = entities.declare(self._declared)
        named = dict.fromkeys(name for edge in self._external for name in (edge.source, edge.target))
        if unknown := [name for name in named if self._meant(name, declared, entities) == [UNKNOWN]]:
            known = Lookalikes(self._names.spellings)
            entities.name(name for name in unknown if known.of(name) is None)
        rows: list[tuple[int, int, int, float]] = []
        for edge in self._external:
            ends = [self._meant(name, declared, entities) for name in (edge.source, edge.target)]
            sources, targets = ([node for node in end if node >= 0] for end in ends)
            rows += [(*pair, self._numbers[edge.kind], edge.weight) for pair in entities.joined(sources, targets)]
            for end, name in zip(ends, (edge.source, edge.target), strict=True):
                self._dangling += [(NOT_A_RECORD, edge.kind, name, why) for why in end if why < 0]
        sources_, targets_, kinds, weights = zip(*rows, strict=True) if rows else ((),) * 4
        whole = [np.array(column, np.int64) for column in (sources_, targets_, kinds)]
        return EdgeList(whole[0], whole[1], whole[2], np.array(weights, np.float64))

    def _meant(self, name: str, declared: Mapping[str, Sequence[int]], entities: EntityNodes) -> list[int]:
        """The nodes that an end of a stated edge means, or why it means none."""
        if (row := self._names.by_id(name)) != UNKNOWN:
            return [row]
        if name in declared:
            return list(declared[name])
        row = self._names.row(name)
        return [row] if row >= 0 else entities.meant(name) or [row]

    def _unresolved(self) -> dict[str, Json]:
        found = sorted(set(self._dangling))
        return {
            "records": np.array([record for record, _, _, _ in found], np.int32),
            "kinds": np.array([self._numbers[kind] for _, kind, _, _ in found], np.uint8),
            "names": _texts([name for _, _, name, _ in found]),
            "ambiguous": np.array([why == AMBIGUOUS for _, _, _, why in found], np.uint8),
        }


def _texts(texts: list[str]) -> dict[str, NDArray[np.uint8] | Rows]:
    """Texts in one stretch of UTF-8, and where each of them ends."""
    words = [text.encode() for text in texts]
    ends = np.cumsum([0, *map(len, words)], dtype=np.int64)
    return {"text": np.frombuffer(b"".join(words), np.uint8), "ends": ends}
