"""Boosts: a condition of the filter language and a factor, `section=Results:1.2`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from retrieve_cli.contracts import HIGHEST_BOOST
from retrieve_cli.errors import UsageError, quoted
from retrieve_cli.frozen import Frozen
from retrieve_cli.retrieval.queries.filters import Condition, parse

_NUMBER = re.compile(r"[0-9]{1,9}(?:\.[0-9]{0,9})?|\.[0-9]{1,9}")
_LIKE = "write a boost like section=Results:1.2 or license=MIT:0.8"


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
    if not colon or not _NUMBER.fullmatch(factor.strip()):
        raise UsageError(f"the boost {quoted(expression)} has no factor at its end", hint=_LIKE)
    if not 0.0 < (number := float(factor)) <= HIGHEST_BOOST:
        limits = f"it takes a number above 0 up to {HIGHEST_BOOST:g}"
        message = f"the factor of the boost {quoted(expression)} is {number:g}; {limits}"
        raise UsageError(message, hint=_LIKE)
    return BoostRule(parse(condition), number)


def configured(factors: Mapping[str, Mapping[str, float]]) -> Iterable[BoostRule]:
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
