"""The rows of a generation on their way into one engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from retrieve_cli.assemble.engines import lost
from retrieve_cli.contracts.engines import Batch, Label
from retrieve_cli.contracts.progress import task
from retrieve_cli.contracts.terms.tenants import TENANT
from retrieve_cli.storage.engine_record import Entry
from retrieve_cli.storage.postings import Exported
from retrieve_cli.storage.records.columns import columns_of

if TYPE_CHECKING:
    from retrieve_cli.contracts import Unit
    from retrieve_cli.contracts.engines import Engine
    from retrieve_cli.storage.generation import Generation

_ROWS = 1000
"""Rows that are sent at a time."""


class EngineShare(NamedTuple):
    """The part of a generation that one engine gets."""

    engine: Engine
    parts: Sequence[Exported]


def holds(share: EngineShare, entry: Entry, generation: str) -> bool:
    """Return True if an engine holds all of its share now."""
    parts = [exported.part for exported in share.parts]
    if (dict(entry.card), list(entry.parts)) != (dict(share.engine.card), parts):
        return False
    return not lost(share.engine, entry, generation)


def send(share: EngineShare, generation: Generation, *, say: Callable[[str], None]) -> Entry:
    """Send the share of an engine; return the rows that it holds then.

    Raises:
        Unavailable: the engine cannot be reached, or rejects the rows.
        IndexCorrupt: it lost rows.
    """
    engine = share.engine
    labels = RowLabels(generation)
    staging = engine.stage(generation.id, [exported.part for exported in share.parts])
    for exported in share.parts:
        part = exported.part
        say(f"{engine.name}: sending {part.rows:,} rows of {part.name}")
        with task(f"sending {part.name} to {engine.name}", "rows", part.rows) as progress:
            for batch in batches(exported, labels):
                staging.put(part.name, batch)
                progress.advance(len(batch.rows))
    staging.finish()
    return Entry(engine.card, [exported.part for exported in share.parts])


def batches(exported: Exported, labels: RowLabels) -> Iterator[Batch]:
    """Yield the rows of an index in order, with their labels."""
    start = 0
    for block in exported.blocks():
        for first in range(0, len(block), _ROWS):
            some = block[first : first + _ROWS]
            rows = range(start + first, start + first + len(some))
            described = labels.of(exported.part.unit, rows)
            if isinstance(some, list):
                yield Batch(np.array(rows), described, weights=some)
            else:
                yield Batch(np.array(rows), described, vectors=some)
        start += len(block)


class RowLabels:
    """Labels of the rows of a generation."""

    def __init__(self, generation: Generation) -> None:
        self._generation = generation
        self._columns = columns_of(generation)

    def of(self, unit: Unit, rows: range) -> list[Label]:
        """Return the labels of adjacent records, or chunks."""
        generation = self._generation
        labels: list[Label] = []
        if unit == "record":
            for record, fields in zip(rows, self._values(rows), strict=True):
                row, name = generation.records[record], generation.record_id(record)
                labels.append(Label(name, name, row["name"], row["description"], tenant=_tenant(fields), fields=fields))
            return labels
        owners = np.searchsorted(generation.starts, np.arange(rows.start, rows.stop), side="right") - 1
        records = range(int(owners[0]), int(owners[-1]) + 1)
        values = self._values(records)
        names = [str(row["name"]) for row in generation.records.rows(records.start, records.stop)]
        places = (owners - records.start).tolist()
        for chunk, place in zip(generation.chunks.rows(rows.start, rows.stop), places, strict=True):
            shown = (chunk["id"], chunk["doc_id"], names[place], chunk["text"], chunk["section"] or "")
            labels.append(Label(*shown, tenant=_tenant(values[place]), fields=values[place]))
        return labels

    def _values(self, records: range) -> list[dict[str, list[str]]]:
        return self._columns.of_records(records)


def _tenant(fields: dict[str, list[str]]) -> str | None:
    """Return the tenant of a record; of several ones the first."""
    return next(iter(fields.get(TENANT, ())), None)
