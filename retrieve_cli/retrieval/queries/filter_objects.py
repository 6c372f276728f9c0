"""Filters as JSON objects, `{"license": "MIT", "dims": {"gte": 3}}`, in the filter language.

    object    := {field: condition, …}                            all of them hold
    condition := value | [value, …] | {operator: value, …}        a list means any of its values
    operator  := "eq" | "in" | "not" | "gt" | "gte" | "lt" | "lte"

A text that is a comparison with a number, `">=3"`, is that comparison. Every other text is taken literally: none of its
characters means anything to the filter language.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from retrieve_cli.contracts import Json
from retrieve_cli.errors import UsageError, quoted
from retrieve_cli.retrieval.queries.filters import Condition, Operator, is_number, parse
from retrieve_cli.untrusted.nearest import nearest

_COMPARISONS: Mapping[str, Operator] = {"gte": ">=", "lte": "<=", "gt": ">", "lt": "<"}
OPERATORS = ("eq", "in", "not", *_COMPARISONS)
_LIKE = 'for example: {"license": "MIT", "modality": ["CT", "MRI"], "dims": {"gte": 3}, "group": {"not": "archive"}}'


def filters_of(item: Mapping[str, Json], where: str) -> tuple[str, ...]:
    """Return the conditions of an object as expressions of the filter language.

    Raises:
        UsageError: a field or value cannot be one; names the field and `where`.
    """
    return tuple(
        _expression(condition, f"`{field}` of {where}")
        for field, value in item.items()
        for condition in _conditions(_field(field, where), value, f"`{field}` of {where}")
    )


def _field(name: str, where: str) -> str:
    if name.strip() != name or not name or set("!=<>").intersection(name):
        raise UsageError(f"{where} has the field {quoted(name)}, and no field has such a name", hint=_LIKE)
    return name


def _conditions(field: str, value: Json, where: str) -> Iterator[Condition]:
    if isinstance(value, Mapping):
        for operator, operand in value.items():
            yield _operation(field, operator, operand, where)
    elif isinstance(value, str) and (comparison := _comparison(value)) is not None:
        yield Condition(field, comparison[0], (comparison[1],))
    else:
        yield Condition(field, "=", _values(value, where))


def _operation(field: str, operator: str, operand: Json, where: str) -> Condition:
    if operator in _COMPARISONS:
        number = _text(operand, where)
        if not is_number(number):
            message = f"{where} compares by `{operator}` with {quoted(number)}, which is not a number"
            raise UsageError(message, hint=_LIKE)
        return Condition(field, _COMPARISONS[operator], (number,))
    if operator not in OPERATORS:
        near = nearest(operator, OPERATORS)
        hint = f"did you mean `{near}`?" if near else f"operators: {', '.join(OPERATORS)}"
        raise UsageError(f"{where} has an unknown operator {quoted(operator)}", hint=hint)
    return Condition(field, "=", _values(operand, where), negated=operator == "not")


def _comparison(text: str) -> tuple[Operator, str] | None:
    """The operator and the number of a text like `>=3`."""
    for sign in _COMPARISONS.values():
        if text.startswith(sign):
            number = text.removeprefix(sign).strip()
            return (sign, number) if is_number(number) else None
    return None


def _values(value: Json, where: str) -> tuple[str, ...]:
    several = value if isinstance(value, list) else [value]
    if not several:
        raise UsageError(f"{where} is empty: no record can have one of no values", hint=_LIKE)
    return tuple(_text(each, where) for each in several)


def _text(value: Json, where: str) -> str:
    """A value as records have it in their columns."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    raise UsageError(f"{where} must be a string, a number, true or false, not {quoted(value)}", hint=_LIKE)


def _expression(condition: Condition, where: str) -> str:
    """The expression that gives a condition, and nothing else."""
    expression = str(condition)
    try:
        understood = parse(expression)
    except UsageError as error:
        raise UsageError(f"{where} cannot be a filter: {error.message}", hint=_LIKE) from error
    if understood != condition:
        raise UsageError(f"{where} cannot be written as a filter: {quoted(expression)}", hint=_LIKE)
    return expression
