"""Filters of a request on the records of a generation, and on chunks by their section.

Filters in the words of engines: conditions on stored values, compared to the letter.

A condition of the filter language is true for some of the values that a field has in the index, whether it is a
spelling, a glob or a comparison. An engine receives these values, so that no dialect has to know the language.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from retrieve_cli.contracts.engines import AnyOf
from retrieve_cli.contracts.terms.tenants import TENANT
from retrieve_cli.errors import UsageError
from retrieve_cli.search.access import columns_seen
from retrieve_cli.storage.generation import Generation
from retrieve_cli.storage.records.column import known_as

if TYPE_CHECKING:
    from retrieve_cli.contracts import Mask
    from retrieve_cli.retrieval.queries.filters import Condition
    from retrieve_cli.storage.records.columns import Columns

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


def satisfying(generation: Generation, condition: Condition, visible: Mask | None = None) -> Passing:
    """Return what satisfies a condition; fields and values that no visible record has are unknown.

    A record's own field `section`, of its metadata, is a section of all its chunks.

    Raises:
        UsageError: no visible record has the field.
    """
    field, written = condition.field, str(condition)
    if field.casefold() == _SECTION:
        from retrieve_cli.storage.records.sections import sections_of

        sections = sections_of(generation)
        if sections.known(generation.starts, visible):
            chunks = sections.select(condition.operator.removeprefix("!"), condition.values, condition.globs)
            chunks |= spread(generation, _own_section(generation, condition, visible))
            chunks = ~chunks if condition.negated is not (condition.operator == "!=") else chunks
            return Passing(field, written, with_chunks(generation, chunks), chunks)
    if field.startswith(_FACETS) and (passing := _by_facet(generation, condition, visible)) is not None:
        return passing
    columns = columns_seen(generation, visible)
    try:
        found = columns.select(field, condition.operator, in_all_spellings(condition), globs=condition.globs)
    except UsageError as error:
        from retrieve_cli.storage.records.sections import sections_of
        from retrieve_cli.untrusted.nearest import nearest

        if nearest(field, [_SECTION]) is None or not sections_of(generation).known(generation.starts, visible):
            raise error from None
        raise UsageError(error.message, hint=f"did you mean `{_SECTION}`?") from None
    return Passing(field, written, ~found if condition.negated else found)


def _by_facet(generation: Generation, condition: Condition, visible: Mask | None) -> Passing | None:
    """Return what satisfies a condition on a facet of chunks; None if the index has none, or the records' own metadata
    have the field instead. Raises: UsageError: nothing has the field."""
    from retrieve_cli.storage.records.sections import facet_columns

    if (columns := facet_columns(generation)) is None:
        return None
    if visible is not None:
        columns = columns.within(spread(generation, visible))
    if condition.field not in columns.fields and condition.field in columns_seen(generation, visible).fields:
        return None
    chunks = columns.select(condition.field, condition.operator, condition.values, globs=condition.globs)
    chunks = ~chunks if condition.negated else chunks
    return Passing(condition.field, str(condition), with_chunks(generation, chunks), chunks)


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


def _own_section(generation: Generation, condition: Condition, visible: Mask | None) -> Mask:
    """The records whose own field satisfies the positive condition."""
    columns = columns_seen(generation, visible)
    operator = condition.operator.removeprefix("!")
    if (column := columns.column(_SECTION)) is None or (operator != "=" and not len(column.numbered)):
        return np.zeros(len(generation.records), np.bool_)
    return columns.select(_SECTION, operator, condition.values, globs=condition.globs)


def spread(generation: Generation, records: Mask) -> Mask:
    """(chunks,) bool: the chunks of some records."""
    return np.repeat(records, np.diff(generation.starts))


def with_chunks(generation: Generation, chunks: Mask) -> Mask:
    """(records,) bool: the records that have one of these chunks."""
    return np.logical_or.reduceat(chunks, generation.starts[:-1])


def together(generation: Generation, masks: Sequence[Mask], conditions: Sequence[Passing]) -> tuple[Mask | None, ...]:
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
        chunks = chunks & spread(generation, records)
        records = with_chunks(generation, chunks)
    return records, chunks


def allowed_by(generation: Generation, filters: Sequence[str], visible: Mask | None = None) -> Mask | None:
    """(records,) bool: the visible records that satisfy every condition; one chunk must satisfy all conditions on
    chunks. None: all.

    Raises:
        UsageError: a filter is invalid, or names a field that no record has.
    """
    if not filters:
        return visible
    from retrieve_cli.retrieval.queries.filters import parse

    masks = [] if visible is None else [visible]
    return together(generation, masks, [satisfying(generation, each, visible) for each in map(parse, filters)])[0]


_MOST_VALUES = 1000
"""Values of one condition; a condition with more is expressed by rows."""
_ID = "id"


def conditions_on(
    generation: Generation,
    conditions: Sequence[Condition],
    *,
    tenant: str | None,
    ids: Sequence[Sequence[str]],
    excluded: Sequence[str],
    visible: Mask | None = None,
) -> list[AnyOf] | None:
    """Return conditions for exactly the records that pass the filters, belong to the tenant, have one id of each list
    in `ids`, and are not excluded; None if that cannot be expressed.

    Names of fields are resolved among the `visible` records, (records,) bool; None: all.
    """
    from retrieve_cli.storage.records.columns import columns_of  # a query without conditions does without it

    columns, column = columns_seen(generation, visible), columns_of(generation).column(TENANT)
    said = [] if tenant is None else [AnyOf(TENANT if column is None else column.name, [tenant])]
    said += [AnyOf(_ID, list(names)) for names in ids]
    said += [AnyOf(_ID, list(excluded), negated=True)] if excluded else []
    for condition in conditions:
        if (one := None if chunk_fields(condition.field) else _any_of(columns, condition)) is None:
            return None
        said.append(one)
    return said if all(len(one.values) <= _MOST_VALUES for one in said) else None


def _any_of(columns: Columns, condition: Condition) -> AnyOf | None:
    """Return a condition on stored values; None if there are too many of them."""
    column = columns.find(condition.field)
    negated = condition.negated is not (condition.operator == "!=")
    if column is None:  # no record has the field: nothing is equal to it
        return AnyOf(condition.field, [], negated=negated)
    if condition.operator in ("=", "!="):
        wanted = column.equal(in_all_spellings(condition), condition.globs)
    else:
        wanted = column.compared(condition.operator, condition.values)
    places = np.flatnonzero(wanted)
    if len(places) > _MOST_VALUES:
        return None
    return AnyOf(column.name, [column.text(int(place)) for place in places], negated=negated)
