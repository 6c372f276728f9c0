"""Filters of a request as engines take them: conditions on the canonical values of rows.

A condition of the filter language is true for some of the values that a field has in the index, whether it is a
spelling, a glob or a comparison. An engine receives these values, so that no dialect has to know the language.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Literal

from retrieve_cli.contracts.canonical import canonical, seconds_of
from retrieve_cli.contracts.engines import Combined, Equal, Filter, Range
from retrieve_cli.search.conditions import chunk_fields, in_all_spellings
from retrieve_cli.storage.records.record_values import number_of

if TYPE_CHECKING:
    from retrieve_cli.retrieval.queries.filters import Condition
    from retrieve_cli.storage.records.columns import Columns
    from retrieve_cli.storage.records.view import RecordView

_MOST_VALUES = 1000
"""Values of one condition that an engine compares."""


def filter_on(
    view: RecordView,
    conditions: Sequence[Condition],
    *,
    tenant: str | None,
    ids: Sequence[Sequence[str]],
    excluded: Sequence[str],
) -> Filter | None:
    """Return a filter of engines for exactly the records that pass the conditions, belong to the tenant, have one id of
    each list in `ids`, and are not excluded; None if that cannot be expressed.

    Names of fields are resolved among the records of the view, and so are spellings, wildcards and periods: an engine
    compares canonical values, so that no dialect has to know the language.
    """
    parts: list[Filter | None] = [] if tenant is None else [Equal("tenants", [tenant])]
    parts += [Equal("record", list(names)) for names in ids]
    parts += [Combined("none", [Equal("record", list(excluded))])] if excluded else []
    parts += [None if chunk_fields(one.field) else _filter(view.columns, one) for one in conditions]
    known = [part for part in parts if part is not None]
    few = all(len(part.values) <= _MOST_VALUES for part in known if isinstance(part, Equal))
    return Combined("all", known) if few and len(known) == len(parts) else None


def _filter(columns: Columns, condition: Condition) -> Filter | None:
    """Return a condition as a filter; None if there are too many values."""
    column = columns.find(condition.field)
    negated = condition.negated is not (condition.operator == "!=")
    if not column.is_there:  # no record has the field: nothing is equal to it
        return Combined("none" if negated else "any", [])
    texts = list(column.matching(condition.operator.removeprefix("!"), in_all_spellings(condition), condition.globs))
    passing: Filter = Equal("keywords", sorted(set(map(canonical, texts))), column.name)
    if len(texts) > _MOST_VALUES:
        if condition.operator in ("=", "!="):
            return None
        numbers = _range("numbers", column.name, (number_of(column.name, text) for text in texts))
        ranges = [numbers, _range("dates", column.name, map(seconds_of, texts))]
        passing = Combined("any", [part for part in ranges if part is not None])
    return Combined("none", [passing]) if negated else passing


def _range(key: Literal["numbers", "dates"], field: str, values: Iterable[float | None]) -> Range | None:
    """Return the range of values that a comparison lets through."""
    numbers = [value for value in values if value is not None]
    return Range(key, field, min(numbers), max(numbers)) if numbers else None
