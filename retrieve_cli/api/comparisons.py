"""Comparisons of fields that other programs send as objects, joined by and/or: as conditions of the filter language.

A condition that cannot be expressed exactly is an error. Text is compared without regard to case, as in any filter.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from retrieve_cli.contracts import Json
from retrieve_cli.errors import UsageError, quoted
from retrieve_cli.retrieval.queries.filters import Condition, Operator, parse
from retrieve_cli.storage.records.column import PATHS, known_as

Relation = Literal["=", "!=", ">", ">=", "<", "<=", "contains", "not contains", "starts", "ends", "empty", "not empty"]

_NUMERIC: dict[Relation, Operator] = {">": ">", ">=": ">=", "<": "<", "<=": "<="}
_GLOBS: dict[Relation, tuple[str, str]] = {
    "contains": ("*", "*"),
    "not contains": ("*", "*"),
    "starts": ("", "*"),
    "ends": ("*", ""),
}
_NO_OR = "send one request per alternative, or compare one field with several values (in)"


class Comparison(NamedTuple):
    """A field in relation to any of some values: none of them for `!=` and `not contains`."""

    field: str
    relation: Relation
    values: Sequence[Json] = ()


class Junction(NamedTuple):
    """Comparisons that must all hold (`and`), or of which one must (`or`)."""

    operator: Literal["and", "or"]
    parts: Sequence[Comparison | Junction]


def filters_of(tree: Comparison | Junction) -> tuple[str, ...]:
    """Return the filters of which all must hold.

    Raises:
        UsageError: the filter language cannot express a comparison, or an alternative, exactly.
    """
    return tuple(str(condition) for condition in _conditions(tree))


def _conditions(tree: Comparison | Junction) -> list[Condition]:
    if isinstance(tree, Comparison):
        return [_condition(tree)]
    parts = [_conditions(part) for part in tree.parts]
    if not parts:
        raise UsageError(f"a filter `{tree.operator}` has no parts", hint="remove it, or add a comparison")
    if tree.operator == "and" or len(parts) == 1:
        return [condition for part in parts for condition in part]
    return [_any_of(parts)]


def _any_of(parts: Sequence[Sequence[Condition]]) -> Condition:
    """The condition that one of several holds: equalities of one field are one condition."""
    conditions = [part[0] for part in parts]
    fields = {condition.field for condition in conditions}
    plain = all(condition.operator == "=" and not condition.negated for condition in conditions)
    if len(fields) > 1 or not plain or any(len(part) > 1 for part in parts):
        message = "a filter `or` joins equalities of one field; this one joins other comparisons"
        raise UsageError(message, hint=_NO_OR)
    values = tuple(dict.fromkeys(value for condition in conditions for value in condition.values))
    globs = frozenset[str]().union(*(condition.globs for condition in conditions))
    literal = {value for condition in conditions for value in condition.values if value not in condition.globs}
    if globs & literal:
        raise UsageError("a filter `or` has a value both as text and as a pattern", hint=_NO_OR)
    return Condition(fields.pop(), "=", values, globs=globs)


def _condition(comparison: Comparison) -> Condition:
    """The condition that a comparison is, held to what the filter language reads of it."""
    field, relation, values = comparison
    condition = _written(field, relation, values)
    try:
        exact = parse(str(condition)) == condition
    except UsageError:
        exact = False
    if not exact:
        said = f"the comparison of {quoted(field)} with {quoted(_shown(values))} cannot be expressed as a filter"
        raise UsageError(said, hint="fields have no = < > !, values are not empty")
    return condition


def _written(field: str, relation: Relation, values: Sequence[Json]) -> Condition:
    if relation in ("empty", "not empty"):
        _expect_no_path(field, relation)
        return Condition(field, "=", ("*",), relation == "empty", frozenset("*"))
    if not values:
        raise UsageError(f"the comparison of {quoted(field)} has no value", hint="give at least one")
    if relation in _NUMERIC:
        return Condition(field, _NUMERIC[relation], (_number(field, values),))
    if relation in _GLOBS:
        _expect_no_path(field, relation)
        before, after = _GLOBS[relation]
        patterns = tuple(f"{before}{_literal(field, value)}{after}" for value in values)
        return Condition(field, "=", patterns, relation == "not contains", frozenset(patterns))
    texts = tuple(dict.fromkeys(text for value in values for text in _spellings(field, value)))
    return Condition(field, "!=" if relation == "!=" else "=", texts)


def _spellings(field: str, value: Json) -> Iterable[str]:
    """The texts under which a value is indexed: a whole number may be stored as 3 and as 3.0."""
    if isinstance(value, bool):
        return ("true" if value else "false",)
    if isinstance(value, int | float):
        whole = isinstance(value, int) or value.is_integer()
        return (str(int(value)), str(float(value))) if whole else (str(value),)
    if isinstance(value, str):
        return (value,)
    raise UsageError(f"{quoted(field)} is compared with {quoted(value)}", hint="compare texts, numbers, true and false")


def _number(field: str, values: Sequence[Json]) -> str:
    (value, *more) = values
    if more or isinstance(value, bool) or not isinstance(value, int | float):
        said = f"the order of {quoted(field)} is compared with {quoted(_shown(values))}, which is not a number"
        raise UsageError(said, hint="compare numbers; dates that are stored as text have no order")
    return str(value)


def _literal(field: str, value: Json) -> str:
    if not isinstance(value, str) or not value or {"*", "?"} & set(value):
        said = f"the text of {quoted(field)} is compared with a part {quoted(value)}"
        raise UsageError(said, hint="give a text that is not empty, without * and ?")
    return value


def _expect_no_path(field: str, relation: str) -> None:
    if known_as(field) in PATHS:
        message = f"`{relation}` of the field {quoted(field)} cannot be expressed"
        raise UsageError(message, hint='write "=" a whole path')


def _shown(values: Sequence[Json]) -> Json:
    return values[0] if len(values) == 1 else list(values)
