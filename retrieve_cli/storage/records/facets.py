"""Facets of chunks as columns, by which chunks can be filtered as records by their fields: `facets.population`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from retrieve_cli.contracts import LONGEST_FACET, Json
from retrieve_cli.errors import IndexCorrupt

if TYPE_CHECKING:
    from retrieve_cli.storage.generation import Generation
    from retrieve_cli.storage.records.columns import Columns

FILE = "facets.pkl"
PREFIX = "facets."
_SEPARATOR = ";"


def values_of(facets: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the values of the fields of one chunk: each facet, and its parts if semicolons separate several."""
    fields = {}
    for name, text in facets.items():
        parts = [text, *(part.strip() for part in text.split(_SEPARATOR))]
        distinct = {part.casefold(): part for part in reversed(parts) if part}
        fields[PREFIX + name] = list(reversed(distinct.values()))
    return fields


def facets_of(row: Mapping[str, Json]) -> dict[str, str]:
    """Return the facets in a row of `chunks.jsonl`, which may come from anywhere; none if it has none."""
    stored = row.get("facets")
    if not isinstance(stored, Mapping):
        return {}
    return {str(name): text[:LONGEST_FACET] for name, text in stored.items() if isinstance(text, str)}


def facet_columns(generation: Generation) -> Columns | None:
    """Return the columns of the chunks of a generation; None if it has no facets.

    Raises:
        IndexCorrupt: the file is damaged.
    """
    return generation.once(_open) if FILE in generation.manifest.files else None


def _open(generation: Generation) -> Columns:
    from retrieve_cli.storage import pickles
    from retrieve_cli.storage.records.columns import LATER, Columns  # every answer imports this file, few are filtered

    file = generation.file(FILE)
    columns = Columns(pickles.load(file, later=LATER), file.check_parts)
    if len(columns) != len(generation.chunks):
        rows = f"{FILE} has {len(columns)} rows for {len(generation.chunks)} chunks"
        raise IndexCorrupt(rows, hint="retrieve inspect verify")
    generation.expect(FILE, len(columns))
    return columns
