"""Dependencies of a result: the records that its own record requires, in an order that can be run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from retrieve_cli.contracts import Query
from retrieve_cli.search.answer import Bundle, Need
from retrieve_cli.storage.generation import Generation

if TYPE_CHECKING:
    from retrieve_cli.graph.graph import Graph


def bundle(graph: Graph, generation: Generation, record: int, query: Query) -> Bundle:
    """Return the dependencies of a record that was found for a query, in an order that can be run.

    What is not visible to the query is not among them. What its filters leave out is, and is marked.
    """
    from retrieve_cli.graph.prerequisites import prerequisites

    found = prerequisites(graph, [record], visible=query.visible)
    firsts = generation.starts[list(found.order)].tolist()
    needs = (
        Need(
            id=generation.record_id(row),
            name=str(generation.records[row]["name"]),
            text=str(generation.chunks[first]["text"]),
            outside_filter=query.records is not None and not query.records[row],
        )
        for row, first in zip(found.order, firsts, strict=True)
    )
    return Bundle(tuple(needs), tuple(tuple(map(generation.record_id, circle)) for circle in found.cycles))
