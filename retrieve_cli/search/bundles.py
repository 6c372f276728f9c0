"""Dependencies of a result: the records that its own record requires, in an order that can be run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from retrieve_cli.search.answer import Bundle, Need
from retrieve_cli.storage.generation import Generation

if TYPE_CHECKING:
    from retrieve_cli.graph.graph import Graph


def bundle(graph: Graph, generation: Generation, record: int) -> Bundle:
    """Return the dependencies of a record, in an order that can be run."""
    from retrieve_cli.graph.prerequisites import prerequisites

    found = prerequisites(graph, [record])
    firsts = generation.starts[list(found.order)].tolist()
    needs = (
        Need(
            id=generation.record_id(row),
            name=str(generation.records[row]["name"]),
            text=str(generation.chunks[first]["text"]),
        )
        for row, first in zip(found.order, firsts, strict=True)
    )
    return Bundle(tuple(needs), tuple(tuple(map(generation.record_id, circle)) for circle in found.cycles))
