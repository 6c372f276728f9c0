"""Records by the names that relations and files give them: by id, by name, or as a note by its file.

Everything is looked up in the columns when it is needed: an edge is never stored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import numpy as np

from retrieve_cli.contracts.canonical import canonical
from retrieve_cli.contracts.terms.tenants import TENANT
from retrieve_cli.storage.records.record_values import NOTE

if TYPE_CHECKING:
    from retrieve_cli.contracts import Rows
    from retrieve_cli.storage.records.columns import Columns

Key = TypeVar("Key")
Value = TypeVar("Value")
UNKNOWN, AMBIGUOUS = -1, -2
_REMEMBERED = 50_000
"""Names and records that are remembered; beyond it they are forgotten."""


class RecordNames:
    """The row that an id or a name means: to anybody, or to a tenant, for whom the records of others do not exist."""

    def __init__(self, columns: Columns) -> None:
        self._ids, self._names, self._notes = (columns.stored(name) for name in ("id", "name", NOTE))
        self._tenants = columns.column(TENANT)
        self._rows: dict[str, int] = {}
        self._forms: dict[int, list[str]] = {}
        self._row_ids: dict[int, str] = {}

    @property
    def has_tenants(self) -> bool:
        """True if records have tenants."""
        return self._tenants is not None

    def id_of(self, row: int) -> str:
        """Return the id of a record."""
        known = self._row_ids.get(row)
        if known is None:
            known = _remember(self._row_ids, row, self._ids.values_of(row)[0])
        return known

    def by_id(self, name: str) -> int:
        """Return the row of the record with this id, letter by letter, or `UNKNOWN`."""
        rows = self._ids.rows_spelled(name)
        return int(rows[0]) if len(rows) else UNKNOWN

    def row(self, name: str) -> int:
        """Return the row of the record with this id, else of the only one with this name in any case, else of the only
        note whose file is called so; `UNKNOWN` without one, `AMBIGUOUS` if several have the name."""
        known = self._rows.get(name)
        if known is None:
            row = self.by_id(name)
            for column in (self._names, self._notes):
                if row == UNKNOWN:
                    row = _only(column.rows_of(canonical(name)))
            known = _remember(self._rows, name, row)
        return known

    def meant_by(self, record: int, name: str) -> list[int]:
        """Return the rows that a record means by a name, ascending: to anybody, and to each of its tenants; if there is
        none, `UNKNOWN` or `AMBIGUOUS`."""
        rows = {self.row(name), *(self.row_of_tenant(name, tenant) for tenant in self.tenants_of(record))}
        return sorted(row for row in rows if row >= 0) or [self.row(name)]

    def row_of_tenant(self, name: str, tenant: str) -> int:
        """Return the row of the tenant's record with this id, else of the tenant's only one with this name."""
        row = self.by_id(name)
        if row != UNKNOWN and tenant in self.tenants_of(row):
            return row
        return _only(np.intersect1d(self._names.rows_of(canonical(name)), self.rows_of_tenant(tenant)))

    def tenants_of(self, row: int) -> list[str]:
        """Return the tenants of a record."""
        return [] if self._tenants is None else self._tenants.values_of(row)

    def rows_of_tenant(self, tenant: str) -> Rows:
        """Return the records of a tenant, ascending."""
        return np.empty(0, np.int64) if self._tenants is None else self._tenants.rows_spelled(tenant)

    def forms_of(self, row: int) -> list[str]:
        """Return the canonical forms of all names that may mean a record."""
        known = self._forms.get(row)
        if known is None:
            names = (name for column in (self._ids, self._names, self._notes) for name in column.values_of(row))
            known = _remember(self._forms, row, list(dict.fromkeys(map(canonical, names))))
        return known


def _remember(known: dict[Key, Value], key: Key, value: Value) -> Value:
    """Return a value after it was added to those that are known, of which there are not too many."""
    if len(known) >= _REMEMBERED:
        known.clear()
    known[key] = value
    return value


def _only(rows: Rows) -> int:
    if len(rows) == 0:
        return UNKNOWN
    return int(rows[0]) if len(rows) == 1 else AMBIGUOUS
