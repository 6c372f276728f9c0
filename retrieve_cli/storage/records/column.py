"""One field of the records: its distinct values in order, those that are numbers, and the records that have them.

Values by which a row of `records.jsonl` can be filtered: fields with their values as text, some of them numbers.

Limits apply to one record, never to the catalog: the values of a record do not depend on the others, so that a row can
be taken over from an older generation, and the columns stay a fraction of the records.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from retrieve_cli.contracts import Json
from retrieve_cli.contracts.canonical import (
    canonical,
    dates_from,
    displayed,
    folded,
    is_date,
    meanings,
    number_of as canonical_number,
    period_of,
    range_of,
)
from retrieve_cli.contracts.terms.tenants import KEYS, TENANT
from retrieve_cli.contracts.tools import columns_in
from retrieve_cli.errors import UsageError, quoted
from retrieve_cli.frozen import Frozen, replace
from retrieve_cli.storage.vocabulary import Vocabulary

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from retrieve_cli.contracts import Terms

    Flags = NDArray[np.bool_]
    Places = range | NDArray[np.int64]

COMPARISONS: Mapping[str, Callable[..., Any]] = {
    ">=": np.greater_equal,
    "<=": np.less_equal,
    ">": np.greater,
    "<": np.less,
}


class Column(Frozen, eq=False):
    """A field: its values are numbered from 0, in order of their canonical form."""

    name: str
    vocabulary: Vocabulary
    span: Places
    """Its values in the vocabulary, ascending."""
    numbered: Terms
    """(m,) values that are numbers, ascending."""
    numbers: NDArray[np.float64]
    """(m,) the numbers."""
    records: Terms
    """(p,) records, ascending, each once for every value it has."""
    stored: Terms
    """(p,) the value of each of these, counted from `first`, in the order of the record."""
    first: int
    """Number of the value 0 in `stored`."""

    def __len__(self) -> int:
        """Number of distinct values."""
        return len(self.span)

    @property
    def values(self) -> Terms:
        """(p,) the value of each of `records`."""
        return self.values_in(slice(None))

    def values_in(self, part: slice) -> Terms:
        """Return the values of some of `records`."""
        return self.stored[part] - np.int32(self.first)

    def part(self, first: int, end: int) -> slice:
        """Return the place of the records from `first` up to but not `end` in `records`."""
        places = np.array([first, end], self.records.dtype)  # of another type, all records would be copied
        return slice(*np.searchsorted(self.records, places).tolist())

    def text(self, value: int) -> str:
        """Return a value as written."""
        return self.vocabulary[self.span[value]]

    def sound(self, length: int) -> bool:
        """Return True if its arrays fit each other and a table of `length` records."""
        ends = self.vocabulary.ends[self.first : self.first + len(self) + 1]
        return bool(
            (ends[1:] >= ends[:-1]).all()
            and _within(self.records, length)
            and _within(self.values, len(self))
            and (self.records[1:] >= self.records[:-1]).all()
            and _within(self.numbered, len(self))
            and (self.numbered[1:] > self.numbered[:-1]).all()
        )

    def within(self, visible: Flags) -> Column:
        """Return the field as the `visible` records have it, (n,) bool: without the values of others alone."""
        kept = visible[self.records]
        values = self.values[kept]
        seen = np.zeros(len(self), np.bool_)
        seen[values] = True
        numbers = np.cumsum(seen, dtype=np.int32) - 1
        numbered = seen[self.numbered]
        return replace(
            self,
            span=np.flatnonzero(seen) + self.first if isinstance(self.span, range) else self.span[seen],
            records=self.records[kept],
            stored=numbers[values],
            first=0,
            numbered=numbers[self.numbered[numbered]],
            numbers=self.numbers[numbered],
        )

    def number(self, value: str) -> int | None:
        """Return the number of a value, compared to the letter; None if no record has it."""

        def key(place: int) -> tuple[str, str]:
            return self.vocabulary.folded(place), self.vocabulary[place]

        number = bisect_left(self.span, (canonical(value), value), key=key)
        return number if number < len(self) and self.text(number) == value else None

    def spelling(self, value: str) -> str:
        """Return a value, given in any case, as a record spells it, the alphabetically first of several spellings."""
        form = canonical(value)
        first = bisect_left(self.span, form, key=self.vocabulary.folded)
        is_there = first < len(self) and self.vocabulary.folded(self.span[first]) == form
        return self.text(first) if is_there else value

    def records_with(self, value: str) -> list[int]:
        """Return the records with a value in any spelling."""
        form, folded_at = canonical(value), self.vocabulary.folded
        first = bisect_left(self.span, form, key=folded_at)
        end = bisect_right(self.span, form, first, key=folded_at)
        if first == end:
            return []
        values = self.values
        records: list[int] = self.records[(values >= first) & (values < end)].tolist()
        return records

    def equal(self, values: Sequence[str], globs: Collection[str]) -> Flags:
        """Return the values that are equal to any of `values`, or match it if it is in `globs`; (v,) bool."""
        wanted = np.zeros(len(self), np.bool_)
        for value in values:
            if value in globs:
                self._match(folded(value), wanted)
                continue
            for form in meanings(value):
                first = bisect_left(self.span, form, key=self.vocabulary.folded)
                wanted[first : bisect_right(self.span, form, first, key=self.vocabulary.folded)] = True
            self._mark_dates("=", value, wanted)
            if (ends := range_of(value)) is not None:
                low, high = ends
                wanted |= self.compared(">=", [low]) & self.compared("<=", [high])
            if self.name == "dimension" and (number := number_of(self.name, value)) is not None:
                wanted[self.numbered[self.numbers == number]] = True
        return wanted

    def _mark_dates(self, operator: str, value: str, wanted: Flags) -> None:
        """Mark the dates that have a relation to a date or a part of one."""
        bounds = dates_from(value, operator)
        if bounds is None:
            return
        first, end = (bisect_left(self.span, form, key=self.vocabulary.folded) for form in bounds)
        texts = self.vocabulary.texts(self.span[first:end])
        wanted[first:end] |= np.fromiter(map(is_date, texts), np.bool_, end - first)

    @property
    def is_ordered(self) -> bool:
        """True if a value of it is a number or a date."""
        dates = np.zeros(len(self), np.bool_)
        if not len(self.numbered):
            self._mark_dates(">=", "0000", dates)
        return bool(len(self.numbered) or dates.any())

    def _match(self, glob: str, wanted: Flags) -> None:
        """Mark the values that match a glob; only those with its literal prefix are compared."""
        if self.name in PATHS:
            glob = glob.removeprefix("./")
        from retrieve_cli.storage.records.globs import literal_prefix, path_glob, text_glob

        pattern = path_glob(glob) if self.name in PATHS else text_glob(glob)
        prefix, folded = literal_prefix(glob), self.vocabulary.folded
        first = bisect_left(self.span, prefix, key=folded)
        end = bisect_right(self.span, prefix, first, key=lambda number: folded(number)[: len(prefix)])
        texts = self.vocabulary.all_folded(self.span[first:end])
        wanted[first:end] |= np.fromiter((pattern.fullmatch(text) is not None for text in texts), np.bool_, end - first)

    def compared(self, operator: str, values: Sequence[str]) -> Flags:
        """Return the values that are numbers or dates in the relation to any of `values`; (v,) bool.

        Raises:
            UsageError: one of these is neither.
        """
        wanted = np.zeros(len(self), np.bool_)
        for value in values:
            number = number_of(self.name, value)
            if number is None and period_of(value) is None:
                message = f"{quoted(value)} is not a number or a date to compare {quoted(self.name)} with"
                raise UsageError(message, hint=f"{self.name}{operator}3 or {self.name}{operator}2024-01-31")
            if number is not None:
                wanted[self.numbered[COMPARISONS[operator](self.numbers, number)]] = True
            self._mark_dates(operator, value, wanted)
        return wanted

    def places(self, *, descending: bool) -> NDArray[np.float64]:
        """Return the place of each value in an order, (v,) float64: numbers first, equal values at one place. Of years,
        months and days together, the forms are in the order of time."""
        forms = self.vocabulary.all_folded(self.span)
        first_of = np.ones(len(self), np.bool_)
        first_of[1:] = [after != before for before, after in pairwise(forms)]
        places = (np.cumsum(first_of) + len(self.numbers)).astype(np.float64)
        if any(period_of(form) is None for form in forms):
            places[self.numbered] = np.unique(self.numbers, return_inverse=True)[1]
        return -places if descending else places

    def values_of(self, record: int) -> list[str]:
        """Return the values of a record, in its order."""
        return [self.text(value) for value in self.values_in(self.part(record, record + 1)).tolist()]

    def counts(self) -> dict[str, int]:
        """Return the number of records with each value, most frequent first.

        Equal values are one, in the most frequent spelling; a number is printed in its canonical form.
        """
        spellings: dict[str, list[tuple[int, str]]] = {}
        for value, count in enumerate(np.bincount(self.values, minlength=len(self)).tolist()):
            if count:
                text = self.text(value)
                spellings.setdefault(canonical(text), []).append((-count, text))
        merged = [(sum(count for count, _ in same), form, displayed(min(same)[1])) for form, same in spellings.items()]
        return {text: -count for count, _, text in sorted(merged)}


def _within(numbers: Terms, limit: int) -> bool:
    return not len(numbers) or (int(numbers.min()) >= 0 and int(numbers.max()) < limit)


LONGEST_VALUE = 200
"""Characters of a value; longer texts are prose. Ids, names and paths have no limit."""
MOST_VALUES = 100
"""Values of one field of a record; a field with more is data (a vector, a table) and is skipped."""
MOST_FIELDS = 200
"""Fields that a record's metadata may have."""
LONGEST_NAME = 100
DEEPEST = 8
"""Levels of objects in metadata."""

OMITTED = ""
"""The field whose values are the names of fields with skipped values."""
PATHS = frozenset({"path", "source"})
"""Fields in which a glob's `*` stays within a folder."""
FIELDS = frozenset("id name license group keyword kind source path modality dimension format".split())
"""Fields that any record may have, in addition to the fields of its metadata."""
_SPELLINGS = {
    **{name: name for name in FIELDS},
    "keywords": "keyword",
    "modalities": "modality",
    "dimensions": "dimension",
    "dims": "dimension",
    "dim": "dimension",
    "formats": "format",
}
_METADATA = "metadata."
"""In front of the name of a field in metadata that is called like one of `FIELDS`."""
_SUPPORTING = {"modality": "modalities", "dimension": "dimensions", "format": "formats"}
_DIMENSION = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*+(?:-\s*+)?[dD]")


def known_as(name: str) -> str:
    """Return the field that an alias names, if any record may have it; else the name itself."""
    return TENANT if name.casefold() in KEYS else _SPELLINGS.get(name.casefold(), name)


def number_of(field: str, value: str) -> float | None:
    """Return the number that a value is, if it is one; a dimension may be written 3D."""
    if field == "dimension" and (match := _DIMENSION.fullmatch(value)):
        value = match[1]
    return canonical_number(value)


def values_of(row: Mapping[str, Json]) -> dict[str, list[str]]:
    """Return the distinct values of each field of a record, by canonical form; under `OMITTED` the skipped fields.

    A field that the record itself does not have is taken from its metadata, if there is one of that name.
    """
    fields: dict[str, list[str]] = {name: [row[name]] for name in ("id", "name", "kind", "source")}
    fields["path"] = fields["id"] if row["kind"] == "catalog" else fields["source"]
    omitted: dict[str, None] = {}
    supporting = row["supporting_data"]
    limited = [("license", row["metadata"].get("licenses") or row["license"]), ("group", row["group"])]
    limited += [("keyword", row["keywords"])]
    limited += [(name, supporting.get(key)) for name, key in _SUPPORTING.items()]
    metadata = list(_leaves(columns_in(row["metadata"]), "", DEEPEST))
    omitted |= dict.fromkeys(name[:LONGEST_NAME] for name, _ in metadata[MOST_FIELDS : 2 * MOST_FIELDS])
    for name, value in (*limited, *metadata[:MOST_FIELDS]):
        texts, complete = _texts(value)
        if not complete or len(name) > LONGEST_NAME:
            omitted[name[:LONGEST_NAME]] = None
        if texts and len(name) <= LONGEST_NAME:
            fields[name] = fields[name] + texts if name in fields else texts
    for name in [name for name in fields if name.startswith(_METADATA)]:
        if (shadowing := known_as(name.removeprefix(_METADATA))) in FIELDS:
            fields.setdefault(shadowing, fields[name])
    # A record has the tenants that every key names: with keys that disagree, none.
    named = [fields[key] for key in KEYS if key in fields]
    fields.pop(TENANT, None)
    shared = [text for text in named[0] if all(text in others for others in named)] if named else []
    fields |= {TENANT: shared} if shared else {}
    values = {name: _distinct(texts) for name, texts in fields.items() if texts[0]}
    return {**values, OMITTED: list(omitted)} if omitted else values


def _leaves(value: Mapping[str, Json], prefix: str, levels: int) -> Iterator[tuple[str, Json]]:
    """Yield name and value of everything in metadata that is not an object, names joined by dots; an object in a list
    is read like an object alone."""
    for key, part in value.items():
        name = prefix + key.strip()
        objects, others = _apart(part)
        for inner in objects if levels > 1 else ():
            yield from _leaves(inner, name + ".", levels - 1)
        left = part if levels == 1 else others
        if left is not None:
            yield (name if name and name.casefold() not in _SPELLINGS else _METADATA + name), left


def _apart(value: Json) -> tuple[Sequence[Mapping[str, Json]], Json]:
    """Return the objects of a value, which may be a list, and what else is in it; None without anything else."""
    if isinstance(value, Mapping):
        return [value], None
    if not isinstance(value, list | tuple) or not any(isinstance(part, Mapping) for part in value):
        return [], value
    objects = [part for part in value if isinstance(part, Mapping)]
    return objects, [part for part in value if not isinstance(part, Mapping)] or None


def _texts(value: Json) -> tuple[list[str], bool]:
    """Return the values as text, and whether these are all."""
    parts = value if isinstance(value, list | tuple) else [value]
    if len(parts) > MOST_VALUES:
        return [], False
    texts = [_text(part) for part in parts if part is not None]
    return [text for text in texts if text], None not in texts


def _text(value: Json) -> str | None:
    """Return one value as text; empty if it is blank, None if it does not belong in a column."""
    if isinstance(value, str):
        text = value.strip()
        return text if len(text) <= LONGEST_VALUE else None
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else None


def _distinct(texts: list[str]) -> list[str]:
    if len(texts) == 1:
        return texts
    first: dict[str, str] = {}
    for text in texts:
        first.setdefault(canonical(text), text)
    return list(first.values())
