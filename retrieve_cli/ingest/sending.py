"""Rows of a generation as an engine takes them, and the rows in which two generations differ."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from retrieve_cli.assemble import indexes
from retrieve_cli.contracts import TermWeights
from retrieve_cli.contracts.canonical import canonical, seconds_of
from retrieve_cli.contracts.engines import BATCH_BYTES, BATCH_ROWS, Row, Schema
from retrieve_cli.contracts.terms.tenants import TENANT
from retrieve_cli.contracts.terms.words import hashed
from retrieve_cli.storage.records.columns import columns_of
from retrieve_cli.storage.records.record_values import number_of

if TYPE_CHECKING:
    from retrieve_cli.config.settings import Settings
    from retrieve_cli.contracts import Json, Rows
    from retrieve_cli.storage.generation import Generation
    from retrieve_cli.storage.segment import Segment

_CHUNKS = 8192
"""Chunks whose vectors and weights are read together."""


class RowChanges(NamedTuple):
    """Changes between the rows of two generations."""

    records: Rows
    """Record rows of the new generation that are sent, ascending."""
    gone: Sequence[str]
    """Ids of chunks that are removed."""


def difference(old: Generation | None, new: Generation) -> RowChanges:
    """Return the difference between generations of one recipe. Segments that both have are compared by their dead
    rows alone, so that the cost follows the change. None: nothing was sent yet."""
    before = {} if old is None else {segment.name: segment for segment in old.segments}
    after = {segment.name: segment for segment in new.segments}
    came = _records(new, [(segment, _alive(old, before.get(name))) for name, segment in after.items()])
    went = {} if old is None else _records(old, [(one, _alive(new, after.get(name))) for name, one in before.items()])
    for name in [name for name in came.keys() & went.keys() if old and _equal(old, went[name], new, came[name])]:
        del came[name], went[name]
    gone = []
    for name, row in went.items():
        kept = _size(new, came[name]) if name in came else 0
        gone += [f"{name}#{number}" for number in range(kept, _size(old, row) if old else 0)]
    return RowChanges(np.array(sorted(came.values()), np.int64), gone)


def _alive(generation: Generation | None, segment: Segment | None) -> Any:
    """Return (records,) bool: the records of a segment that a generation shows; None without the segment."""
    if generation is None or segment is None:
        return None
    alive = np.ones(segment.record_count, np.bool_)
    if (remains := generation.remains.get(segment.name)) is not None:
        alive[remains.dead] = False
    return alive


def _records(generation: Generation, segments: Sequence[tuple[Segment, Any]]) -> dict[str, int]:
    """Return by id the rows that a generation shows, of those that are not masked in their segment."""
    found = {}
    for segment, masked in segments:
        alive = _alive(generation, segment)
        for row in np.flatnonzero(alive if masked is None else alive & ~masked).tolist():
            found[segment.ids[row]] = segment.first_record + row
    return found


def _size(generation: Generation, row: int) -> int:
    return int(generation.starts[row + 1] - generation.starts[row])


def _equal(old: Generation, former: int, new: Generation, row: int) -> bool:
    """Return True if a record has the same contents and chunks in both generations."""
    spans = [slice(*one.starts[place : place + 2].tolist()) for one, place in ((old, former), (new, row))]
    same_texts = np.array_equal(old.texts[spans[0]], new.texts[spans[1]])
    return same_texts and bool((old.contents[former] == new.contents[row]).all())


class RowMaker:
    """Rows of a generation for a collection."""

    def __init__(self, generation: Generation, settings: Settings, schema: Schema, *, mean_length: float) -> None:
        self._generation, self._schema = generation, schema
        self._columns = columns_of(generation)
        self._formula = (settings.bm25.k1, settings.bm25.b, mean_length)
        self._words = next((name for name, by_idf in schema.weights.items() if by_idf), None)
        self._analyzer = indexes.local_indexes(generation, settings).analyzer if self._words else None

    def batches(self, records: Rows) -> Iterator[list[Row]]:
        """Yield the rows of some records, ascending, as an engine takes them at a time."""
        batch: list[Row] = []
        size = 0
        for segment in self._generation.segments:
            end = segment.first_record + segment.record_count
            own = records[(records >= segment.first_record) & (records < end)] - segment.first_record
            for row in self._rows_of(segment, own):
                length = len(row.text) + len(row.stored)
                if batch and (len(batch) == BATCH_ROWS or size + length > BATCH_BYTES):
                    yield batch
                    batch, size = [], 0
                batch.append(row)
                size += length
        if batch:
            yield batch

    def _rows_of(self, segment: Segment, records: Rows) -> Iterator[Row]:
        """Yield the rows of some records of a segment, blocks of them at a time."""
        ends = np.cumsum(segment.starts[records + 1] - segment.starts[records])
        first = 0
        while first < len(records):
            done = int(ends[first - 1]) if first else 0
            last = max(first + 1, int(np.searchsorted(ends, done + _CHUNKS, side="right")))
            yield from self._block(segment, records[first:last])
            first = last

    def _block(self, segment: Segment, records: Rows) -> Iterator[Row]:
        starts = segment.starts
        chunks = np.concatenate([np.arange(starts[row], starts[row + 1]) for row in records.tolist()])
        vectors = {name: indexes.segment_vectors(segment, chunks) for name in self._schema.vectors}
        sparse = (name for name, by_idf in self._schema.weights.items() if not by_idf)
        weights = {name: indexes.segment_weights(segment, chunks) for name in sparse}
        place = 0
        for record in records.tolist():
            fields = self._columns.of_record(segment.first_record + record)
            stored = segment.records[record]
            for chunk in segment.chunks.rows(int(starts[record]), int(starts[record + 1])):
                yield self._row(
                    stored,
                    chunk,
                    fields,
                    {name: found[place] for name, found in vectors.items()},
                    {name: _weights(*found, place) for name, found in weights.items()},
                )
                place += 1

    def _row(self, record: Json, chunk: Json, fields: dict[str, list[str]], vectors: Any, weights: Any) -> Row:
        text = str(chunk.pop("text"))
        if self._words is not None:
            weights = {**weights, self._words: self._counted(f"{record['name']} {chunk['header']}{text}")}
        return Row(
            id=chunk["id"],
            record=chunk["doc_id"],
            title=str(record["name"] or ""),
            text=text,
            section=str(chunk["section"] or ""),
            stored=json.dumps([record, chunk], separators=(",", ":"), ensure_ascii=False),
            tenants=fields.get(TENANT, ()),
            keywords={name: list(dict.fromkeys(map(canonical, values))) for name, values in fields.items()},
            numbers=_typed(fields, number_of),
            dates=_typed(fields, lambda _, value: seconds_of(value)),
            vectors=vectors,
            weights=weights,
        )

    def _counted(self, text: str) -> TermWeights:
        """Return the part of BM25 that depends on a row alone: the frequency of each term and the length of the row."""
        k1, b, mean = self._formula
        terms = Counter(map(hashed, self._analyzer.terms(text) if self._analyzer else ()))
        length = k1 * (1 - b + b * terms.total() / mean)
        numbers = sorted(terms)
        values = [terms[term] * (k1 + 1) / (terms[term] + length) for term in numbers]
        return TermWeights(np.array(numbers, np.int32), np.array(values, np.float32))


def _typed(fields: dict[str, list[str]], read: Callable[[str, str], float | None]) -> dict[str, list[float]]:
    """Return the values that can be read as a number, by field."""
    found: dict[str, list[float]] = {}
    for name, values in fields.items():
        numbers = [number for value in values if (number := read(name, value)) is not None]
        found |= {name: numbers} if numbers else {}
    return found


def _weights(starts: Rows, terms: Any, values: Any, place: int) -> TermWeights:
    own = slice(int(starts[place]), int(starts[place + 1]))
    return TermWeights(terms[own], values[own])
