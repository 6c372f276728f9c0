"""The graph of a generation: records, the values that they share and the nodes of files, with typed, directed, weighted
edges between them.

No edge is stored: references and shared values are read from the columns when a walk needs them, edges of files by
their names. A name means the same as among all records; invisible records are not there.

Dependencies of a record, and theirs in turn, in an order that can be run.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from retrieve_cli.contracts.canonical import canonical
from retrieve_cli.errors import UsageError, printable, quoted
from retrieve_cli.frozen import Frozen
from retrieve_cli.retrieval.graph.directory import UNKNOWN, RecordNames
from retrieve_cli.retrieval.graph.file_edges import FileEdges
from retrieve_cli.untrusted.nearest import nearest

if TYPE_CHECKING:
    from retrieve_cli.contracts import Mask, Rows
    from retrieve_cli.storage.records.column import Column
    from retrieve_cli.storage.records.columns import Columns

_LABELS = 10_000
"""Labels of nodes that an unknown one is compared with."""
_MOST_RESOLVED = 1000
"""Edges of a file, of one name and kind, whose ends are looked up; for a name with more, the stored number counts."""


REQUIRES = "requires"
"""The kind of the edges to what a record needs."""
_NO_ROWS: Rows = np.empty(0, np.int64)


class Entity(NamedTuple):
    """A node that is no record: a value that records have in a field, or a name in a file (`field` is empty)."""

    field: str
    form: str
    """The canonical form of the value; of a declared node its id."""


Node = int | Entity
"""A record, by its row, or another node."""


class Neighbour(Frozen):
    """An edge as seen from one of its ends."""

    kind: str
    node: Node
    weight: float
    forward: bool
    """True if the edge leads to the neighbour."""


class Group(NamedTuple):
    """The edges of a node of one kind and direction."""

    kind: str
    forward: bool
    total: int
    ends: Callable[[int], list[tuple[Node, float]]]
    """Returns the first ends with their weights, heaviest first, of equal ones the first in order of ids."""


class Graph:
    """The nodes and edges that a request sees."""

    def __init__(
        self,
        columns: Columns,
        *,
        relations: Mapping[str, str] = {},
        entities: Sequence[str] = (),
        files: FileEdges | None = None,
        lowest: Callable[[Rows, int], Rows] | None = None,
    ) -> None:
        """`columns` are of the records that are there; `relations` are the kinds of edges by fields that name records;
        `entities` are fields whose values are nodes; `lowest` returns the rows that come first in order of ids."""
        self.columns = self._all = columns
        self.names = RecordNames(columns)
        self.files = files or FileEdges.none()
        self._relations, self._entities = relations, entities
        self._lowest = lowest or self._first_by_id
        self._meanings: dict[int, list[Node]] = {}

    def within(self, visible: Mask | None) -> Graph:
        """Return the graph of some records, (records,) bool: others are not found, stepped on or counted, and neither
        are values that only others have. None: of all. Names are looked up once for all of these graphs."""
        view = Graph(
            self._all,
            relations=self._relations,
            entities=self._entities,
            files=self.files,
            lowest=self._lowest,
        )
        view.names = self.names
        view.columns = self.columns.within(visible)
        return view

    # ------------------------------------------------------------------------------------------------------ nodes

    @cached_property
    def references(self) -> list[tuple[str, Column]]:
        """The kinds of edges that records declare, in order, each with a field of names."""
        named = ((kind, self.columns.column(field)) for field, kind in self._relations.items())
        found = [(kind, column) for kind, column in named if column is not None]
        return sorted(found, key=lambda pair: (pair[0], pair[1].name))

    @cached_property
    def shared(self) -> dict[str, Column]:
        """The fields whose values are nodes, in order."""
        named = {field: self.columns.column(field) for field in sorted(self._entities)}
        return {field: column for field, column in named.items() if column is not None}

    @cached_property
    def kinds(self) -> list[str]:
        """The names of the kinds of edges, in order."""
        return sorted({*(kind for kind, _ in self.references), *self.shared, *self.files.kinds})

    @cached_property
    def largest(self) -> dict[str, float]:
        """By kind the largest weight of an edge, at least 1."""
        largest = dict.fromkeys(self.kinds, 1.0)
        for kind, weight in zip(self.files.kinds, self.files.largest, strict=True):
            largest[kind] = max(1.0, weight)
        return largest

    @property
    def stated(self) -> int:
        """Number of edges that records and files state, also of those that lead nowhere."""
        columns = [*(column for _, column in self.references), *self.shared.values()]
        return sum(column.size for column in columns) + self.files.count

    @cached_property
    def records(self) -> int:
        """Number of visible records."""
        visible = self.columns.visible
        return len(self.columns) if visible is None else int(np.count_nonzero(visible))

    def has(self, row: int) -> bool:
        """Return True if a record is visible."""
        return self.columns.visible is None or bool(self.columns.visible[row])

    def id_of(self, row: int) -> str:
        """Return the id of a record."""
        return self.names.id_of(row)

    def order(self, node: Node) -> tuple[int, str, str]:
        """Return the place of a node in the order of nodes: records by id, values, names of files."""
        if isinstance(node, int):
            return 0, self.id_of(node), ""
        return (1, *node) if node.field else (2, *node)

    def _first_by_id(self, rows: Rows, count: int) -> Rows:
        return np.array(sorted(rows.tolist(), key=self.id_of)[:count], np.int64)

    def label(self, node: Node) -> str:
        """Return the name of a node: the id of a record, a value with its field (`topics:Imaging`)."""
        if isinstance(node, int):
            return self.id_of(node)
        if node.field:
            return f"{node.field}:{min(self.shared[node.field].rows_by_spelling(node.form), default=node.form)}"
        if (declared := self.files.node_of(node.form)) is not None:
            return self.files.aliases(declared)[0]
        return next((self.files.name(number) for number in self._names_of(node)), node.form)

    def find(self, label: str) -> Node:
        """Return the node with a label, among the nodes that are no records. Raises: UsageError: no node has it."""
        form = canonical(label)
        for field, column in self.shared.items():
            if form.startswith(f"{field.casefold()}:"):
                value = canonical(label[len(field) + 1 :])
                if len(column.rows_of(value)):
                    return Entity(field, value)
        for number in self.files.find(form):
            for node in self.meant(number):
                if isinstance(node, Entity):
                    return node
        labels: dict[str, str] = {}
        for text in islice(self._labels(), _LABELS):
            labels.setdefault(canonical(text), text)
        near = nearest(form, labels)
        hint = f"did you mean `{labels[near]}`?" if near else ""
        raise UsageError(f"there is no node {quoted(label)} in the graph", hint=printable(hint))

    def _labels(self) -> Iterator[str]:
        for field, column in self.shared.items():
            yield from (f"{field}:{text}" for text in column.texts())
        yield from map(self.files.name, range(len(self.files)))

    # ---------------------------------------------------------------------------------------------- names of files

    def meant(self, number: int) -> list[Node]:
        """Return the nodes that a name in a file means: a record, values, a declared node, or one that has no other
        name; none for a name that several records have."""
        if number not in self._meanings:
            self._meanings[number] = self._meant(number)
        return self._meanings[number]

    def _meant(self, number: int) -> list[Node]:
        name = self.files.name(number)
        if (row := self.names.by_id(name)) != UNKNOWN:
            return [row]
        if (declared := self.files.node(number)) is not None:
            return self._declared(declared)
        if (row := self.names.row(name)) >= 0:
            return [row]
        form = canonical(name)
        values: list[Node] = [*self._valued(form)]
        for owner in self.files.owners(form):
            own = Entity("", self.files.name(self.files.id_number(owner)))
            values += [own] if self._declared(owner) == [own] else []
        if not values and row == UNKNOWN:
            return [Entity("", form)]
        return values

    def _declared(self, node: int) -> list[Node]:
        """Return the nodes of a declared node: the values with one of its names, else itself."""
        forms = map(canonical, self.files.aliases(node))
        values: list[Node] = sorted({value for form in forms for value in self._valued(form)})
        return values or [Entity("", self.files.name(self.files.id_number(node)))]

    def _valued(self, form: str) -> Iterator[Entity]:
        """Yield the values of a form, or of a form behind the name of its field."""
        for field in sorted(self._entities):
            column = self._all.column(field)
            for value in (form, form.removeprefix(f"{field}:")) if form.startswith(f"{field}:") else (form,):
                if column is not None and len(column.rows_of(value)):
                    yield Entity(field, value)

    def _names_of(self, node: Node) -> list[int]:
        """Return the names in files that mean a node."""
        files = self.files
        if not len(files):
            return []
        if isinstance(node, int):
            numbers = [number for form in self.names.forms_of(node) for number in files.find(form)]
        else:
            forms = [node.form, f"{node.field}:{node.form}"] if node.field else [canonical(node.form)]
            declared = files.node_of(node.form) if not node.field else None
            forms += [] if declared is None else map(canonical, files.aliases(declared))
            owners = [owner for form in forms for owner in files.owners(form)]
            numbers = [number for form in forms for number in files.find(form)]
            numbers += [files.id_number(owner) for owner in owners]
        return [number for number in sorted(set(numbers)) if node in self.meant(number)]

    # ------------------------------------------------------------------------------------------------------ edges

    def groups(self, node: Node, only: Collection[tuple[str, bool]] | None = None) -> Iterator[Group]:
        """Yield the edges that leave a node, by kind, then those that reach it; only of some kinds and directions."""
        names = self._names_of(node)
        for forward in (True, False):
            for kind in self.kinds:
                if only is not None and (kind, forward) not in only:
                    continue
                rows, others = self._of_columns(node, kind, forward=forward)
                more = self._add_stated(node, names, kind, others, forward=forward) if names else 0
                if len(rows) or others or more:
                    yield self._group(kind, rows, others, forward=forward, more=more)

    def _group(self, kind: str, rows: Rows, others: dict[Node, float], *, forward: bool, more: int) -> Group:
        """Return the edges to `rows`, all of weight 1, and to other nodes by their weight; `more` others have not been
        looked up."""
        among = {node for node in others if isinstance(node, int) and _contains(rows, node)}
        weights = {node: max(1.0, weight) if node in among else weight for node, weight in others.items()}

        def ends(limit: int) -> list[tuple[Node, float]]:
            first = self._lowest(rows, limit).tolist() if len(rows) > limit else rows.tolist()
            found = {**dict.fromkeys(first, 1.0), **weights}
            return sorted(found.items(), key=lambda end: (-end[1], self.order(end[0])))[:limit]

        return Group(kind, forward, len(rows) + len(others) - len(among) + more, ends)

    def _of_columns(self, node: Node, kind: str, *, forward: bool) -> tuple[Rows, dict[Node, float]]:
        """Return the records, ascending, and the values to which edges of the columns lead."""
        if isinstance(node, Entity):
            return (self.shared[kind].rows_of(node.form) if node.field == kind and not forward else _NO_ROWS), {}
        found: list[Rows] = []
        for name, column in self.references:
            if name == kind:
                found += self._named(node, column) if forward else self._naming(node, column)
        rows = _NO_ROWS
        if found:
            rows = found[0] if len(found) == 1 else np.unique(np.concatenate(found))
            rows = rows[rows != node]
        values = self.shared[kind].values_of(node) if forward and kind in self.shared else []
        return rows, {Entity(kind, canonical(value)): 1.0 for value in values}

    def _named(self, record: int, column: Column) -> list[Rows]:
        """Return the visible records that a record names in a field."""
        meant = {row for name in column.values_of(record) for row in self.names.meant_by(record, name)}
        rows = sorted(row for row in meant if row >= 0 and self.has(row))
        return [np.array(rows, np.int64)] if rows else []

    def _naming(self, record: int, column: Column) -> list[Rows]:
        """Return the records that name a record in a field."""
        found = []
        for form in self.names.forms_of(record):
            for name, rows in column.rows_by_spelling(form).items():
                if self.names.row(name) == record:
                    found.append(rows)
                else:
                    tenants = self.names.tenants_of(record)
                    own = [tenant for tenant in tenants if self.names.row_of_tenant(name, tenant) == record]
                    found += [np.intersect1d(rows, self.names.rows_of_tenant(tenant)) for tenant in own]
        return found

    def _add_stated(
        self, node: Node, names: Sequence[int], kind: str, ends: dict[Node, float], *, forward: bool
    ) -> int:
        """Add the ends of the edges that files state; return the number of edges that were not looked up."""
        more = 0
        for name in names:
            edges, count = self.files.edges(name, kind, forward=forward, limit=_MOST_RESOLVED)
            more += count - len(edges)
            for other, weight in edges:
                for end in self.joined(node, name, other):
                    if end != node and self.is_there(end):
                        ends[end] = max(weight, ends.get(end, 0.0))
        return more

    def joined(self, node: Node, name: int, other: int) -> list[Node]:
        """Return the nodes that an edge between two names joins with one of the nodes of the first: the pairs within
        one field if there are any, else all pairs."""
        ends = self.meant(other)
        fields = {field_of(end) for end in ends}
        if fields & {field_of(near) for near in self.meant(name)}:
            return [end for end in ends if field_of(end) == field_of(node)]
        return ends

    def is_there(self, node: Node) -> bool:
        """Return True for a visible record, for a value that one has, and for a node of a file."""
        if isinstance(node, int):
            return self.has(node)
        return not node.field or (node.field in self.shared and len(self.shared[node.field].rows_of(node.form)) > 0)

    def neighbours(self, node: Node, *, limit: int) -> list[Neighbour]:
        """Return the edges of a node, those that leave it first; of each kind the `limit` heaviest."""
        return [
            Neighbour(group.kind, end, weight, group.forward)
            for group in self.groups(node)
            for end, weight in group.ends(limit)
        ]

    def degree(self, node: Node) -> dict[str, tuple[int, int]]:
        """Return by kind how many edges leave a node and how many reach it."""
        counts: dict[str, tuple[int, int]] = {}
        for group in self.groups(node):
            leaving, reaching = counts.get(group.kind, (0, 0))
            number = group.total
            counts[group.kind] = (leaving + number, reaching) if group.forward else (leaving, reaching + number)
        return counts

    def needs(self, row: int) -> list[int]:
        """Return the visible records that a record requires, in order of ids."""
        groups = self.groups(row, {(REQUIRES, True)})
        ends = {end for group in groups for end, _ in group.ends(group.total) if isinstance(end, int)}
        return sorted(ends, key=self.id_of)


def _contains(rows: Rows, row: int) -> bool:
    """Return True if a row is among ascending rows."""
    place = int(rows.searchsorted(row))
    return place < len(rows) and int(rows[place]) == row


def field_of(node: Node) -> str | None:
    """Return the field of a value, an empty one for a name of a file; None for a record."""
    return None if isinstance(node, int) else node.field


class Prerequisites(Frozen):
    """The transitive needs of a record."""

    order: tuple[int, ...]
    """Rows, each after all that it needs, without the record itself; equal ones by id."""
    cycles: tuple[tuple[int, ...], ...] = ()
    """Rows that need one another, in order of ids, the record included; in `order` they are adjacent."""


def prerequisites(graph: Graph, record: int) -> Prerequisites:
    """Return the records that a record requires, directly or not.

    The order is by Kahn 1962, over strongly connected components. Invisible records are not needed, and neither are
    records that only they need.
    """
    needs = _closure(graph, record)
    circles = [sorted(circle, key=graph.id_of) for circle in _components(needs)]
    circle_of = {row: number for number, circle in enumerate(circles) for row in circle}
    waiting = [{circle_of[need] for row in circle for need in needs[row]} - {at} for at, circle in enumerate(circles)]
    needed_by: list[list[int]] = [[] for _ in circles]
    for number, needed in enumerate(waiting):
        for other in needed:
            needed_by[other].append(number)
    ready = [(graph.id_of(circle[0]), number) for number, circle in enumerate(circles) if not waiting[number]]
    heapq.heapify(ready)
    order: list[int] = []
    while ready:
        _, number = heapq.heappop(ready)
        order += circles[number]
        for other in needed_by[number]:
            waiting[other].discard(number)
            if not waiting[other]:
                heapq.heappush(ready, (graph.id_of(circles[other][0]), other))
    cycles = [tuple(circle) for circle in circles if len(circle) > 1]
    cycles.sort(key=lambda circle: [graph.id_of(row) for row in circle])
    return Prerequisites(tuple(row for row in order if row != record), tuple(cycles))


def _closure(graph: Graph, record: int) -> dict[int, list[int]]:
    """Return the direct needs by row, for a record and everything that it needs."""
    needs: dict[int, list[int]] = {}
    remaining = [record]
    while remaining:
        row = remaining.pop()
        if row not in needs:
            needs[row] = graph.needs(row)
            remaining += needs[row]
    return needs


def _components(needs: Mapping[int, Sequence[int]]) -> list[list[int]]:
    """Return the strongly connected components (Sharir 1981), without recursion: a chain may be long."""
    needed_by: dict[int, list[int]] = {row: [] for row in needs}
    for row, needed in needs.items():
        for need in needed:
            needed_by[need].append(row)
    seen: set[int] = set()
    finished = [row for root in needs for row in _reached(root, needs, seen)]
    seen.clear()
    components = (_reached(root, needed_by, seen) for root in reversed(finished))
    return [component for component in components if component]


def _reached(root: int, edges: Mapping[int, Sequence[int]], seen: set[int]) -> list[int]:
    """Return the rows that a depth-first search from a row reaches and has not `seen`, in the order in which it leaves
    them."""
    finished: list[int] = []
    stack = [(root, False)]
    while stack:
        row, is_finished = stack.pop()
        if is_finished:
            finished.append(row)
        elif row not in seen:
            seen.add(row)
            stack.append((row, True))
            stack += [(end, False) for end in edges[row]]
    return finished
