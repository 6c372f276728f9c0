"""The records and values that a record is linked to, laid out for a picture; only what the caller may see is there."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from retrieve_cli.api.contents import no_record
from retrieve_cli.assemble.graph import labels, open_graph
from retrieve_cli.retrieval.graph.graph import View
from retrieve_cli.retrieval.graph.picture import edges_among, places, rings
from retrieve_cli.search.access import of_tenant_or_none

if TYPE_CHECKING:
    from retrieve_cli.api.index import Index
    from retrieve_cli.retrieval.graph.graph import Graph

_NODES = 25
"""Nodes of the picture."""
_LISTED = 60
"""Links of each kind that are listed."""


class Node(NamedTuple):
    """A record, or what records share, at its place: the record in question is at (0, 0)."""

    label: str
    record_id: str | None
    """None for a value and for a name that a file declares."""
    x: float
    y: float


class Edge(NamedTuple):
    """A link from one node of the picture to another, by their numbers."""

    source: int
    target: int
    kind: str


class Link(NamedTuple):
    """A link of the record in question."""

    kind: str
    forward: bool
    """True if it leads away from the record."""
    label: str
    record_id: str | None


class Neighbourhood(NamedTuple):
    """The surroundings of a record in the graph."""

    nodes: list[Node]
    """The record itself first."""
    edges: list[Edge]
    links: list[Link]
    total: int
    """Number of links, listed or not."""


def neighbourhood(index: Index, record_id: str, *, tenant: str | None) -> Neighbourhood | None:
    """Return what a record is linked to; None if the index has no links, or the record none.

    Raises:
        NotFound: the caller has no record with that id.
    """
    with index.reading() as generation:
        own = of_tenant_or_none(generation, tenant)
        if (node := own.row_of(record_id)) is None:
            raise no_record(record_id)
        if (graph := open_graph(generation)) is None:
            return None
        view = None if own.rows is None else View(graph, own.rows)
        label = labels(graph, generation, own.rows)

        def id_of(node: int) -> str | None:
            return generation.record_id(node) if node < graph.records else None

        links, total = _links(graph, node, view)
        if not links:
            return None
        points = places(rings(graph, node, 1, most=_NODES, visible=None if view is None else view.has))
        numbers = {shown: number for number, shown in enumerate(points)}
        return Neighbourhood(
            [Node(label(shown), id_of(shown), x, y) for shown, (x, y) in points.items()],
            [Edge(numbers[source], numbers[target], kind) for source, target, kind, _ in edges_among(graph, points)],
            [Link(kind, forward, label(other), id_of(other)) for kind, forward, other in links],
            total,
        )


def _links(graph: Graph, node: int, view: View | None) -> tuple[list[tuple[str, bool, int]], int]:
    """Return kind, direction and end of the heaviest links of a node, and the number of all its links."""
    links, total = [], 0
    for group in graph.groups(node):
        if view is None:
            ends = group.edges.edges(group.start, min(group.end, group.start + _LISTED))[0]
            total += group.end - group.start
        else:
            ends = [end for end, _ in view.edges(group, _LISTED)]
            total += view.count(group)
        links += [(graph.kinds[group.kind], group.forward, int(end)) for end in ends]
    return links, total
