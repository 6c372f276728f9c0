"""Records by the names that relations and files give them: by id, by name, or as a note by its file.

Everything is looked up in the columns when it is needed: an edge is never stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from retrieve_cli.contracts.canonical import canonical
from retrieve_cli.contracts.terms.tenants import TENANT
from retrieve_cli.storage.records.record_values import NOTE

if TYPE_CHECKING:
    from retrieve_cli.contracts import Rows
    from retrieve_cli.storage.records.columns import Columns

UNKNOWN, AMBIGUOUS = -1, -2


class RecordNames:
    """The row that an id or a name means: to anybody, or to a tenant, for whom the records of others do not exist."""

    def __init__(self, columns: Columns) -> None:
        self._ids, self._names, self._notes = (columns.stored(name) for name in ("id", "name", NOTE))
        self._tenants = columns.column(TENANT)
        self._rows: dict[str, int] = {}
        self._forms: dict[int, list[str]] = {}
        self._id_rows: dict[str, int] | None = None
        self._form_rows: list[dict[str, int]] = []

    @property
    def spellings(self) -> Iterator[str]:
        """Every id, then every name."""
        yield from self._ids.texts()
        yield from self._names.texts()

    @property
    def has_tenants(self) -> bool:
        """True if records have tenants."""
        return self._tenants is not None

    def id_of(self, row: int) -> str:
        """Return the id of a record."""
        return self._ids.values_of(row)[0]

    def by_id(self, name: str) -> int:
        """Return the row of the record with this id, letter by letter, or `UNKNOWN`."""
        if self._id_rows is not None:
            return self._id_rows.get(name, UNKNOWN)
        rows = self._ids.rows_spelled(name)
        return int(rows[0]) if len(rows) else UNKNOWN

    def row(self, name: str) -> int:
        """Return the row of the record with this id, else of the only one with this name in any case, else of the only
        note whose file is called so; `UNKNOWN` without one, `AMBIGUOUS` if several have the name."""
        if name not in self._rows:
            row = self.by_id(name)
            for number, column in enumerate((self._names, self._notes)):
                if row == UNKNOWN and self._id_rows is None:
                    row = _only(column.rows_of(canonical(name)))
                elif row == UNKNOWN:
                    row = self._form_rows[number].get(canonical(name), UNKNOWN)
            self._rows[name] = row
        return self._rows[name]

    def load(self) -> None:
        """Look up all ids and names at once, for one who needs most of them."""
        for column in (self._names, self._notes):
            form_rows: dict[str, int] = {}
            for texts, rows, values in column.postings():
                forms = list(map(canonical, texts))
                for row, value in zip(rows.tolist(), values.tolist(), strict=True):
                    form_rows[forms[value]] = AMBIGUOUS if forms[value] in form_rows else row
            self._form_rows.append(form_rows)
        self._id_rows = {
            texts[value]: row
            for texts, rows, values in self._ids.postings()
            for row, value in zip(rows.tolist(), values.tolist(), strict=True)
        }

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
        if row not in self._forms:
            names = (name for column in (self._ids, self._names, self._notes) for name in column.values_of(row))
            self._forms[row] = list(dict.fromkeys(map(canonical, names)))
        return self._forms[row]


def _only(rows: Rows) -> int:
    if len(rows) == 0:
        return UNKNOWN
    return int(rows[0]) if len(rows) == 1 else AMBIGUOUS


_LEAST = 6
"""Letters of a name in which one can be wrong: short names and accession numbers are alike by chance."""
_LONGEST = 64
"""Characters of a name that is compared."""
_MOST = 10_000
"""Names that are compared."""


class Lookalikes:
    """Names of which others may be misspellings: of very many the first ones.

    Two names that differ by a letter, one that is missing or another in its place, or by two neighbours in each other's
    place, are the same once a letter of each is left out. Digits are never left out: numbers that differ mean different
    things.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._names: dict[str, str] = {}
        """The name, by each variant of its folded form with one letter removed."""
        for name in islice(names, _MOST):
            for part in _parts(name):
                self._names.setdefault(part, name)

    def of(self, name: str) -> str | None:
        """Return the name that another one looks like; None if it looks like no other name."""
        return next((self._names[part] for part in _parts(name) if part in self._names), None)


def _parts(name: str) -> Iterator[str]:
    """A folded name, and its variants with one character removed that is not a digit."""
    folded = name.casefold()
    if len(folded) > _LONGEST or sum(letter.isalpha() for letter in folded) < _LEAST:
        return
    yield folded
    for at, letter in enumerate(folded):
        if not letter.isdigit():
            yield folded[:at] + folded[at + 1 :]
