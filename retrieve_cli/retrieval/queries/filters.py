"""The filter language: `license=MIT`, `modality=CT,MRI`, `dims>=3`, `path=guides/**`, `!group=archive`.

    condition := ["!"] field operator value {"," value}
    operator  := "=" | "!=" | ">=" | "<=" | ">" | "<"
    value     := plain text, in which * and ? are wildcards, or "verbatim text", in which "" is a quotation mark

Several values mean any of them; several conditions, all of them. Text is compared without regard to case.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Literal, cast
from unicodedata import category

from retrieve_cli.contracts import HIGHEST_BOOST
from retrieve_cli.errors import UsageError, quoted
from retrieve_cli.frozen import Frozen

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
    """Read one condition.

    Raises:
        UsageError: it is not one; names the expression and what to write instead.
    """
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
        _expect_number(expression, field + operator, values)
        globs = frozenset()
    return Condition(field, operator, values, negated, globs)


def _values(expression: str, start: str, text: str) -> tuple[tuple[str, ...], frozenset[str]]:
    """Return the values after the operator, and which of them are globs."""
    if text.startswith(("=", "<", ">")):
        hint = f'write {start}value, or {start}"{text[:1]}…" if the value starts like that'
        raise UsageError(
            f"the filter {quoted(expression)} has no value after {quoted(start)}, only {quoted(text[:1])}",
            hint=hint,
        )
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


def is_number(text: str) -> bool:
    """Return True if a text is a number to compare with, or a dimension: 3D."""
    return _NUMBER.fullmatch(text) is not None


def _expect_number(expression: str, start: str, values: tuple[str, ...]) -> None:
    if len(values) != 1 or not is_number(values[0]):
        raise UsageError(
            f"the filter {quoted(expression)} needs a number after {quoted(start)}", hint=f"write {start}3"
        )


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
    """Read one boost.

    Raises:
        UsageError: it is not one; names the expression and what to write instead.
    """
    condition, colon, factor = expression.rpartition(":")
    if not colon or not _FACTOR.fullmatch(factor.strip()):
        raise UsageError(f"the boost {quoted(expression)} has no factor at its end", hint=_BOOST_LIKE)
    if not 0.0 < (number := float(factor)) <= HIGHEST_BOOST:
        limits = f"it takes a number above 0 up to {HIGHEST_BOOST:g}"
        message = f"the factor of the boost {quoted(expression)} is {number:g}; {limits}"
        raise UsageError(message, hint=_BOOST_LIKE)
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
