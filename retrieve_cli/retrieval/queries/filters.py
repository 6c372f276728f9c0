"""The filter language: `license=MIT`, `modality=CT,MRI`, `dims>=3`, `released>=2024-01`, `path=guides/**`.

    condition := ["!"] field operator value {"," value}
    operator  := "=" | "!=" | ">=" | "<=" | ">" | "<"
    value     := plain text, in which * and ? are wildcards, or "verbatim text", in which "" is a quotation mark

Several values mean any of them; several conditions, all of them. Values are compared by `contracts/canonical.py`.

Filters as JSON objects, `{"license": "MIT", "dims": {"gte": 3}}`, in the filter language.

    object    := {field: condition, …}                            all of them hold
    condition := value | [value, …] | {operator: value, …}        a list means any of its values
    operator  := "eq" | "in" | "not" | "gt" | "gte" | "lt" | "lte"

A text that is a comparison with a number or a date, `">=3"`, is that comparison. Every other text is taken literally:
none of its characters means anything to the filter language.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, cast
from unicodedata import category

from retrieve_cli.contracts import HIGHEST_BOOST, Json
from retrieve_cli.contracts.canonical import period_of
from retrieve_cli.errors import UsageError, quoted
from retrieve_cli.frozen import Frozen
from retrieve_cli.untrusted.nearest import nearest

Operator = Literal["=", "!=", ">=", "<=", ">", "<"]

_OPERATOR = re.compile(r"!=|>=|<=|=|>|<")
_VALUE = re.compile(r'\s*+(?:"((?:[^"]|"")*+)"\s*+|([^",][^,]*+)?)(,|$)')
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:e[+-]?[0-9]+)?(?:\s*+(?:-\s*+)?d)?", re.IGNORECASE)
"""A number, or a dimension as catalogs write it: 3D."""
_WILDCARDS = frozenset("*?")
_LIKE = "write a filter like license=MIT, modality=CT,MRI, dims>=3 or path=guides/**"


class Condition(Frozen):
    """A test of records: any value of the field has this relation to any of `values`.

    `!=` and `negated` are true if the positive condition is false, also for records without the field.
    """

    field: str
    operator: Operator
    values: tuple[str, ...]
    """The values as written, without quotation marks."""
    negated: bool = False
    globs: frozenset[str] = frozenset()
    """The `values` whose * and ? are wildcards."""

    def __str__(self) -> str:
        """Return the expression that gives this condition."""
        values = (value if value in self.globs else _quoted(value) for value in self.values)
        return f"{'!' if self.negated else ''}{self.field}{self.operator}{','.join(values)}"


def parse(expression: str) -> Condition:
    """Read one condition. Raises: UsageError: it is not one; names the expression and what to write instead."""
    if any(category(char) == "Cc" for char in expression):
        raise UsageError(f"the filter {quoted(expression)} contains a control character", hint=_LIKE)
    text = expression.strip()
    negated = text.startswith("!")
    match = _OPERATOR.search(text, 1 if negated else 0)
    if match is None:
        raise UsageError(f"the filter {quoted(expression)} has no operator: = != >= <= > <", hint=_LIKE)
    field = text[1 if negated else 0 : match.start()].strip()
    if not field or text.startswith("!="):
        raise UsageError(f"the filter {quoted(expression)} names no field before {quoted(match[0])}", hint=_LIKE)
    operator = cast("Operator", match[0])
    values, globs = _values(expression, field + operator, text[match.end() :])
    if operator not in ("=", "!="):
        if len(values) != 1 or not is_comparable(values[0]):
            needed = f"a number or a date (2024-01-31) after {quoted(field + operator)}"
            hint = f"write {field}{operator}3 or {field}{operator}2024-01-31"
            raise UsageError(f"the filter {quoted(expression)} needs {needed}", hint=hint)
        globs = frozenset()
    return Condition(field, operator, values, negated, globs)


def _values(expression: str, start: str, text: str) -> tuple[tuple[str, ...], frozenset[str]]:
    """Return the values after the operator, and which of them are globs."""
    if text.startswith(("=", "<", ">")):
        hint = f'write {start}value, or {start}"{text[:1]}…" if the value starts like that'
        message = f"the filter {quoted(expression)} has no value after {quoted(start)}, only {quoted(text[:1])}"
        raise UsageError(message, hint=hint)
    values, globs, more, end = [], set(), True, 0
    while more:
        match = _VALUE.match(text, end)
        if match is None:
            hint = f'write {start}"a, b", and a quotation mark inside as ""'
            raise UsageError(f"the quotation marks of the filter {quoted(expression)} do not match", hint=hint)
        value = match[1].replace('""', '"') if match[1] is not None else (match[2] or "").strip()
        if not value.strip():
            hint = f"write {start}value; for the records without the field: !{start.rstrip('!=<>')}=*"
            raise UsageError(f"the filter {quoted(expression)} has an empty value", hint=hint)
        values.append(value)
        if match[1] is None and _WILDCARDS.intersection(value):
            globs.add(value)
        more, end = match[3] == ",", match.end()
    return tuple(values), frozenset(globs)


def is_comparable(text: str) -> bool:
    """Return True if a text is a number or a date to compare with, or a dimension: 3D."""
    return _NUMBER.fullmatch(text) is not None or period_of(text) is not None


def _quoted(value: str) -> str:
    """Return a value as it must be written to be taken literally."""
    plain = value == value.strip() and value[:1] not in tuple('"=<>') and not _WILDCARDS.union(",").intersection(value)
    return value if plain else '"' + value.replace('"', '""') + '"'


_FACTOR = re.compile(r"[0-9]{1,9}(?:\.[0-9]{0,9})?|\.[0-9]{1,9}")
_BOOST_LIKE = "write a boost like section=Results:1.2 or license=MIT:0.8"


class BoostRule(Frozen):
    """A condition, and the factor for what satisfies it."""

    condition: Condition
    factor: float

    def __str__(self) -> str:
        """The expression that gives this boost."""
        return f"{self.condition}:{self.factor:g}"


def parse_boost(expression: str) -> BoostRule:
    """Read one boost. Raises: UsageError: it is not one; names the expression and what to write instead."""
    condition, colon, factor = expression.rpartition(":")
    if not colon or not _FACTOR.fullmatch(factor.strip()):
        raise UsageError(f"the boost {quoted(expression)} has no factor at its end", hint=_BOOST_LIKE)
    if not 0.0 < (number := float(factor)) <= HIGHEST_BOOST:
        limits = f"it takes a number above 0 up to {HIGHEST_BOOST:g}"
        raise UsageError(f"the factor of the boost {quoted(expression)} is {number:g}; {limits}", hint=_BOOST_LIKE)
    return BoostRule(parse(condition), number)


def configured_boosts(factors: Mapping[str, Mapping[str, float]]) -> Iterable[BoostRule]:
    """Yield the boosts of the configuration: factors by field and value.

    Raises:
        UsageError: a value cannot be read as one of the filter language.
    """
    for field, values in factors.items():
        for value, factor in values.items():
            try:
                yield BoostRule(parse(f"{field}={value}"), factor)
            except UsageError as error:
                raise UsageError(f"`boost.{field}`: {error.message}", hint=error.hint) from error


_COMPARISONS: Mapping[str, Operator] = {"gte": ">=", "lte": "<=", "gt": ">", "lt": "<"}
OPERATORS = ("eq", "in", "not", *_COMPARISONS)
_LIKE_OBJECT = (
    'for example: {"license": "MIT", "modality": ["CT", "MRI"], "dims": {"gte": 3}, "group": {"not": "archive"}}'
)


def filters_of(item: Mapping[str, Json], where: str) -> tuple[str, ...]:
    """Return the conditions of an object as expressions of the filter language.

    Raises:
        UsageError: a field or value cannot be one; names the field and `where`.
    """
    found: list[str] = []
    for field, value in item.items():
        if field.strip() != field or not field or set("!=<>").intersection(field):
            raise UsageError(f"{where} has the field {quoted(field)}, and no field has such a name", hint=_LIKE_OBJECT)
        place = f"`{field}` of {where}"
        found += (_expression(condition, place) for condition in _conditions(field, value, place))
    return tuple(found)


def _conditions(field: str, value: Json, where: str) -> Iterator[Condition]:
    if isinstance(value, Mapping):
        for operator, operand in value.items():
            yield _operation(field, operator, operand, where)
    elif isinstance(value, str) and (comparison := _comparison(value)) is not None:
        yield Condition(field, comparison[0], (comparison[1],))
    else:
        yield Condition(field, "=", _object_values(value, where))


def _operation(field: str, operator: str, operand: Json, where: str) -> Condition:
    if operator in _COMPARISONS:
        number = _text(operand, where)
        if not is_comparable(number):
            message = f"{where} compares by `{operator}` with {quoted(number)}: not a number or a date"
            raise UsageError(message, hint=_LIKE_OBJECT)
        return Condition(field, _COMPARISONS[operator], (number,))
    if operator not in OPERATORS:
        near = nearest(operator, OPERATORS)
        hint = f"did you mean `{near}`?" if near else f"operators: {', '.join(OPERATORS)}"
        raise UsageError(f"{where} has an unknown operator {quoted(operator)}", hint=hint)
    return Condition(field, "=", _object_values(operand, where), negated=operator == "not")


def _comparison(text: str) -> tuple[Operator, str] | None:
    """The operator and the number or date of a text like `>=3`."""
    for sign in _COMPARISONS.values():
        if text.startswith(sign):
            number = text.removeprefix(sign).strip()
            return (sign, number) if is_comparable(number) else None
    return None


def _object_values(value: Json, where: str) -> tuple[str, ...]:
    several = value if isinstance(value, list) else [value]
    if not several:
        raise UsageError(f"{where} is empty: no record can have one of no values", hint=_LIKE_OBJECT)
    return tuple(_text(each, where) for each in several)


def _text(value: Json, where: str) -> str:
    """A value as records have it in their columns."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    raise UsageError(f"{where} must be a string, a number, true or false, not {quoted(value)}", hint=_LIKE_OBJECT)


def _expression(condition: Condition, where: str) -> str:
    """The expression that gives a condition, and nothing else."""
    expression = str(condition)
    try:
        understood = parse(expression)
    except UsageError as error:
        raise UsageError(f"{where} cannot be a filter: {error.message}", hint=_LIKE_OBJECT) from error
    if understood != condition:
        raise UsageError(f"{where} cannot be written as a filter: {quoted(expression)}", hint=_LIKE_OBJECT)
    return expression
