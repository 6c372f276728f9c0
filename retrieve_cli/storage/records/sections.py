"""Columns of chunks, by which they can be filtered as records by their fields: sections and facets.

A chunk has a path of headings, from the outermost inwards: `Munich > Transport`. Its values are each heading, the path
up to each of them, and the whole. A chunk of several short sections, shown as `Munich > Transport, Heating`, also has
the values of each of their paths.

A facet is a text about a chunk. If semicolons separate several parts, its values are these, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from retrieve_cli.contracts import LONGEST_FACET, Json
from retrieve_cli.contracts.canonical import folded
from retrieve_cli.storage.generation import Generation

if TYPE_CHECKING:
    from retrieve_cli.storage.records.columns import Columns

FIELD = "section"
_LEVEL = " > "
_DEEPEST = 16
"""Headings of a path of which every beginning is a value; a deeper path is not an outline."""
FACETS_FILE = "facets.pkl"
PREFIX = "facets."
_SEPARATOR = ";"


def values_of(path: str) -> Iterator[str]:
    """Yield the values of a path, folded."""
    levels = folded(path).split(_LEVEL)
    yield from levels
    if len(levels) <= _DEEPEST:
        yield from (_LEVEL.join(levels[:end]) for end in range(1, len(levels)))
    yield folded(path)


def paths_of(chunk: Mapping[str, Json]) -> tuple[str, ...]:
    """Return the section of a chunk's row as displayed, and the path of each if it has several."""
    several = chunk.get("sections")
    named = (chunk["section"], *(several if isinstance(several, list) else ()))
    return tuple(path for path in named if isinstance(path, str) and path)


def section_columns(generation: Generation) -> Columns:
    """Return the sections of chunks as a column, read once."""
    return generation.once(_read)


def _read(generation: Generation) -> Columns:
    import orjson

    from retrieve_cli.storage.records.columns import Columns
    from retrieve_cli.storage.records.columns_writer import ColumnsWriter
    from retrieve_cli.storage.records.stored_columns import StoredColumns

    writer = ColumnsWriter()
    for segment in generation.segments:
        for block, _ in segment.chunks.raw_rows(range(segment.chunk_count)):
            for line in block.splitlines():
                values = dict.fromkeys(value for path in paths_of(orjson.loads(line)) for value in values_of(path))
                writer.add({FIELD: list(values)} if values else {})
    return Columns([StoredColumns(writer.stored())])


def facet_values(facets: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the values of the fields of one chunk: each facet, and its parts if semicolons separate several."""
    fields = {}
    for name, text in facets.items():
        parts = [text, *(part.strip() for part in text.split(_SEPARATOR))]
        distinct = {folded(part): part for part in reversed(parts) if part}
        fields[PREFIX + name] = list(reversed(distinct.values()))
    return fields


def facets_of(row: Mapping[str, Json]) -> dict[str, str]:
    """Return the facets in a row of `chunks.jsonl`, which may come from anywhere; none if it has none."""
    stored = row.get("facets")
    if not isinstance(stored, Mapping):
        return {}
    return {str(name): text[:LONGEST_FACET] for name, text in stored.items() if isinstance(text, str)}


def facet_columns(generation: Generation) -> Columns | None:
    """Return the columns of the facets of chunks; None if the index has no facets.

    Raises:
        IndexCorrupt: the file is damaged.
    """
    return generation.once(_open) if generation.has(FACETS_FILE) else None


def _open(generation: Generation) -> Columns:
    # Every answer imports this file, few are filtered.
    from retrieve_cli.storage.records.columns import Columns, stored_columns

    return Columns([stored_columns(segment, FACETS_FILE, "chunk") for segment in generation.segments])
