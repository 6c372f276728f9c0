"""Differences between runs on the same queries: size, significance, and the queries that make them.

Each comparison is paired by query. Conclusions are drawn from one measure, the primary one: its p-values are adjusted
for the number of runs that are compared (Holm), because one of twenty runs that change nothing looks significant. Other
measures are information: the same queries answered by the same run are no further experiment, and a correction over all
of them would hide real differences.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite

import numpy as np

from retrieve_cli.contracts import Json
from retrieve_cli.evaluation.measures import Values
from retrieve_cli.evaluation.statistics import Interval, Wins, detectable, holm, interval, paired_t, randomisation, wins
from retrieve_cli.frozen import Frozen, asdict, replace

SIGNIFICANT = 0.05
"""The largest p-value that counts as significant."""
_DROPS = 5
"""Queries with the largest drops that are named."""


class Difference(Frozen):
    """Value of a measure for a run minus its value for the baseline, over the same queries."""

    run: str
    measure: str
    interval: Interval
    """Mean difference and its 95 % interval."""
    p: float
    """Two-sided p of the paired randomisation test."""
    p_t: float
    """Two-sided p of the paired t test."""
    p_holm: float | None
    """The first one, adjusted for the number of runs that are compared; None of a measure that is not primary."""
    wins: Wins
    detectable: float
    """Minimum detectable difference: so many queries with such a spread show it four times out of five."""
    losers: Sequence[tuple[str, float]]
    """The queries with the largest drops, largest first."""

    @property
    def primary(self) -> bool:
        """True if it is of the measure that decides."""
        return self.p_holm is not None

    @property
    def significant(self) -> bool:
        """True if the adjusted p-value of the primary measure is small enough."""
        return self.p_holm is not None and self.p_holm <= SIGNIFICANT

    def to_json(self) -> dict[str, Json]:
        return {
            "difference": self.interval.mean,
            "interval": [self.interval.low, self.interval.high],
            "p": self.p,
            "p_t": self.p_t,
            "p_holm": self.p_holm,
            "primary": self.primary,
            "significant": self.significant if self.primary else None,
            **asdict(self.wins),
            "detectable": self.detectable if isfinite(self.detectable) else None,
            "losers": [{"id": name, "difference": lost} for name, lost in self.losers],
        }


def differences(baseline: Values, runs: Mapping[str, Values]) -> list[Difference]:
    """Return the difference of each run by each measure that it shares with the baseline, over the same queries.

    The first measure of the baseline is the primary one.
    """
    compared = [
        _difference(run, measure, baseline[measure], values[measure])
        for run, values in runs.items()
        for measure in baseline
        if values.get(measure, {}).keys() == baseline[measure].keys()
    ]
    primary = next(iter(baseline), None)
    deciding = [difference for difference in compared if difference.measure == primary]
    adjusted = dict(
        zip((difference.run for difference in deciding), holm([difference.p for difference in deciding]), strict=True)
    )
    return [
        replace(difference, p_holm=adjusted[difference.run]) if difference.measure == primary else difference
        for difference in compared
    ]


def _difference(run: str, measure: str, before: Mapping[str, float], after: Mapping[str, float]) -> Difference:
    names = list(before)
    apart = np.array([after[name] - before[name] for name in names], np.float64)
    worst = sorted(zip(names, apart.tolist(), strict=True), key=lambda change: (change[1], change[0]))[:_DROPS]
    return Difference(
        run=run,
        measure=measure,
        interval=interval(apart),
        p=randomisation(apart),
        p_t=paired_t(apart),
        p_holm=None,
        wins=wins(apart),
        detectable=detectable(apart),
        losers=[(name, change) for name, change in worst if change < 0],
    )
