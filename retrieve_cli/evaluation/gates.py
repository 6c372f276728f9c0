"""What an evaluation must reach: a figure, a sign and a limit, or no less than it reached before."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite

from retrieve_cli.errors import UsageError, quoted

_SIGNS: Mapping[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}
_SIGN = re.compile(r">=|<=|>|<")
_LIMIT = re.compile(r"([-+]?[0-9.]+(?:e[-+]?\d+)?)\s*+(?:ms)?")
_ROUNDING = 1e-9
"""Less than any figure is printed to: a baseline is read back from its decimal digits."""


@dataclass(frozen=True, slots=True)
class Gate:
    """`nDCG@10>=0.60`, `p95<=300ms`."""

    name: str
    sign: str
    limit: float

    @classmethod
    def of(cls, text: str) -> Gate:
        """Raises: UsageError where the text is no figure, sign and limit."""
        hint = "for example: --gate 'nDCG@10>=0.60' --gate 'p95<=300ms'"
        sign = _SIGN.search(text)
        try:
            limit = _LIMIT.fullmatch(text[sign.end() :].strip()) if sign else None
            if sign is None or limit is None or not text[: sign.start()].strip():
                raise ValueError("it has no sign or no number")
            return cls(text[: sign.start()].strip(), sign[0], float(limit[1]))
        except ValueError as error:
            raise UsageError(f"--gate {quoted(text)} is no gate: {error}", hint=hint) from error

    def fault(self, figures: Mapping[str, float]) -> str:
        """Why the figures do not pass; empty where they do."""
        if self.name not in figures:
            return f"{self.name} could not be measured"
        value = figures[self.name]
        passed = _SIGNS[self.sign](value, self.limit)
        return "" if passed else f"{self.name} is {value:.6g}, and must be {self.sign} {self.limit:g}"


def check_names(gates: Sequence[Gate], known: Sequence[str]) -> None:
    """Raises: UsageError where a gate is for a figure that is not computed."""
    for gate in gates:
        if gate.name not in known:
            hint = f"there are: {', '.join(known)}; others come with --metrics"
            raise UsageError(f"there is no figure {quoted(gate.name)} to hold to a limit", hint=hint)


def check_tolerance(tolerance: float) -> None:
    """Raises: UsageError where it is no number from 0 on."""
    if not (isfinite(tolerance) and tolerance >= 0):
        raise UsageError(f"--tolerance is {tolerance}", hint="it is how much worse is tolerated, from 0 on: 0.01")


def losses(metrics: Mapping[str, float], baseline: Mapping[str, float], tolerance: float) -> list[str]:
    """A sentence for each measure that is worse than in the baseline by more than `tolerance`, or absent now."""
    found = []
    for name, before in baseline.items():
        now = metrics.get(name)
        if now is None:
            found.append(f"{name} is in the baseline and was not computed")
        elif now < before - tolerance - _ROUNDING:
            found.append(f"{name} is {now:.6g}; the baseline has {before:.6g}, and {tolerance:g} less is tolerated")
    return found
