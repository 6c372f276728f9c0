"""Intervals and tests held to scipy, to their own promises by simulation, and to the laws that they obey."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from retrieve_cli.errors import Unavailable
from retrieve_cli.evaluation.statistics import Interval, Wins, detectable, holm, interval, paired_t, randomisation, wins

POPULATIONS = {"graded": (0.35, 0.15, 1.2, 1.8), "easy": (0.10, 0.60, 2.0, 1.2), "hard": (0.75, 0.03, 1.0, 3.0)}
"""Values as measures have them: the shares of exact zeros and ones, and the beta distribution of what lies between."""

EVERY = [interval, randomisation, paired_t, detectable, wins]
thousandths = st.integers(-1000, 1000).map(lambda number: number / 1000)
differences = st.lists(thousandths, min_size=1, max_size=40).map(np.array)
probabilities = st.lists(st.floats(0, 1), min_size=1, max_size=12)


def drawn(population: str, generator: np.random.Generator, n: int) -> np.ndarray:
    zeros, ones, a, b = POPULATIONS[population]
    share = generator.random(n)
    return np.where(share < zeros, 0.0, np.where(share < zeros + ones, 1.0, generator.beta(a, b, n)))


# ------------------------------------------------------------------------------------- held to scipy


@pytest.mark.parametrize("n", [2, 3, 10, 200])
def test_the_t_test_equals_that_of_scipy(n: int) -> None:
    from scipy import stats

    generator = np.random.default_rng(n)
    for _ in range(20):
        first, second = generator.random((2, n))
        expected = stats.ttest_rel(first, second).pvalue
        assert paired_t(first - second) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("n", [2, 5, 9, 12])
def test_the_exact_randomisation_test_equals_that_of_scipy_ties_included(n: int) -> None:
    from scipy import stats

    generator = np.random.default_rng(n)
    for _ in range(5):
        first, second = generator.integers(0, 4, (2, n)) / 10
        expected = stats.permutation_test(
            (first, second),
            lambda x, y, axis: np.mean(x - y, axis=axis),
            permutation_type="samples",
            vectorized=True,
            n_resamples=2**n,
        )
        assert randomisation(first - second, samples=2**n) == pytest.approx(expected.pvalue, rel=1e-12)


def test_drawn_flips_never_give_zero_and_count_the_differences_seen_as_one_more() -> None:
    assert randomisation(np.full(100, 0.5), samples=999) == 1 / 1000


@pytest.mark.parametrize("alpha", [0.05, 0.001])
@pytest.mark.parametrize("n", [2, 10, 1000])
def test_the_detectable_difference_has_its_power_under_the_noncentral_t_of_scipy(n: int, alpha: float) -> None:
    from scipy import stats

    differences = np.random.default_rng(n).normal(size=n)
    noncentrality = detectable(differences, alpha=alpha, power=0.9) * math.sqrt(n) / differences.std(ddof=1)
    critical = stats.t.ppf(1 - alpha / 2, n - 1)
    assert stats.nct.sf(critical, n - 1, noncentrality) == pytest.approx(0.9, abs=1e-4)


def test_the_interval_is_close_to_the_bca_interval_of_scipy() -> None:
    from scipy import stats

    values = drawn("graded", np.random.default_rng(7), 50)
    theirs = stats.bootstrap((values,), np.mean, n_resamples=20_000, rng=np.random.default_rng(1)).confidence_interval
    ours = interval(values, resamples=20_000)
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=0.005)


# ----------------------------------------------------------------------------------------------- laws


@given(differences, st.randoms(use_true_random=False))
def test_the_order_of_the_queries_changes_nothing(differences: np.ndarray, random: Any) -> None:
    shuffled = np.array(random.sample(differences.tolist(), differences.size))
    assert interval(shuffled, resamples=200) == interval(differences, resamples=200)
    assert randomisation(shuffled, samples=200) == randomisation(differences, samples=200)
    assert paired_t(shuffled) == pytest.approx(paired_t(differences), abs=1e-9)
    assert detectable(shuffled) == pytest.approx(detectable(differences))
    assert wins(shuffled) == wins(differences)


@given(differences)
def test_swapping_the_two_runs_changes_no_test_and_swaps_wins_and_losses(differences: np.ndarray) -> None:
    assert randomisation(-differences, samples=200) == randomisation(differences, samples=200)
    assert paired_t(-differences) == pytest.approx(paired_t(differences))
    assert detectable(-differences) == pytest.approx(detectable(differences))
    forth, back = wins(differences), wins(-differences)
    assert (forth.won, forth.lost, forth.tied) == (back.lost, back.won, back.tied)


@given(differences, st.integers(0, 3))
def test_an_interval_holds_its_mean_and_stays_within_the_values(differences: np.ndarray, seed: int) -> None:
    found = interval(differences, resamples=200, seed=seed)
    assert differences.min() <= found.low <= found.mean <= found.high <= differences.max()


@given(probabilities)
def test_holm_equals_its_definition(p_values: list[float]) -> None:
    # Each p no larger than this one, times the hypotheses that are still open when its turn comes.
    expected = [
        min(1, max(smaller * sum(other >= smaller for other in p_values) for smaller in p_values if smaller <= p))
        for p in p_values
    ]
    assert holm(p_values) == pytest.approx(expected)


# ------------------------------------------------------------------------------------------ the edges


@pytest.mark.parametrize("values", [[0.3], [0.1] * 7, [0.0, 0.0]])
def test_one_query_or_identical_values_give_a_point(values: list[float]) -> None:
    assert interval(np.array(values)) == Interval(values[0], values[0], values[0])


@pytest.mark.parametrize(
    ("values", "p", "p_t", "least"),
    [([0.0] * 5, 1.0, 1.0, 0.0), ([0.1] * 5, 2 / 2**5, 0.0, 0.0), ([0.9], 1.0, 1.0, math.inf)],
    ids=["no difference", "a constant difference", "one query"],
)
def test_differences_without_a_spread_give_the_p_there_can_be(
    values: list[float], p: float, p_t: float, least: float
) -> None:
    assert (randomisation(np.array(values)), paired_t(np.array(values))) == (p, p_t)
    assert detectable(np.array(values)) == least


def test_differences_within_the_tolerance_are_ties() -> None:
    differences = np.array([1e-12, -1e-12, 0.2, -0.05, 0.3])
    assert wins(differences) == Wins(won=2, lost=1, tied=2)
    assert wins(differences, tolerance=0.1) == Wins(won=2, lost=0, tied=3)
    assert wins(np.zeros(5)) == Wins(won=0, lost=0, tied=5)


@pytest.mark.parametrize("compute", EVERY)
@pytest.mark.parametrize("values", [[], [0.1, math.nan], [math.inf], [[0.1, 0.2]]])
def test_what_is_not_one_finite_number_a_query_is_refused(compute: Callable[..., object], values: list[Any]) -> None:
    with pytest.raises(ValueError, match="number"):
        compute(np.array(values))


@pytest.mark.parametrize("p", [-0.1, 1.1, math.nan])
def test_holm_refuses_what_is_no_probability(p: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        holm([0.5, p])


def test_the_randomisation_test_does_without_scipy_and_what_does_not_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("scipy.special", "scipy.stats"):
        monkeypatch.setitem(sys.modules, module, None)
    values = np.array([0.1, 0.2, 0.4])
    assert randomisation(values) == 2 / 8
    for compute in (interval, paired_t, detectable):
        with pytest.raises(Unavailable, match="scipy"):
            compute(values)
