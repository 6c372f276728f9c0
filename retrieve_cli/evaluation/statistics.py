"""Statistics over queries: confidence intervals, paired tests of two runs, minimum detectable differences.

Every function takes one number per query, (n,) float64: the values of a measure, or the differences of two runs on the
same queries in the same order. The order of the queries changes no result. Raises `ValueError` if there is no query, a
number is not finite, or the array has more than one dimension.

Differences between runs on the same queries: size, significance, and the queries that make them.

Each comparison is paired by query. Conclusions are drawn from one measure, the primary one: its p-values are adjusted
for the number of runs that are compared (Holm), because one of twenty runs that change nothing looks significant. Other
measures are information: the same queries answered by the same run are no further experiment, and a correction over all
of them would hide real differences.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import TYPE_CHECKING

import numpy as np

from retrieve_cli.contracts import Json
from retrieve_cli.evaluation.measures import Values, package_of_eval
from retrieve_cli.frozen import Frozen, asdict, replace

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

BLOCK = 1 << 20
"""Draws held at a time, at about 17 bytes each."""

_DIGITS = 12
"""Decimals to which means are compared; the values are at most 1."""
TIE = 1e-12
"""Sums closer than this share of the largest possible one are equal: measures are full of ties, and sums round."""


class Interval(Frozen):
    """A mean over queries and the bounds of its confidence interval, in the unit of the values."""

    mean: float
    low: float
    high: float


class Wins(Frozen):
    """Numbers of queries that a run answers better, worse and equally well."""

    won: int
    lost: int
    tied: int


# --------------------------------------------------------------------------------------------- one run


def interval(values: Floats, *, confidence: float = 0.95, resamples: int = 10_000, seed: int = 0) -> Interval:
    """Return the mean of (n,) values and its BCa bootstrap interval.

    Efron & Tibshirani 1993, ch. 14; in IR: Sakai 2006.

    BCa rather than the percentile interval because values of a measure are skewed: with most queries at 0 the
    percentile interval of 30 of them covers the mean 87 times in 100 instead of 95, BCa 91 times. Of 10 queries even
    BCa covers it only 79 to 93 times. One query, or identical values, give a point.

    Raises:
        ValueError: no values, a confidence outside (0, 1), fewer than one resample.
    """
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1, not {confidence}")
    if resamples < 1:
        raise ValueError(f"resamples must be at least 1, not {resamples}")
    values = np.sort(_checked(values))  # the same draws pick the same values in any order of the queries
    if values[0] == values[-1]:
        return Interval(float(values[0]), float(values[0]), float(values[0]))
    low, high = _bca(values / np.abs(values).max(), confidence, resamples, seed) * np.abs(values).max()
    # The mean of equal numbers may round past them, and no bound may leave the range of the measure.
    mean, low, high = np.clip([values.mean(), low, high], values[0], values[-1]).tolist()
    return Interval(mean, min(low, mean), max(high, mean))


def _bca(values: Floats, confidence: float, resamples: int, seed: int) -> Floats:
    """Return the bounds of SciPy's BCa interval; infinite if all the few resampled means lie on one side of the mean.

    Means are rounded: those equal to the mean count half to the bias, without which values that are all 0 or 1 look
    biased, and sums of the same numbers differ in their last bits.
    """
    bootstrap = package_of_eval("scipy.stats", "scipy").bootstrap
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about bounds that are NaN, which are handled here
        found = bootstrap(
            (values,),
            lambda sample, axis: np.round(sample.mean(axis=axis), _DIGITS),
            n_resamples=resamples,
            batch=max(1, BLOCK // values.size),
            confidence_level=confidence,
            method="BCa",
            rng=np.random.default_rng(seed),
        ).confidence_interval
    return np.array([np.nan_to_num(found.low, nan=-np.inf), np.nan_to_num(found.high, nan=np.inf)])


# --------------------------------------------------------------------------------------------- two runs


def randomisation(differences: Floats, *, samples: int = 100_000, seed: int = 0) -> float:
    """Return the two-sided p of the paired randomisation test on (n,) differences (Smucker, Allan, Carterette 2007).

    The share of sign flips whose mean difference is at least as far from 0 as the one seen. All flips are counted
    where 2^m <= samples, with m the differences that are not 0 (the others change no sum). Else `samples` of them are
    drawn and the one seen counts as one more, so that p is never 0 and never too small (Phipson & Smyth 2010).
    Not `scipy.stats.permutation_test`, which permutes arrays where a table of sums does: 0.64 s in place of 0.02 s
    for 300 queries, and `eval` makes one test a measure.

    Raises:
        ValueError: no differences, fewer than one sample.
    """
    if samples < 1:
        raise ValueError(f"samples must be at least 1, not {samples}")
    scaled = _scaled(_checked(differences))
    sizes = np.sort(np.abs(scaled[scaled != 0]))  # as in `interval`: the order of the queries must not count
    threshold = abs(math.fsum(scaled)) - TIE * float(sizes.sum())
    if sizes.size < samples.bit_length():
        # All flips: the share of the 2^m sums of ±sizes that are at or beyond ±threshold.
        heads, tails = _signed_sums(sizes[:16]), _signed_sums(sizes[16:])
        beyond = sum(int(np.count_nonzero(np.abs(heads + tail) >= threshold)) for tail in tails)
        return beyond / (heads.size * tails.size)
    # One random byte draws the signs of eight sizes, whose sum is looked up.
    groups = np.pad(sizes, (0, -sizes.size % 8)).reshape(-1, 8)
    tables = _signed_sums(groups)
    columns, rows = np.arange(len(groups)), max(1, BLOCK // len(groups))
    generator, beyond = np.random.default_rng(seed), 0
    for start in range(0, samples, rows):
        signs = generator.integers(0, 256, (min(rows, samples - start), len(groups)), dtype=np.uint8)
        beyond += int(np.count_nonzero(np.abs(tables[columns, signs].sum(axis=1)) >= threshold))
    return (beyond + 1) / (samples + 1)


def _signed_sums(sizes: Floats) -> Floats:
    """Return the (..., 2^m) sums of (..., m) sizes under every choice of signs."""
    sums = np.zeros((*sizes.shape[:-1], 1))
    for at in range(sizes.shape[-1]):
        size = sizes[..., at, None]
        sums = np.concatenate([sums - size, sums + size], axis=-1)
    return sums


def paired_t(differences: Floats) -> float:
    """Return the two-sided p of SciPy's paired t test on (n,) differences (Student 1908).

    Without spread, 1 if all are 0, else 0. A single query has no spread: 1.

    Raises:
        ValueError: no differences.
    """
    scaled = _scaled(_checked(differences))
    if scaled.size == 1 or not scaled.any():
        return 1.0
    if np.ptp(scaled) == 0:
        return 0.0
    return float(package_of_eval("scipy.stats", "scipy").ttest_1samp(scaled, 0.0).pvalue)


def detectable(differences: Floats, *, alpha: float = 0.05, power: float = 0.8) -> float:
    """Return the smallest true mean difference that a two-sided paired t test detects with this power.

    For as many queries as there are differences, and the standard deviation of these. From the noncentral t (Cohen
    1988; in IR: Sakai 2016), exact for normal differences; only a finding of the right sign counts. 0 without spread,
    infinite for one query, of which no t test can be made.

    Raises:
        ValueError: no differences, not 0 < alpha < 1, not alpha / 2 < power < 1.
    """
    special = package_of_eval("scipy.special", "scipy")
    if not 0 < alpha < 1:
        raise ValueError(f"alpha must lie between 0 and 1, not {alpha}")
    if not alpha / 2 < power < 1:
        raise ValueError(f"power must lie between alpha / 2 and 1, not {power}")
    differences = _checked(differences)
    if differences.size == 1:
        return math.inf
    reach = np.ptp(differences)
    if reach == 0:
        return 0.0
    freedom = differences.size - 1
    noncentrality = special.nctdtrinc(freedom, 1 - power, special.stdtrit(freedom, 1 - alpha / 2))
    deviation = (differences / reach).std(ddof=1) * reach  # squares of tiny differences would vanish
    return float(noncentrality * deviation / math.sqrt(differences.size))


def wins(differences: Floats, *, tolerance: float = 1e-9) -> Wins:
    """Return how many of (n,) differences are above `tolerance`, below `-tolerance`, and between."""
    differences = _checked(differences)
    won = int(np.count_nonzero(differences > tolerance))
    lost = int(np.count_nonzero(differences < -tolerance))
    return Wins(won, lost, differences.size - won - lost)


# -------------------------------------------------------------------------------------------- many tests


def holm(p_values: Sequence[float]) -> list[float]:
    """Return adjusted p-values, in the given order, that bound the chance of any false finding (Holm 1979).

    The i-th smallest of m, from 0, is multiplied by m - i; none is below a smaller one's, none above 1.

    Raises:
        ValueError: a p-value outside [0, 1].
    """
    raw = np.asarray(p_values, dtype=np.float64)
    if not np.all((raw >= 0) & (raw <= 1)):
        raise ValueError(f"p-values must lie between 0 and 1: {list(p_values)}")
    order = np.argsort(raw, kind="stable")
    adjusted = np.empty_like(raw)
    adjusted[order] = np.minimum(1, np.maximum.accumulate(raw[order] * np.arange(raw.size, 0, -1)))
    return [float(p) for p in adjusted]


# ------------------------------------------------------------------------------------------------- input


def _checked(values: Floats) -> Floats:
    """Return the values as (n,) float64. Raises: ValueError."""
    values = np.asarray(values, dtype=np.float64)
    if values.ndim != 1 or values.size == 0:
        raise ValueError(f"one number per query is needed, (n,) with n > 0, not {values.shape}")
    if not np.isfinite(values).all():
        raise ValueError("a value is not a finite number")
    return values


def _scaled(differences: Floats) -> Floats:
    """Return the differences divided by the largest: no test changes, and squares of tiny ones do not vanish."""
    largest = np.abs(differences).max()
    return differences / largest if largest > 0 else differences


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
