"""Sentences on filters that no record passes: the values that there are, or which filters do not go together.

Only records that are visible to the request are counted and suggested from.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from retrieve_cli.contracts.terms.tenants import TENANT
from retrieve_cli.errors import quoted, shortened
from retrieve_cli.retrieval.queries.filters import Condition, parse
from retrieve_cli.storage.records.suggestions import common_values, value_near

if TYPE_CHECKING:
    from retrieve_cli.contracts import Request
    from retrieve_cli.search.conditions import Passing
    from retrieve_cli.storage.records.view import RecordView

_LISTED = 8
"""Values of a field that a sentence lists."""
_LONGEST = 40
"""Characters of a value in a list."""


def explain(view: RecordView, request: Request, conditions: Sequence[Passing]) -> Iterator[str]:
    """Yield why no record of a view passes all of some conditions."""
    masks = [passing.records if view.rows is None else passing.records & view.rows for passing in conditions]
    numbers = [int(mask.sum()) for mask in masks]
    empty = [passing for passing, number in zip(conditions, numbers, strict=True) if not number]
    for passing in empty:
        if passing.field == TENANT and request.tenant is not None:
            yield f"no record belongs to the tenant {quoted(request.tenant)}"
        elif passing.written.startswith('"'):  # a phrase, which a record may have that the query excludes
            phrase = shortened(passing.written)
            yield f"all records with {phrase} are excluded" if passing.records.any() else f"no record has {phrase}"
        else:
            condition = parse(passing.written)
            verb = "has" if condition.operator == "=" and not condition.negated else "passes"
            yield f"no record {verb} {shortened(passing.written)}{_values(view, condition)}"
    if not empty and len(conditions) > 1:
        pairs = zip(conditions, numbers, strict=True)
        listed = ", ".join(f"{shortened(passing.written)} ({number:,})" for passing, number in pairs)
        yield f"no record passes all of {listed}"


def _values(view: RecordView, condition: Condition) -> str:
    """The end of a sentence: a value that is like the one asked for, and the values that most records have."""
    if condition.negated or condition.operator == "!=":
        return ""
    column = view.columns.column(condition.field)
    if column is None:
        return ""
    compared = condition.operator == "=" and condition.values[0] not in condition.globs
    near = value_near(column, condition.values[0]) if compared else None
    said = "" if near is None else f": did you mean {Condition(condition.field, '=', (near,))}?"
    values, others = common_values(column, _LISTED)
    if not values or (others and values[0][1] == 1):  # each record has its own
        return said
    listed = ", ".join(f"{shortened(text, _LONGEST)} ({number:,})" for text, number in values)
    more = f" and {others:,} more" if others else ""
    return f"{said}{'' if said else ';'} values of {condition.field}: {listed}{more}"
