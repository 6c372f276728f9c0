"""Gates of an evaluation: limits for its measures and latencies, and a baseline that it must not fall below."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from math import isfinite

from retrieve_cli.errors import UsageError, quoted
from retrieve_cli.evaluation.measures import parse
from retrieve_cli.frozen import Frozen, replace
from retrieve_cli.untrusted.nearest import nearest

_SIGNS: Mapping[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}
_SIGN = re.compile(r">=|<=|>|<")
_LIMIT = re.compile(r"([-+]?[0-9.]+(?:e[-+]?\d+)?)\s*+(?:ms)?")
_ROUNDING = 1e-9
"""Tolerance for a baseline that was read back from decimal digits."""


class QualityGate(Frozen):
    """`nDCG@10>=0.60`, `p95<=300ms`."""

    name: str
    sign: str
    limit: float

    @classmethod
    def of(cls, text: str) -> QualityGate:
        """Return the gate of a text. Raises: UsageError: it is not a name, a sign and a limit."""
        hint = "for example: --gate 'nDCG@10>=0.60' --gate 'p95<=300ms'"
        sign = _SIGN.search(text)
        try:
            limit = _LIMIT.fullmatch(text[sign.end() :].strip()) if sign else None
            if sign is None or limit is None or not text[: sign.start()].strip():
                raise ValueError("it has no sign or no number")
            return cls(text[: sign.start()].strip(), sign[0], float(limit[1]))
        except ValueError as error:
            raise UsageError(f"--gate {quoted(text)} is not a gate: {error}", hint=hint) from error

    def fault(self, figures: Mapping[str, float]) -> str:
        """Return the reason why the figures fail; empty if they pass."""
        if self.name not in figures:
            return f"{self.name} was not measured"
        value = figures[self.name]
        passed = _SIGNS[self.sign](value, self.limit)
        return "" if passed else f"{self.name} is {value:.6g}, and must be {self.sign} {self.limit:g}"


def resolved(gates: Sequence[QualityGate], known: Sequence[str]) -> list[QualityGate]:
    """Return the gates with the names of `known` figures, which may be given in any case or by an alias (`map@100`).

    Raises:
        UsageError: a gate is for a figure that is not computed; suggests the nearest one.
    """
    spellings = {name.casefold(): name for name in known}
    return [replace(gate, name=_resolved(gate.name, spellings)) for gate in gates]


def _resolved(name: str, spellings: Mapping[str, str]) -> str:
    if name.casefold() in spellings:
        return spellings[name.casefold()]
    try:
        measure = str(parse([name])[0])
    except UsageError:
        near = nearest(name.casefold(), spellings)
        known = ", ".join(spellings.values())
        hint = f"did you mean `{spellings[near]}`?" if near else f"measured are: {known}"
        raise UsageError(f"--gate: {quoted(name)} is not a metric", hint=hint) from None
    if measure in spellings.values():
        return measure
    measured = [each for each in spellings.values() if "@" in each and " " not in each and each[:5] != "group"]
    hint = f"add it: --metrics {','.join([*measured, measure])}"
    raise UsageError(f"--gate: {quoted(name)} is not among the metrics of this evaluation", hint=hint)


def check_tolerance(tolerance: float) -> None:
    """Check a tolerance. Raises: UsageError: it is not a number of at least 0."""
    if not (isfinite(tolerance) and tolerance >= 0):
        raise UsageError(f"--tolerance is {tolerance}; it takes a number from 0", hint="for example: --tolerance 0.01")


def losses(metrics: Mapping[str, float], baseline: Mapping[str, float], tolerance: float) -> list[str]:
    """Return a sentence for each measure that fell below the baseline by more than `tolerance`, or is missing."""
    faults = []
    for name, before in baseline.items():
        now = metrics.get(name)
        if now is None:
            faults.append(f"{name} is in the baseline and was not computed")
        elif now < before - tolerance - _ROUNDING:
            faults.append(f"{name} is {now:.6g}; the baseline has {before:.6g} (tolerance {tolerance:g})")
    return faults
