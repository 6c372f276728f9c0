"""Filters in the words of engines: conditions on stored values, compared to the letter.

A condition of the filter language is true for some of the values that a field has in the index, whether it is a
spelling, a glob or a comparison. An engine receives these values, so that no dialect has to know the language.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from retrieve_cli.contracts.engines import AnyOf
from retrieve_cli.contracts.terms.tenants import TENANT
from retrieve_cli.errors import UsageError
from retrieve_cli.search.access import columns_seen
from retrieve_cli.search.conditions import chunk_fields, in_all_spellings
from retrieve_cli.storage.generation import Generation
from retrieve_cli.storage.records.columns import columns_of

if TYPE_CHECKING:
    from retrieve_cli.contracts import Mask
    from retrieve_cli.retrieval.queries.filters import Condition
    from retrieve_cli.storage.records.columns import Columns

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
    try:
        columns, column = columns_seen(generation, visible), columns_of(generation).column(TENANT)
    except UsageError:  # an index of an earlier version has no columns, and its rows were sent without values
        return None
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
    if column is None:  # no record has the field: nothing is equal to it
        return AnyOf(condition.field, [], negated=condition.negated is not (condition.operator == "!="))
    if condition.operator in ("=", "!="):
        wanted = column.equal(in_all_spellings(condition), condition.globs)
    else:
        wanted = column.compared(condition.operator, condition.values)
    places = np.flatnonzero(wanted)
    if len(places) > _MOST_VALUES:
        return None
    negated = condition.negated is not (condition.operator == "!=")
    return AnyOf(column.name, [column.text(int(place)) for place in places], negated=negated)
