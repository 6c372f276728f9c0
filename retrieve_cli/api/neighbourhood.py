"""The records and values that a record is linked to, as far as the caller may see them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from retrieve_cli.api.contents import no_record
from retrieve_cli.assemble.graph import labels, open_graph
from retrieve_cli.retrieval.graph.graph import View
from retrieve_cli.search.access import of_tenant_or_none

if TYPE_CHECKING:
    from retrieve_cli.api.index import Index
    from retrieve_cli.retrieval.graph.graph import Graph

_LISTED = 60
"""Links of each kind that are listed."""


class Link(NamedTuple):
    """A link of a record to another, to a value that records share, or to a name that a file declares."""

    kind: str
    forward: bool
    """True if it leads away from the record."""
    label: str
    record_id: str | None
    """None for a value and for a name."""


def links_of(index: Index, record_id: str, *, tenant: str | None) -> tuple[list[Link], int]:
    """Return the heaviest links of each kind of a record, and the number of all its links.

    Raises:
        NotFound: the caller has no record with that id.
    """
    with index.reading() as generation:
        own = of_tenant_or_none(generation, tenant)
        if (node := own.row_of(record_id)) is None:
            raise no_record(record_id)
        if (graph := open_graph(generation)) is None:
            return [], 0
        view = None if own.rows is None else View(graph, own.rows)
        label = labels(graph, generation, own.rows)
        links, total = _links(graph, node, view)
        return [
            Link(kind, forward, label(end), generation.record_id(end) if end < graph.records else None)
            for kind, forward, end in links
        ], total


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
