"""Nodes by their names: records first, by id and then by name; then what records share, and declared nodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Protocol

import numpy as np

from retrieve_cli.contracts.canonical import canonical
from retrieve_cli.frozen import Frozen
from retrieve_cli.retrieval.graph.edges import GraphNode
from retrieve_cli.storage.vocabulary import Vocabulary

if TYPE_CHECKING:
    from retrieve_cli.contracts import Rows, Terms

UNKNOWN, AMBIGUOUS = -1, -2


class Entity(Frozen):
    """A node that is no record: a value that records have in a field, or a declared node (`field` is empty)."""

    field: str
    value: str

    @property
    def label(self) -> str:
        return f"{self.field}:{self.value}" if self.field else self.value


class ValueColumn(Protocol):
    """One field of the records: its distinct values, numbered from 0, and the records that have them."""

    @property
    def vocabulary(self) -> Vocabulary: ...

    @property
    def span(self) -> range | Rows:
        """Its values in the vocabulary, in order of case-folded text."""

    @property
    def records(self) -> Terms:
        """(p,) int32 records, ascending, each once for every value it has."""

    @property
    def values(self) -> Terms:
        """(p,) int32, the number of that value."""

    def __len__(self) -> int: ...

    def text(self, value: int) -> str:
        """Return a value as written."""


class RecordNames:
    """The row that an id or a name means: to anybody, or to a tenant, for whom the records of others do not exist."""

    def __init__(self, ids: ValueColumn, names: ValueColumn, tenants: ValueColumn | None = None) -> None:
        """`tenants` names the tenants of each record, if the index has tenants."""
        self._ids = ids
        self._names = names
        self._tenants = tenants

    @property
    def spellings(self) -> Iterable[str]:
        """Every id, then every name."""
        for column in (self._ids, self._names):
            yield from (column.text(value) for value in range(len(column)))

    def by_id(self, name: str) -> int:
        """The row of the record with this id, letter by letter, or `UNKNOWN`."""
        return self._id_rows.get(name, UNKNOWN)

    def row(self, name: str) -> int:
        """The row of the record with this id, else of the only one with this name in any case, else of the only note
        whose file is called so; `UNKNOWN` without one, `AMBIGUOUS` if several have the name."""
        found = self.by_id(name)
        if found == UNKNOWN:
            found = self._name_rows.get(canonical(name), UNKNOWN)
        return self._note_rows.get(canonical(name), UNKNOWN) if found == UNKNOWN else found

    def rows_of_tenants(self, name: str, record: int) -> list[int]:
        """The rows that a name means to the tenants of the record that has it; an empty list for a record without
        tenants. So a name in a tenant's record leads to another record of the tenant, even if others use the name too.
        """
        found = []
        for tenant in self.tenants_of.get(record, ()):
            row = self.by_id(name)
            if tenant not in self.tenants_of.get(row, ()):
                row = self._tenant_rows.get((tenant, canonical(name)), UNKNOWN)
            if row >= 0:
                found.append(row)
        return list(dict.fromkeys(found))

    @cached_property
    def tenants_of(self) -> dict[int, list[int]]:
        """By record its tenants, by their numbers."""
        found: dict[int, list[int]] = {}
        if self._tenants is not None:
            for record, tenant in zip(self._tenants.records.tolist(), self._tenants.values.tolist(), strict=True):
                found.setdefault(record, []).append(tenant)
        return found

    @cached_property
    def _tenant_rows(self) -> dict[tuple[int, str], int]:
        """By tenant and folded name the tenant's only record that is called so."""
        folded = self._names.vocabulary.all_folded(self._names.span)
        rows: dict[tuple[int, str], int] = {}
        for record, value in zip(self._names.records.tolist(), self._names.values.tolist(), strict=True):
            for key in [(tenant, folded[value]) for tenant in self.tenants_of.get(record, ())]:
                rows[key] = AMBIGUOUS if key in rows else record
        return rows

    @cached_property
    def _id_rows(self) -> dict[str, int]:
        places = zip(self._ids.records.tolist(), self._ids.values.tolist(), strict=True)
        return {self._ids.text(value): record for record, value in places}

    @cached_property
    def _note_rows(self) -> dict[str, int]:
        """By the name of its file, and by its path, without the suffix: the row of a note in Markdown."""
        rows: dict[str, int] = {}
        for name, record in self._id_rows.items():
            path, dot, suffix = name.rpartition(".")
            if dot and suffix in ("md", "markdown"):
                for called in {canonical(path), canonical(path.rpartition("/")[2])}:
                    rows[called] = AMBIGUOUS if called in rows else record
        return rows

    @cached_property
    def _name_rows(self) -> dict[str, int]:
        folded = self._names.vocabulary.all_folded(self._names.span)
        rows: dict[str, int] = {}
        for record, value in zip(self._names.records.tolist(), self._names.values.tolist(), strict=True):
            rows[folded[value]] = AMBIGUOUS if folded[value] in rows else record
        return rows


class EntityNodes:
    """The nodes behind the records: the distinct values of fields without regard to case, then declared nodes."""

    def __init__(self, columns: Mapping[str, ValueColumn], *, records: int) -> None:
        self.found: list[Entity] = []
        self._records = records
        self._places: dict[str, list[int]] = {}
        """By a folded name, the nodes that it means."""
        self._nodes: dict[str, Rows] = {}
        for field in sorted(columns):
            column = columns[field]
            nodes, previous = np.empty(len(column), np.int64), None
            for value, folded in enumerate(column.vocabulary.all_folded(column.span)):
                if folded != previous:  # equal values follow each other
                    self._add(Entity(field, column.text(value)), [folded, f"{field}:{folded}"])
                    previous = folded
                nodes[value] = records + len(self.found) - 1
            self._nodes[field] = nodes

    def _add(self, entity: Entity, names: Iterable[str]) -> None:
        node = self._records + len(self.found)
        self.found.append(entity)
        for name in names:
            self._places.setdefault(name, []).append(node)

    def nodes_of(self, field: str) -> Rows:
        """By value of the field's column, its node."""
        return self._nodes[field]

    def meant(self, name: str) -> list[int]:
        """The nodes that a name means, ascending; several fields may have the same value."""
        return self._places.get(canonical(name), [])

    def declare(self, declared: Sequence[GraphNode]) -> dict[str, list[int]]:
        """By id of a declared node, its nodes: the values with this name, else a new node."""
        names: dict[str, dict[str, None]] = {}
        for node in sorted(set(declared), key=lambda each: (each.id, each.names)):
            names.setdefault(node.id, {}).update(dict.fromkeys((*node.names, node.id)))
        known = {
            node_id: sorted({place for name in called for place in self.meant(name)})
            for node_id, called in names.items()
        }
        for node_id in [each for each, places in known.items() if not places]:
            called = list(names[node_id])
            known[node_id] = [self._records + len(self.found)]
            self._add(Entity("", called[0]), [canonical(name) for name in called])
        return known

    def name(self, undeclared: Iterable[str]) -> None:
        """Make a node of each name that means none yet; names that differ in case are one node."""
        for name in sorted(set(undeclared)):
            if not self.meant(name):
                self._add(Entity("", name), [canonical(name)])

    def joined(self, sources: Sequence[int], targets: Sequence[int]) -> list[tuple[int, int]]:
        """The pairs that an edge between two names joins: the pairs within one field if there are any, else all
        pairs."""
        pairs = [(source, target) for source in sources for target in targets]
        alike = [pair for pair in pairs if self._field(pair[0]) == self._field(pair[1])]
        return alike or pairs

    def _field(self, node: int) -> str | None:
        return None if node < self._records else self.found[node - self._records].field


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
