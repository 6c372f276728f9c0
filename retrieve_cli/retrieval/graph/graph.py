"""`graph.pkl`, opened: records and the values that they share as nodes, and typed, directed, weighted edges between
them.

Nodes are numbered: records by their rows, then the values that they share, then nodes that files declare. Opening
reads no node and no edge.

Dependencies of a record, and theirs in turn, in an order that can be run.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from retrieve_cli.contracts import Json
from retrieve_cli.contracts.canonical import canonical
from retrieve_cli.errors import IndexCorrupt, UsageError, printable, quoted
from retrieve_cli.frozen import Frozen
from retrieve_cli.retrieval.graph.adjacency import Adjacency, EdgeList
from retrieve_cli.storage.vocabulary import Vocabulary
from retrieve_cli.untrusted.nearest import nearest

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from retrieve_cli.contracts import Mask, Rows
    from retrieve_cli.retrieval.graph.adjacency import Floats

_HINT = "build again: retrieve build"


class Neighbour(Frozen):
    """An edge as seen from one of its ends."""

    kind: str
    node: int
    weight: float
    forward: bool
    """True if the edge leads to the neighbour."""


class Dangling(Frozen):
    """An edge that leads nowhere."""

    record: int | None
    """Row of the record that names it; None where a file does."""
    kind: str
    name: str
    ambiguous: bool
    """True if several records have that name; False if nothing has."""


class Group(NamedTuple):
    """The edges of a node of one kind and direction, heaviest first."""

    kind: int
    forward: bool
    edges: Adjacency
    start: int
    end: int


class Graph:
    """The graph of a generation, mapped into memory."""

    def __init__(self, stored: Mapping[str, Json]) -> None:
        """Takes what `GraphWriter` gave. Raises: IndexCorrupt where parts are missing or disagree."""
        try:
            self.records = int(stored["records"])
            self.kinds: list[str] = list(stored["kinds"])
            self.largest: list[float] = list(stored["largest"])
            """By kind the largest weight of an edge."""
            self.loops, self.duplicates = int(stored["loops"]), int(stored["duplicates"])
            self._labels = _vocabulary(stored["labels"])
            nodes = self.records + len(self._labels)
            self.outward = Adjacency(stored["outward"], nodes)
            self.inward = Adjacency(stored["inward"], nodes)
            self._dangling: Mapping[str, Any] = stored["dangling"]
            sizes = {len(self._dangling[name]) for name in ("records", "kinds", "ambiguous")}
            sound = sizes == {len(self._dangling["names"]["ends"]) - 1} and len(self.outward) == len(self.inward)
        except (KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
            raise IndexCorrupt(f"graph.pkl is incomplete ({quoted(error)})", hint=_HINT) from error
        if not sound or self.records < 0 or len(self.kinds) != len(self.largest):
            raise IndexCorrupt("the parts of graph.pkl do not match", hint=_HINT)

    def __len__(self) -> int:
        """Number of nodes."""
        return self.records + len(self._labels)

    @property
    def edges(self) -> int:
        """Number of edges; 0 where the catalog has none."""
        return len(self.outward)

    def label(self, node: int, record: Callable[[int], str] = str) -> str:
        """Return the name of a node: a value with its field (`topics:Imaging`), or `record` of a row."""
        return record(node) if node < self.records else self._labels[node - self.records]

    def is_value(self, node: int, field: str) -> bool:
        """Return True if a node that is no record is a value that records have in a field."""
        return self._labels[node - self.records].startswith(f"{field}:")

    def values(self, field: str) -> list[tuple[int, int]]:
        """Return the nodes of the values of a field, and how many records have each, the most common one first."""
        targets = self.edges_of([field]).targets
        counts = np.bincount(targets, minlength=len(self))
        nodes = [node for node in np.unique(targets).tolist() if node >= self.records and self.is_value(node, field)]
        return sorted(((node, int(counts[node])) for node in nodes), key=lambda found: (-found[1], found[0]))

    def find(self, label: str) -> int:
        """Return the node with a label, among the nodes behind the records. Raises: UsageError: no node has this
        label."""
        node = self._by_label.get(canonical(label))
        if node is None:
            near = nearest(canonical(label), self._by_label)
            hint = f"did you mean `{self.label(self._by_label[near])}`?" if near else ""
            raise UsageError(f"there is no node {quoted(label)} in the graph", hint=printable(hint))
        return node

    @cached_property
    def _by_label(self) -> dict[str, int]:
        span = range(len(self._labels))
        return {folded: self.records + place for place, folded in enumerate(self._labels.all_folded(span))}

    @property
    def dangling(self) -> list[Dangling]:
        """The edges that lead nowhere, in order of record, kind and name."""
        names, records = _vocabulary(self._dangling["names"]), self._dangling["records"].tolist()
        rest = zip(self._dangling["kinds"].tolist(), self._dangling["ambiguous"].tolist(), strict=True)
        return [
            Dangling(record if record >= 0 else None, self._kind(kind), names[place], bool(ambiguous))
            for place, (record, (kind, ambiguous)) in enumerate(zip(records, rest, strict=True))
        ]

    def _kind(self, number: int) -> str:
        if number >= len(self.kinds):
            raise IndexCorrupt("graph.pkl has an edge without a kind", hint=_HINT)
        return self.kinds[number]

    def groups(self, node: int) -> Iterator[Group]:
        """The edges that leave a node, by kind, then those that reach it."""
        for forward, adjacency in ((True, self.outward), (False, self.inward)):
            for kind, start, end in adjacency.groups(node):
                self._kind(kind)
                yield Group(kind, forward, adjacency, start, end)

    def neighbours(self, node: int, *, limit: int | None = None) -> list[Neighbour]:
        """The edges of a node, those that leave it first; of each kind the `limit` heaviest."""
        found = []
        for kind, forward, adjacency, start, end in self.groups(node):
            pairs = zip(*adjacency.edges(start, end if limit is None else min(end, start + limit)), strict=True)
            found += [Neighbour(self.kinds[kind], other, weight, forward) for other, weight in pairs]
        return found

    def degree(self, node: int) -> dict[str, tuple[int, int]]:
        """By kind, how many edges leave a node and how many reach it."""
        counts: dict[str, tuple[int, int]] = {}
        for kind, forward, _, start, end in self.groups(node):
            leaving, reaching = counts.get(self.kinds[kind], (0, 0))
            number = end - start
            counts[self.kinds[kind]] = (leaving + number, reaching) if forward else (leaving, reaching + number)
        return counts

    def edges_of(self, kinds: Sequence[str] | None = None) -> EdgeList:
        """Return the edges of some kinds, or of all."""
        edges = self.outward.edge_list
        if kinds is None:
            return edges
        return edges.chosen(np.isin(edges.kinds, [number for number, kind in enumerate(self.kinds) if kind in kinds]))

    def components(self, kinds: Sequence[str] | None = None) -> NDArray[np.int64]:
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


def _vocabulary(stored: Mapping[str, Any]) -> Vocabulary:
    """Return the stored texts. Raises: ValueError: their lengths do not fit."""
    text, ends = stored["text"], stored["ends"]
    if text.dtype.str != "|u1" or ends.dtype.str != "<i8" or int(ends[0]) != 0 or int(ends[-1]) != len(text):
        raise ValueError("its texts do not have the length that is stored with them")
    return Vocabulary(text, ends)


_BLOCK = 1024
"""Edges that are looked at together: a walk needs the first few of a hub that it may see."""


class View:
    """The part of a graph that a request sees if only some records exist for it.

    Edges to other records are not there, and neither is a value that only other records have: nothing steps on them,
    counts them or names them. The rest is the graph of the visible records, so that a walk finds the same as in an
    index of these records alone.
    """

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
            found = self.value(node)
            self._seen[node] = found is None or bool(self._visible[self._holders(node, found[0])].any())
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


REQUIRES = ("requires",)


class Prerequisites(Frozen):
    """The transitive needs of some records."""

    order: tuple[int, ...]
    """Rows, each after all that it needs, the asked ones not among them; equal ones by row."""
    cycles: tuple[tuple[int, ...], ...] = ()
    """Rows that need one another, ascending, the given rows included; in `order` they are adjacent, in order of
    rows."""


def prerequisites(
    graph: Graph, rows: Sequence[int], *, kinds: Sequence[str] = REQUIRES, visible: Mask | None = None
) -> Prerequisites:
    """Return the dependencies of `rows` by edges of some kinds, direct or not.

    The order is by Kahn 1962, over the components of Tarjan 1972.

    With `visible`, (records,) bool, invisible records are not needed, and neither are records that only they need.
    """
    needs = _closure(graph, rows, kinds, visible)
    circles = _components(needs)
    circle_of = {row: number for number, circle in enumerate(circles) for row in circle}
    waiting = [{circle_of[need] for row in circle for need in needs[row]} - {at} for at, circle in enumerate(circles)]
    needed_by: list[list[int]] = [[] for _ in circles]
    for number, needed in enumerate(waiting):
        for other in needed:
            needed_by[other].append(number)
    ready = [(circle[0], number) for number, circle in enumerate(circles) if not waiting[number]]
    heapq.heapify(ready)
    order: list[int] = []
    while ready:
        _, number = heapq.heappop(ready)
        order += circles[number]
        for other in needed_by[number]:
            waiting[other].discard(number)
            if not waiting[other]:
                heapq.heappush(ready, (circles[other][0], other))
    asked = set(rows)
    cycles = sorted(tuple(circle) for circle in circles if len(circle) > 1)
    return Prerequisites(tuple(row for row in order if row not in asked), tuple(cycles))


def _closure(graph: Graph, rows: Sequence[int], kinds: Sequence[str], visible: Mask | None) -> dict[int, list[int]]:
    """The direct needs by row, for `rows` and everything that they need."""
    wanted = {number for number, kind in enumerate(graph.kinds) if kind in kinds}
    needs: dict[int, list[int]] = {}
    left = list(rows)
    while left:
        row = left.pop()
        if row in needs:
            continue
        found: set[int] = set()
        for kind, start, end in graph.outward.groups(row):
            if kind in wanted:
                found.update(node for node in graph.outward.edges(start, end)[0] if node < graph.records)
        needs[row] = sorted(found if visible is None else (node for node in found if visible[node]))
        left += needs[row]
    return needs


def _components(needs: Mapping[int, Sequence[int]]) -> list[list[int]]:
    """The strongly connected components, each ascending. Without recursion: a chain may be long."""
    number: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    open_rows: set[int] = set()
    circles: list[list[int]] = []
    for root in sorted(needs):
        trail = [] if root in number else [(root, iter(needs[root]))]
        while trail:
            row, rest = trail[-1]
            if row not in number:
                number[row] = low[row] = len(number)
                stack.append(row)
                open_rows.add(row)
            step = next((need for need in rest if need not in number or need in open_rows), None)
            if step is not None:
                if step in number:
                    low[row] = min(low[row], number[step])
                else:
                    trail.append((step, iter(needs[step])))
                continue
            trail.pop()
            if trail:
                low[trail[-1][0]] = min(low[trail[-1][0]], low[row])
            if low[row] == number[row]:
                circle = [stack.pop()]
                while circle[-1] != row:
                    circle.append(stack.pop())
                open_rows.difference_update(circle)
                circles.append(sorted(circle))
    return circles
