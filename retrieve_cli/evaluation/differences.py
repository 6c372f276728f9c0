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

SIGNIFICANT = 0.05
"""A p-value that is not above it is called so."""
_LOSERS = 5
"""Queries that lost most, by name."""


@dataclass(frozen=True, slots=True)
class Difference:
    """An run's value of a measure less that of the baseline, over the same queries."""

    run: str
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

    @property
    def significant(self) -> bool:
        """Whether it is beyond noise, all comparisons considered."""
        return self.p_holm <= SIGNIFICANT

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


def differences(baseline: Values, runs: Mapping[str, Values]) -> list[Difference]:
    """Each run against the baseline, by each measure that both have, over the queries of the baseline."""
    found = [
        _difference(run, measure, baseline[measure], values[measure])
        for run, values in runs.items()
        for measure in baseline
        if values.get(measure, {}).keys() == baseline[measure].keys()
    ]
    adjusted = holm([each.p for each in found]) if found else []
    return [replace(each, p_holm=p) for each, p in zip(found, adjusted, strict=True)]


def _difference(run: str, measure: str, before: Mapping[str, float], after: Mapping[str, float]) -> Difference:
    names = list(before)
    apart = np.array([after[name] - before[name] for name in names], np.float64)
    worst = sorted(zip(names, apart.tolist(), strict=True), key=lambda each: (each[1], each[0]))[:_LOSERS]
    return Difference(
        run=run,
        measure=measure,
        interval=interval(apart),
        p=randomisation(apart),
        p_t=paired_t(apart),
        p_holm=1.0,
        wins=wins(apart),
        detectable=detectable(apart),
        losers=[(name, lost) for name, lost in worst if lost < 0],
    )
