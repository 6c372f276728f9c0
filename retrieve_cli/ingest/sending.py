"""Rows of a generation as an engine takes them, and the rows in which two generations differ."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count
from typing import TYPE_CHECKING, Any

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
    from retrieve_cli.contracts import Json, Mask, Rows
    from retrieve_cli.storage.generation import Generation
    from retrieve_cli.storage.segment import Segment

_RECORDS = 1024
"""Records whose vectors and weights are read together."""


def difference(old: Generation, new: Generation) -> tuple[list[int], list[str]]:
    """Return the record rows of a generation that an older one of the same recipe does not have, and the ids of chunks
    that are gone. Segments that both have are compared by their dead rows alone: the cost follows the change."""
    before, after = _only_in(old, new), _only_in(new, old)
    for name in before.keys() & after.keys():
        if _same(old, before[name], new, after[name]):
            del before[name], after[name]
    gone = []
    for name, row in before.items():
        first = len(_chunks(new, after[name])) if name in after else 0
        gone += [f"{name}#{number}" for number in range(first, len(_chunks(old, row)))]
    return sorted(after.values()), gone


def _only_in(generation: Generation, other: Generation) -> dict[str, int]:
    """Return by id the record rows of a generation that another one does not have in the same segment."""
    shared = {segment.name for segment in other.segments}
    rows: dict[str, int] = {}
    for segment in generation.segments:
        alive = _alive(generation, segment)
        if segment.name in shared:
            alive &= ~_alive(other, segment)
        rows |= {segment.ids[row]: segment.first_record + row for row in np.flatnonzero(alive).tolist()}
    return rows


def _alive(generation: Generation, segment: Segment) -> Mask:
    alive = np.ones(segment.record_count, np.bool_)
    if segment.name in generation.remains:
        alive[generation.remains[segment.name].dead] = False
    return alive


def _chunks(generation: Generation, record: int) -> range:
    return range(int(generation.starts[record]), int(generation.starts[record + 1]))


def _same(old: Generation, former: int, new: Generation, row: int) -> bool:
    """Return True if a record has the same contents and chunks in both generations."""
    texts = old.texts[_chunks(old, former)], new.texts[_chunks(new, row)]
    return np.array_equal(*texts) and np.array_equal(old.contents[former], new.contents[row])


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
        for row in self._rows(records):
            length = len(row.text) + len(row.stored)
            if batch and (len(batch) == BATCH_ROWS or size + length > BATCH_BYTES):
                yield batch
                batch, size = [], 0
            batch.append(row)
            size += length
        if batch:
            yield batch

    def _rows(self, records: Rows) -> Iterator[Row]:
        for segment in self._generation.segments:
            own = records - segment.first_record
            own = own[(own >= 0) & (own < segment.record_count)]
            for first in range(0, len(own), _RECORDS):
                yield from self._block(segment, own[first : first + _RECORDS])

    def _block(self, segment: Segment, records: Rows) -> Iterator[Row]:
        starts = segment.starts
        chunks = np.concatenate([np.arange(starts[row], starts[row + 1]) for row in records.tolist()])
        vectors = {name: indexes.segment_vectors(segment, chunks) for name in self._schema.vectors}
        sparse = [name for name, by_idf in self._schema.weights.items() if not by_idf]
        weights = {name: indexes.segment_weights(segment, chunks) for name in sparse}
        places = count()
        for record in records.tolist():
            fields = self._columns.of_record(segment.first_record + record)
            stored = segment.records[record]
            for chunk in segment.chunks.rows(int(starts[record]), int(starts[record + 1])):
                place = next(places)
                own_vectors = {name: rows[place] for name, rows in vectors.items()}
                own_weights = {name: _weights(*rows, place) for name, rows in weights.items()}
                yield self._row(stored, chunk, fields, own_vectors, own_weights)

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
    numbers: dict[str, list[float]] = {}
    for name, values in fields.items():
        for value in values:
            number = read(name, value)
            if number is not None:
                numbers.setdefault(name, []).append(number)
    return numbers


def _weights(starts: Rows, terms: Any, values: Any, place: int) -> TermWeights:
    own = slice(int(starts[place]), int(starts[place + 1]))
    return TermWeights(terms[own], values[own])
