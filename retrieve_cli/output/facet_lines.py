"""Facets of an answer as text: a field on a line, its most frequent values with their numbers of records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from retrieve_cli.errors import shortened
from retrieve_cli.output import cells
from retrieve_cli.output.page import Line, Span

if TYPE_CHECKING:
    from retrieve_cli.search.facets import Facet

_VALUES = 8
"""Values of a field that are shown."""
_LONGEST = 40
"""Characters of a field or value."""
_GAP = 2


def facet_lines(facets: Mapping[str, Facet], width: int) -> Iterator[Line]:
    """Yield a line for each field, or several where one is too short."""
    labels = {field: shortened(field, _LONGEST) for field in facets}
    column = max(map(cells.width, labels.values()), default=0) + _GAP
    for field, facet in facets.items():
        for place, (start, end) in enumerate(cells.lines(text := _values(facet), max(width - column, _LONGEST))):
            label = "" if place else labels[field]
            yield [Span(label, "dim"), Span(" " * (column - cells.width(label))), Span(text[start:end])]


def _values(facet: Facet) -> str:
    parts = [f"{shortened(value, _LONGEST)} {count:,}" for value, count in facet.values[:_VALUES]]
    more = len(facet.values) - len(parts) + facet.others
    return ", ".join([*parts, *([f"{more:,} more"] if more else [])]) or "none"
