"""Sections of chunks, which are filtered like fields of records.

A chunk has a path of headings, from the outermost inwards: `Munich > Transport`. Its values are each heading, the path
up to each of them, and the whole. A chunk of several short sections, shown as `Munich > Transport, Heating`, also has
the values of each of their paths. Text is compared without regard to case.

Facets of chunks as columns, by which chunks can be filtered as records by their fields: `facets.population`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from retrieve_cli.contracts import LONGEST_FACET, Json
from retrieve_cli.contracts.canonical import folded
from retrieve_cli.errors import UsageError, quoted
from retrieve_cli.storage.generation import Generation
from retrieve_cli.storage.records.record_values import number_of
from retrieve_cli.storage.records.stored_columns import COMPARISONS

if TYPE_CHECKING:
    from retrieve_cli.contracts import Mask, Rows, Terms
    from retrieve_cli.storage.records.columns import Columns


FIELD = "section"
_LEVEL = " > "
_DEEPEST = 16
"""Headings of a path of which every beginning is a value; a deeper path is not an outline."""


class Sections:
    """The section of each chunk, and the chunks that satisfy a condition on it."""

    def __init__(self, numbers: Terms, paths: Sequence[Sequence[str]]) -> None:
        """`numbers` (chunks,) int32 are the place in `paths` of each chunk's section; -1: none."""
        self._numbers = numbers
        self._values: dict[str, list[int]] = {}
        """By folded value, the sections that have it."""
        self._different = len(paths)
        for place, own in enumerate(paths):
            for value in dict.fromkeys(value for path in own for value in values_of(path)):
                self._values.setdefault(value, []).append(place)

    def known(self, starts: Rows, visible: Mask | None = None) -> bool:
        """Return True if a chunk, of a `visible` record, has a section."""
        if visible is None:
            return self._different > 0
        return bool((self._numbers[np.repeat(visible, np.diff(starts))] >= 0).any())

    def select(self, operator: str, values: Sequence[str], globs: Collection[str]) -> Mask:
        """Return the chunks that satisfy a condition, (chunks,) bool, as `Columns.select` does for records.

        Raises:
            UsageError: a value is not a number, and the operator compares numbers.
        """
        if operator == "!=":
            return ~self.select("=", values, globs)
        wanted = np.zeros(self._different + 1, np.bool_)  # the last is that of chunks without a section
        for value in values:
            for match in self._equal(value, globs) if operator == "=" else self._compared(operator, value):
                wanted[self._values[match]] = True
        return wanted[self._numbers]

    def _equal(self, value: str, globs: Collection[str]) -> Iterator[str]:
        form = folded(value)
        if value in globs:
            from retrieve_cli.storage.records.globs import text_glob

            pattern = text_glob(form)
            yield from (known for known in self._values if pattern.fullmatch(known))
        elif form in self._values:
            yield form

    def _compared(self, operator: str, value: str) -> Iterator[str]:
        number = number_of(FIELD, value)
        if number is None:
            hint = f"compare its text: {FIELD}={value}"
            raise UsageError(f"{quoted(value)} is not a number to compare {FIELD!r} with", hint=hint)
        for known in self._values:
            if (own := number_of(FIELD, known)) is not None and COMPARISONS[operator](own, number):
                yield known


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


def sections_of(generation: Generation) -> Sections:
    """Return the sections of a generation's chunks, read once."""
    return generation.once(_read)


def _read(generation: Generation) -> Sections:
    import orjson

    places: dict[tuple[str, ...], int] = {}
    numbers = np.full(len(generation.chunks), -1, np.int32)
    row = 0
    for segment in generation.segments:
        for block, _ in segment.chunks.raw_rows(range(segment.chunk_count)):
            for line in block.splitlines():
                if paths := paths_of(orjson.loads(line)):
                    numbers[row] = places.setdefault(paths, len(places))
                row += 1
    return Sections(numbers, list(places))


FACETS_FILE = "facets.pkl"
PREFIX = "facets."
_SEPARATOR = ";"


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
    """Return the columns of the chunks of a generation; None if it has no facets.

    Raises:
        IndexCorrupt: the file is damaged.
    """
    return generation.once(_open) if generation.has(FACETS_FILE) else None


def _open(generation: Generation) -> Columns:
    # Every answer imports this file, few are filtered.
    from retrieve_cli.storage.records.columns import Columns, stored_columns

    return Columns(stored_columns(segment, FACETS_FILE, "chunk") for segment in generation.segments)
