"""Filters of frameworks as choices of a search.

    filter := {"field": …, "operator": …, "value": …} | {"operator": "AND" | "OR" | "NOT", "conditions": [filter, …]}

NOT is true unless all of its conditions hold, as in Haystack.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from retrieve_cli.api.requests import conditions, ids as texts_of_ids
from retrieve_cli.api.writable import WritableIndex
from retrieve_cli.errors import UsageError, quoted
from retrieve_cli.retrieval.queries.filters import Condition, filters_of, parse
from retrieve_cli.search.access import of_tenant
from retrieve_cli.search.conditions import chunk_fields, satisfying

if TYPE_CHECKING:
    from retrieve_cli.contracts import Mask
    from retrieve_cli.storage.records.view import RecordView

_COMPARISONS = {
    "==": "eq", "in": "in", "!=": "not", "not in": "not", ">": "gt", ">=": "gte", "<": "lt", "<=": "lte",
}  # fmt: skip
TEXT_MATCH = "text_match"
"""The operator of a value that contains a text."""
_LIKE = 'for example: {"field": "meta.license", "operator": "==", "value": "MIT"}'


def narrowed(index: WritableIndex, given: Any, choices: Mapping[str, Any]) -> dict[str, Any]:
    """Return the choices of a search with a filter: comparisons that must all hold as `filters`,
    every other filter as the ids of the records that pass.

    Raises:
        UsageError: it is not a filter, or no record has a field of it.
    """
    parts = _parts(given)
    parts = parts if given["operator"] == "AND" else [given]
    if not any(map(_parts, parts)):
        written = [str(_comparison(part)) for part in parts]
        return {**choices, "filters": [*conditions(choices.get("filters"), "filters"), *written]}
    tenant = choices.get("tenant") or choices.get("tenant_id")
    with index.reading() as generation:
        view = of_tenant(generation, tenant or None)
        passing = _passing(view, given)
        passing = passing if view.rows is None else passing & view.rows
        ids = [generation.record_id(row) for row in passing.nonzero()[0].tolist()]
    if (chosen := choices.get("doc_ids")) is not None:
        ids = sorted({*ids}.intersection(texts_of_ids(chosen, "doc_ids")))
    return {**choices, "doc_ids": ids}


def _parts(given: Any) -> list[Any]:
    """Return the filters under AND, OR or NOT; a comparison has none. Raises: UsageError."""
    fields = given if isinstance(given, Mapping) else {}
    if {"field", "operator"} <= fields.keys():
        return []
    parts = fields.get("conditions")
    if fields.get("operator") not in ("AND", "OR", "NOT") or not isinstance(parts, list) or not parts:
        raise UsageError(f"a filter is a comparison or AND, OR or NOT of `conditions`, not {quoted(given)}", hint=_LIKE)
    return parts


def _passing(view: RecordView, given: Any) -> Mask:
    """(records,) bool: the records of a view that pass, and maybe others."""
    if parts := _parts(given):
        masks = [_passing(view, part) for part in parts]
        join = np.logical_or if given["operator"] == "OR" else np.logical_and
        passing: Mask = join.reduce(masks)
        return ~passing if given["operator"] == "NOT" else passing
    condition = _comparison(given)
    if chunk_fields(condition.field):
        message = f"`{condition.field}` chooses chunks, and a filter with OR or NOT chooses records"
        raise UsageError(message, hint="search once for each of its conditions")
    return satisfying(view, condition).records


def _comparison(given: Mapping[str, Any]) -> Condition:
    field, operator, value = str(given["field"]).removeprefix("meta."), given["operator"], given.get("value")
    where = f"`{field}` of the filters"
    absent = value is None and operator in ("==", "!=")
    if absent or operator == TEXT_MATCH:
        pattern = "*" if absent else f"*{value}*"
        condition = parse(f"{'!' if operator == '==' else ''}{field}={pattern}")
        wild = not absent and {"*", "?"}.intersection(str(value or "*"))
        if wild or (condition.field, condition.values) != (field, (pattern,)):
            raise UsageError(f"{where} cannot match {quoted(value)}", hint="match a text without * ? and commas")
        return condition
    if operator not in _COMPARISONS:
        raise UsageError(f"a filter has the operator {quoted(operator)}", hint=f"operators: {', '.join(_COMPARISONS)}")
    if (operator in ("in", "not in")) != isinstance(value, list):
        raise UsageError(f"{where} has the operator {quoted(operator)} with {quoted(value)}", hint=_LIKE)
    (text,) = filters_of({field: {_COMPARISONS[operator]: value}}, "the filters")
    return parse(text)
