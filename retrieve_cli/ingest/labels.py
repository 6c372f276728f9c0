"""Labels of rows for engines: ids, texts and the values by which records are filtered."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from retrieve_cli.contracts.engines import Label
from retrieve_cli.errors import UsageError
from retrieve_cli.records.columns import columns_of
from retrieve_cli.terms.tenants import TENANT

if TYPE_CHECKING:
    from retrieve_cli.contracts import Unit
    from retrieve_cli.records.columns import Columns
    from retrieve_cli.storage.generation import Generation


class Labels:
    """Labels of the rows of a generation."""

    def __init__(self, generation: Generation) -> None:
        self._generation = generation
        self._columns = _columns(generation)

    def of(self, unit: Unit, rows: range) -> list[Label]:
        """Return the labels of adjacent records, or chunks."""
        return self._of_records(rows) if unit == "record" else self._of_chunks(rows)

    def _of_records(self, records: range) -> list[Label]:
        generation = self._generation
        values = self._values(records)
        labels = []
        for record, fields in zip(records, values, strict=True):
            row, name = generation.records[record], generation.record_id(record)
            labels.append(Label(name, name, row["name"], row["description"], tenant=_tenant(fields), fields=fields))
        return labels

    def _of_chunks(self, rows: range) -> list[Label]:
        generation = self._generation
        owners = np.searchsorted(generation.starts, np.arange(rows.start, rows.stop), side="right") - 1
        records = range(int(owners[0]), int(owners[-1]) + 1)
        values = self._values(records)
        names = [str(row["name"]) for row in generation.records.rows(records.start, records.stop)]
        labels = []
        for chunk, owner in zip(generation.chunks.rows(rows.start, rows.stop), owners.tolist(), strict=True):
            place = owner - records.start
            fields = values[place]
            label = Label(
                chunk["id"],
                chunk["doc_id"],
                names[place],
                chunk["text"],
                chunk["section"] or "",
                tenant=_tenant(fields),
                fields=fields,
            )
            labels.append(label)
        return labels

    def _values(self, records: range) -> list[dict[str, list[str]]]:
        return [{} for _ in records] if self._columns is None else self._columns.of_records(records)


def _tenant(fields: dict[str, list[str]]) -> str | None:
    """Return the tenant of a record; of several ones the first."""
    return next(iter(fields.get(TENANT, ())), None)


def _columns(generation: Generation) -> Columns | None:
    """Return the columns of a generation; None if it is of an earlier version without any."""
    try:
        return columns_of(generation)
    except UsageError:
        return None
