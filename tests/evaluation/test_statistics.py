"""Intervals and tests held to scipy, to their own promises by simulation, and to the laws that they obey."""

from __future__ import annotations

import math
import sys
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from retrieve_cli.errors import Unavailable
from retrieve_cli.evaluation.statistics import Interval, Wins, detectable, holm, interval, paired_t, randomisation, wins

POPULATIONS = {"graded": (0.35, 0.15, 1.2, 1.8), "easy": (0.10, 0.60, 2.0, 1.2), "hard": (0.75, 0.03, 1.0, 3.0)}
"""Values as measures have them: the shares of exact zeros and ones, and the beta distribution of what lies between."""

COVERAGE = {
    ("graded", 30): 0.949,
    ("graded", 50): 0.948,
    ("graded", 200): 0.948,
    ("easy", 30): 0.951,
    ("easy", 50): 0.950,
    ("easy", 200): 0.948,
    ("hard", 30): 0.906,
    ("hard", 50): 0.930,
    ("hard", 200): 0.947,
}
"""How often 20,000 intervals of 95 % with 1,000 resamples each held the true mean; the standard error is 0.002."""

EVERY = [interval, randomisation, paired_t, detectable, wins]
thousandths = st.integers(-1000, 1000).map(lambda number: number / 1000)
differences = st.lists(thousandths, min_size=1, max_size=40).map(np.array)
probabilities = st.lists(st.floats(0, 1), min_size=1, max_size=12)


def drawn(population: str, generator: np.random.Generator, n: int) -> np.ndarray:
    zeros, ones, a, b = POPULATIONS[population]
    share = generator.random(n)
    return np.where(share < zeros, 0.0, np.where(share < zeros + ones, 1.0, generator.beta(a, b, n)))


def true_mean(population: str) -> float:
    zeros, ones, a, b = POPULATIONS[population]
    return ones + (1 - zeros - ones) * a / (a + b)


def without_effect(generator: np.random.Generator, n: int) -> np.ndarray:
    """Differences of two runs that are equally good; they list the same for four queries in ten."""
    first, second = drawn("graded", generator, n), drawn("graded", generator, n)
    return np.where(generator.random(n) < 0.4, 0.0, first - second)


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


def test_enumeration_beyond_one_block_equals_enumeration_by_hand() -> None:
    sizes = np.random.default_rng(5).integers(1, 9, 18) / 10
    signs = 1 - 2 * ((np.arange(2**18)[:, None] >> np.arange(18)) & 1)
    sums = np.abs(signs @ sizes)
    flipped = sizes * np.where(np.arange(18) % 3 == 0, -1, 1)
    expected = np.mean(sums >= abs(flipped.sum()) - 1e-9)
    assert randomisation(flipped, samples=2**18) == expected


@pytest.mark.parametrize("n", [10, 12])
def test_drawn_flips_agree_with_all_of_them(n: int) -> None:
    generator = np.random.default_rng(n)
    for _ in range(20):
        differences = generator.integers(-5, 8, n) / 10
        exact = randomisation(differences)
        estimate = randomisation(differences, samples=1000)
        assert estimate == pytest.approx(exact, abs=4 * math.sqrt(0.25 / 1000))


def test_drawn_flips_never_give_zero_and_count_the_differences_seen_as_one_more() -> None:
    assert randomisation(np.full(100, 0.5), samples=999) == 1 / 1000


def test_queries_without_a_difference_do_not_change_p() -> None:
    differences = np.array([0.3, -0.1, 0.2, 0.4, 0.1])
    assert randomisation(np.append(differences, np.zeros(1000))) == randomisation(differences)


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


# ------------------------------------------------------------------------------ held to their promises


@pytest.mark.parametrize(("population", "n"), COVERAGE)
def test_intervals_cover_the_true_mean_as_often_as_is_said(population: str, n: int) -> None:
    generator, mean, rounds = np.random.default_rng([2006, n]), true_mean(population), 2000
    covered = 0
    for seed in range(rounds):
        found = interval(drawn(population, generator, n), resamples=1000, seed=seed)
        covered += found.low <= mean <= found.high
    said = COVERAGE[population, n]
    assert covered / rounds == pytest.approx(said, abs=3 * math.sqrt(said * (1 - said) / rounds))


@pytest.mark.parametrize("n", [30, 200])
def test_p_values_of_the_randomisation_test_are_uniform_where_there_is_no_effect(n: int) -> None:
    from scipy import stats

    generator = np.random.default_rng([2007, n])
    p = np.array([randomisation(without_effect(generator, n), samples=999, seed=seed) for seed in range(2000)])
    assert stats.kstest(p, "uniform").pvalue > 0.05
    assert np.mean(p <= 0.05) == pytest.approx(0.05, abs=0.015)


def test_the_exact_test_finds_nothing_too_often_in_few_queries() -> None:
    generator = np.random.default_rng(8)
    p = np.array([randomisation(without_effect(generator, 12)) for _ in range(2000)])
    for level in (0.01, 0.05, 0.2):
        assert np.mean(p <= level) <= level + 3 * math.sqrt(level / 2000)


@pytest.mark.parametrize("n", [20, 50])
@pytest.mark.parametrize("draw", [np.random.Generator.standard_normal, without_effect])
def test_a_detectable_difference_is_detected_with_the_stated_power(
    draw: Callable[[np.random.Generator, int], np.ndarray], n: int
) -> None:
    generator = np.random.default_rng([1988, n])
    spread = draw(generator, 200_000).std()
    typical = np.linspace(-1, 1, n)
    effect = detectable(typical * spread / typical.std(ddof=1))
    seen = [draw(generator, n) + effect for _ in range(2000)]
    found = np.mean([paired_t(differences) <= 0.05 and differences.mean() > 0 for differences in seen])
    assert found == pytest.approx(0.8, abs=0.03)


@pytest.mark.parametrize("compute", [interval, randomisation])
def test_ten_thousand_queries_are_resampled_in_little_memory(compute: Callable[[np.ndarray], object]) -> None:
    values = np.random.default_rng(9).random(10_000) - 0.5
    tracemalloc.start()
    try:
        compute(values)
        assert tracemalloc.get_traced_memory()[1] < 50e6
    finally:
        tracemalloc.stop()


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


@given(differences, st.sampled_from([1e-200, 1e-3, 0.3, 7.0, 1e6]))
def test_the_unit_changes_no_test_and_scales_what_has_a_unit(differences: np.ndarray, factor: float) -> None:
    scaled = differences * factor
    assert randomisation(scaled, samples=200) == randomisation(differences, samples=200)
    assert paired_t(scaled) == pytest.approx(paired_t(differences), abs=1e-9)
    assert detectable(scaled) / factor == pytest.approx(detectable(differences))
    before, after = interval(differences, resamples=200), interval(scaled, resamples=200)
    assert (after.mean / factor, after.low / factor, after.high / factor) == pytest.approx(
        (before.mean, before.low, before.high), abs=1e-9
    )


@given(differences, st.integers(0, 3))
def test_an_interval_holds_its_mean_and_stays_within_the_values(differences: np.ndarray, seed: int) -> None:
    found = interval(differences, resamples=200, seed=seed)
    assert differences.min() <= found.low <= found.mean <= found.high <= differences.max()


@given(differences)
def test_p_values_lie_between_zero_and_one(differences: np.ndarray) -> None:
    assert 0 < randomisation(differences, samples=200) <= 1
    assert 0 <= paired_t(differences) <= 1


@given(differences)
def test_wins_losses_and_ties_are_all_queries(differences: np.ndarray) -> None:
    counts = wins(differences)
    assert counts.won + counts.lost + counts.tied == differences.size


@given(probabilities)
def test_holm_equals_its_definition(p_values: list[float]) -> None:
    # Each p no larger than this one, times the hypotheses that are still open when its turn comes.
    expected = [
        min(1, max(smaller * sum(other >= smaller for other in p_values) for smaller in p_values if smaller <= p))
        for p in p_values
    ]
    assert holm(p_values) == pytest.approx(expected)


@given(probabilities)
def test_holm_keeps_the_order_of_the_p_values_and_never_lowers_one(p_values: list[float]) -> None:
    adjusted = holm(p_values)
    assert all(raw <= after <= 1 for raw, after in zip(p_values, adjusted, strict=True))
    by_raw = [after for _, after in sorted(zip(p_values, adjusted, strict=True))]
    assert by_raw == sorted(adjusted)


# ------------------------------------------------------------------------------------------ the edges


def test_holm_of_a_worked_example() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.6, 0.5]) == [1.0, 1.0]
    assert holm([]) == []


def test_the_same_seed_gives_the_same_result_and_another_seed_another() -> None:
    values = np.random.default_rng(3).random(40) - 0.4
    for compute in (interval, randomisation):
        assert compute(values, seed=1) == compute(values, seed=1)
        assert compute(values, seed=1) != compute(values, seed=2)


@pytest.mark.parametrize("values", [[0.3], [0.1] * 7, [0.0, 0.0]])
def test_one_query_or_identical_values_give_a_point(values: list[float]) -> None:
    assert interval(np.array(values)) == Interval(values[0], values[0], values[0])


def test_as_many_zeros_as_ones_give_an_interval_with_one_half_in_its_middle() -> None:
    found = interval(np.array([0.0, 1.0] * 5))
    assert (found.low, found.mean, found.high) == pytest.approx((0.2, 0.5, 0.8))


def test_more_confidence_and_fewer_queries_make_the_interval_wider() -> None:
    values = np.tile([0.0, 0.2, 0.5, 1.0], 25)
    usual, sure, few = interval(values), interval(values, confidence=0.99), interval(values[:20])
    assert sure.low < usual.low < usual.high < sure.high
    assert few.low < usual.low < usual.high < few.high


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


@pytest.mark.parametrize(
    ("compute", "wrong"),
    [
        (interval, {"confidence": 1.0}),
        (interval, {"confidence": 0.0}),
        (interval, {"resamples": 0}),
        (randomisation, {"samples": 0}),
        (detectable, {"alpha": 0.0}),
        (detectable, {"power": 1.0}),
        (detectable, {"power": 0.02}),
    ],
)
def test_settings_without_a_meaning_are_refused_by_name(
    compute: Callable[..., object], wrong: dict[str, float]
) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        compute(np.array([0.1, 0.2]), **wrong)


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


@pytest.mark.parametrize("resamples", [1, 2, 3])
def test_an_interval_of_few_resamples_still_holds_its_mean(resamples: int) -> None:
    for seed in range(20):
        values = np.random.default_rng(seed).random(5)
        found = interval(values, resamples=resamples, seed=seed)
        assert values.min() <= found.low <= found.mean <= found.high <= values.max()
