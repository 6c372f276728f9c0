"""The records and values that a record is linked to, as far as the caller may see them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from retrieve_cli.api.contents import no_record
from retrieve_cli.assemble.graph import graph_of
from retrieve_cli.search.access import of_tenant_or_none

if TYPE_CHECKING:
    from retrieve_cli.api.index import Index

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
        if (graph := graph_of(generation)) is None:
            return [], 0
        view = graph.within(own.rows)
        groups = list(view.groups(node))
        links = [
            Link(group.kind, group.forward, view.label(end), view.id_of(end) if isinstance(end, int) else None)
            for group in groups
            for end, _ in group.ends(_LISTED)
        ]
        return links, sum(group.total for group in groups)
