"""Filters of a request on the records of a generation, and on chunks by their section.

Filters in the words of engines: conditions on stored values, compared to the letter.

A condition of the filter language is true for some of the values that a field has in the index, whether it is a
spelling, a glob or a comparison. An engine receives these values, so that no dialect has to know the language.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from retrieve_cli.contracts.engines import AnyOf
from retrieve_cli.contracts.terms.tenants import TENANT
from retrieve_cli.errors import UsageError
from retrieve_cli.storage.records.record_values import known_as

if TYPE_CHECKING:
    from retrieve_cli.contracts import Mask
    from retrieve_cli.retrieval.queries.filters import Condition
    from retrieve_cli.storage.records.columns import Columns
    from retrieve_cli.storage.records.view import RecordView

_CANONICAL = ("license", "modality")
"""Fields of which the records of catalogs have one spelling of each value."""
_FACETS = "facets."
"""In front of the fields that chunks have if the index has facets; see `storage/records/sections.py`."""
_SECTION = "section"
"""The field that chunks have; see `storage/records/sections.py`, which a query without such a filter does without."""


class Passing(NamedTuple):
    """Records and chunks that satisfy one condition."""

    field: str
    written: str
    """The whole as the filter language writes it."""
    records: Mask
    """(records,) bool: those that do, or that have a chunk which does."""
    chunks: Mask | None = None
    """(chunks,) bool: those that do, if the condition is on chunks."""
    notice: str = ""
    """A sentence, if others may satisfy it, too."""


def satisfying(view: RecordView, condition: Condition) -> Passing:
    """Return what satisfies a condition; fields and values that no record of the view has are unknown.

    A record's own field `section`, of its metadata, is a section of all its chunks.

    Raises:
        UsageError: no record of the view has the field.
    """
    field, written = condition.field, str(condition)
    if field.casefold() == _SECTION and (sections := view.sections) is not None:
        chunks = sections.select(condition.operator.removeprefix("!"), condition.values, condition.globs)
        chunks |= view.chunks_of(_own_section(view, condition))
        chunks = ~chunks if condition.negated is not (condition.operator == "!=") else chunks
        return Passing(field, written, view.with_chunks(chunks), chunks)
    if field.startswith(_FACETS) and (passing := _by_facet(view, condition)) is not None:
        return passing
    try:
        found = view.columns.select(field, condition.operator, in_all_spellings(condition), globs=condition.globs)
    except UsageError as error:
        from retrieve_cli.untrusted.nearest import nearest

        if nearest(field, [_SECTION]) is None or view.sections is None:
            raise error from None
        raise UsageError(error.message, hint=f"did you mean `{_SECTION}`?") from None
    return Passing(field, written, ~found if condition.negated else found)


def _by_facet(view: RecordView, condition: Condition) -> Passing | None:
    """Return what satisfies a condition on a facet of chunks; None if the index has none, or the records' own metadata
    have the field instead. Raises: UsageError: nothing has the field."""
    if (columns := view.facets) is None:
        return None
    if condition.field not in columns.fields and condition.field in view.columns.fields:
        return None
    chunks = columns.select(condition.field, condition.operator, condition.values, globs=condition.globs)
    chunks = ~chunks if condition.negated else chunks
    return Passing(condition.field, str(condition), view.with_chunks(chunks), chunks)


def chunk_fields(field: str) -> bool:
    """Return True if a condition on a field may be one on chunks."""
    return field.casefold() == _SECTION or field.startswith(_FACETS)


def in_all_spellings(condition: Condition) -> tuple[str, ...]:
    """Return the values of a condition, several also as one value with commas in it, and each as the records of
    catalogs have it: `magnetic resonance imaging` as MRI."""
    if condition.operator not in ("=", "!="):
        return condition.values
    whole = [comma.join(condition.values) for comma in (",", ", ") if len(condition.values) > 1]
    if known_as(condition.field) not in _CANONICAL:
        return (*condition.values, *whole)
    from retrieve_cli.contracts.terms.licences import spdx_of
    from retrieve_cli.contracts.terms.modalities import modality_of

    canonical = {"license": spdx_of, "modality": modality_of}[known_as(condition.field)]
    plain = [value for value in condition.values if value not in condition.globs]
    return (*condition.values, *whole, *(name for value in plain if (name := canonical(value))))


def _own_section(view: RecordView, condition: Condition) -> Mask:
    """The records whose own field satisfies the positive condition."""
    operator = condition.operator.removeprefix("!")
    if (column := view.columns.column(_SECTION)) is None or (operator != "=" and not len(column.numbers)):
        return np.zeros(len(view.columns), np.bool_)
    return view.columns.select(_SECTION, operator, condition.values, globs=condition.globs)


def together(view: RecordView, masks: Sequence[Mask], conditions: Sequence[Passing]) -> tuple[Mask | None, ...]:
    """Return the records and the chunks that pass all conditions and are in all masks, which are of records.

    Conditions on chunks hold for one and the same chunk. None if there is nothing to pass.
    """
    records = chunks = None
    for mask in (*masks, *(each.records for each in conditions)):
        records = mask if records is None else records & mask
    for each in conditions:
        if each.chunks is not None:
            chunks = each.chunks if chunks is None else chunks & each.chunks
    if chunks is not None and records is not None:
        chunks = chunks & view.chunks_of(records)
        records = view.with_chunks(chunks)
    return records, chunks


def allowed_by(view: RecordView, filters: Sequence[str]) -> Mask | None:
    """(records,) bool: the records of the view that satisfy every condition; one chunk must satisfy all conditions on
    chunks. None: all.

    Raises:
        UsageError: a filter is invalid, or names a field that no record has.
    """
    if not filters:
        return view.rows
    from retrieve_cli.retrieval.queries.filters import parse

    masks = [] if view.rows is None else [view.rows]
    return together(view, masks, [satisfying(view, each) for each in map(parse, filters)])[0]


_MOST_VALUES = 1000
"""Values of one condition; a condition with more is expressed by rows."""
_ID = "id"


def conditions_on(
    view: RecordView,
    conditions: Sequence[Condition],
    *,
    tenant: str | None,
    ids: Sequence[Sequence[str]],
    excluded: Sequence[str],
) -> list[AnyOf] | None:
    """Return conditions for exactly the records that pass the filters, belong to the tenant, have one id of each list
    in `ids`, and are not excluded; None if that cannot be expressed.

    Names of fields are resolved among the records of the view.
    """
    said = [] if tenant is None else [AnyOf(TENANT, [tenant])]
    said += [AnyOf(_ID, list(names)) for names in ids]
    said += [AnyOf(_ID, list(excluded), negated=True)] if excluded else []
    for condition in conditions:
        if (one := None if chunk_fields(condition.field) else _any_of(view.columns, condition)) is None:
            return None
        said.append(one)
    return said if all(len(one.values) <= _MOST_VALUES for one in said) else None


def _any_of(columns: Columns, condition: Condition) -> AnyOf | None:
    """Return a condition on stored values; None if there are too many of them."""
    column = columns.find(condition.field)
    negated = condition.negated is not (condition.operator == "!=")
    if column is None:  # no record has the field: nothing is equal to it
        return AnyOf(condition.field, [], negated=negated)
    matching = column.matching(condition.operator.removeprefix("!"), in_all_spellings(condition), condition.globs)
    values = list(islice(matching, _MOST_VALUES + 1))
    return None if len(values) > _MOST_VALUES else AnyOf(column.name, values, negated=negated)
