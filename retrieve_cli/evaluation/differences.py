"""One configuration against another on the same queries: how far apart, how surely, and on which queries.

Each comparison is paired by query. Its p-values are held to the number of comparisons that were made (Holm), for out of
twenty configurations that change nothing one looks significant.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import isfinite

import numpy as np

from retrieve_cli.contracts import Json
from retrieve_cli.evaluation.measures import Values
from retrieve_cli.evaluation.statistics import Interval, Wins, detectable, holm, interval, paired_t, randomisation, wins

_LOSERS = 5
"""Queries that lost most, by name."""


@dataclass(frozen=True, slots=True)
class Difference:
    """An arm's value of a measure less that of the baseline, over the same queries."""

    arm: str
    measure: str
    interval: Interval
    """Mean difference and its 95 % interval."""
    p: float
    """Of the paired randomisation test, two-sided."""
    p_t: float
    """Of the paired t test, two-sided."""
    p_holm: float
    """The first one, adjusted for all comparisons that were made."""
    wins: Wins
    detectable: float
    """The smallest true difference that so many queries with such a spread show four times out of five."""
    losers: Sequence[tuple[str, float]]
    """The queries that lost most, worst first."""

    def to_json(self) -> dict[str, Json]:
        return {
            "difference": self.interval.mean,
            "interval": [self.interval.low, self.interval.high],
            "p": self.p,
            "p_t": self.p_t,
            "p_holm": self.p_holm,
            **asdict(self.wins),
            "detectable": self.detectable if isfinite(self.detectable) else None,
            "losers": [{"id": name, "difference": lost} for name, lost in self.losers],
        }

    def sentence(self) -> str:
        """What can be said of it."""
        if not (self.wins.won or self.wins.lost):
            return f"{self.measure}: the same for every query"
        sure = "significant" if self.p_holm <= 0.05 else "within noise"
        what = f"{self.measure}: {self.interval.mean:+.4f} ({self.interval.low:+.4f} to {self.interval.high:+.4f})"
        count = f"{self.wins.won} won, {self.wins.lost} lost, {self.wins.tied} tied"
        least = f"; {self.detectable:.4f} would show" if isfinite(self.detectable) else ""
        return f"{what}, {sure} (p {self.p:.4g}, Holm {self.p_holm:.4g}, t {self.p_t:.4g}); {count}{least}"


def differences(baseline: Values, arms: Mapping[str, Values]) -> list[Difference]:
    """Each arm against the baseline, by each measure that both have, over the queries of the baseline."""
    found = [
        _difference(arm, measure, baseline[measure], values[measure])
        for arm, values in arms.items()
        for measure in baseline
        if values.get(measure, {}).keys() == baseline[measure].keys()
    ]
    adjusted = holm([each.p for each in found]) if found else []
    return [replace(each, p_holm=p) for each, p in zip(found, adjusted, strict=True)]


def _difference(arm: str, measure: str, before: Mapping[str, float], after: Mapping[str, float]) -> Difference:
    names = list(before)
    apart = np.array([after[name] - before[name] for name in names], np.float64)
    worst = sorted(zip(names, apart.tolist(), strict=True), key=lambda each: (each[1], each[0]))[:_LOSERS]
    return Difference(
        arm=arm,
        measure=measure,
        interval=interval(apart),
        p=randomisation(apart),
        p_t=paired_t(apart),
        p_holm=1.0,
        wins=wins(apart),
        detectable=detectable(apart),
        losers=[(name, lost) for name, lost in worst if lost < 0],
    )
