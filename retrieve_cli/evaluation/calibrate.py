"""Score calibration: from judged hits, the curve from score to the probability that a hit is relevant.

Two shapes are fitted, a sigmoid and an isotonic curve, and the one that predicts held-out queries better is kept. Hits
of one query resemble each other, so whole queries are held out, never single hits. Neither the order of the hits nor
scale and offset of their scores change a probability. The calibration is stored beside the generations.

Throughout, scores are (n,) finite float64, `relevant` (n,) bool, confidences (n,) float64 in [0, 1], one a hit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from retrieve_cli.config.settings import Settings
from retrieve_cli.contracts import Json
from retrieve_cli.contracts.progress import noting_interruption, part
from retrieve_cli.errors import Unavailable, UsageError
from retrieve_cli.evaluation.evaluate import queries_of, rank_all
from retrieve_cli.evaluation.judgments import Topic
from retrieve_cli.evaluation.measures import package_of_eval
from retrieve_cli.retrieval.calibration import GRID, Bin, Calibration, Curve, Isotonic, Logistic
from retrieve_cli.search.opened import Opened
from retrieve_cli.search.searcher import Searcher

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]
    Bools = NDArray[np.bool_]
    Ints = NDArray[np.int64]

FEWEST = 20
"""Required hits of either kind: ten per coefficient (Peduzzi et al. 1996). A rate of 20 hits is known to ±0.2."""

BINS = 10


def fit(
    scores: ArrayLike,
    relevant: ArrayLike,
    queries: Iterable[int | str],
    *,
    card: Mapping[str, Json],
    generation: str,
    folds: int = 5,
    seed: int = 0,
) -> Calibration:
    """Return the calibration of the scores of hits, of which some are relevant, for (n,) queries.

    The shapes are compared by their Brier score over `folds` folds of the queries; if they tie, the sigmoid is taken.
    All errors are measured on held-out queries; the curve is fitted on all queries. Reporting the better of two shapes
    is slightly optimistic, and with few hits the calibration error is above 0 even for the true curve.

    Raises:
        UsageError: too few hits that are relevant or that are not, or too few queries that have them.
        Unavailable: scikit-learn is not installed.
        ValueError: the lengths differ, a score is not a finite number, fewer than two folds.
    """
    values, truth, owners = _rows(scores, relevant, queries)
    held = assign(truth, owners, folds=folds, seed=seed)[owners]
    predicted = {method: held_out(make, values, truth, held) for method, make in FITS.items()}
    brier = {method: _brier(confidences, truth) for method, confidences in predicted.items()}
    best = min(brier, key=brier.__getitem__)  # the first of equal ones
    bins = reliability(predicted[best], truth)
    return Calibration(
        curve=FITS[best](values, truth),
        card=card,
        generation=generation,
        queries=int(owners.max()) + 1,
        pairs=values.size,
        relevant=int(truth.sum()),
        brier=brier[best],
        brier_base=_brier(held_out(level, values, truth, held), truth),
        calibration_error=math.fsum(part.count * abs(part.predicted - part.observed) for part in bins) / values.size,
        reliability=bins,
        rates=rates(predicted[best], truth),
    )


# -------------------------------------------------------------------------------------------- curves


def logistic(scores: Floats, relevant: Bools) -> Logistic:
    """Return the maximum-likelihood sigmoid (Platt 1999), or `level` if that one falls.

    Targets are (r + 1) / (r + 2) and 1 / (n - r + 2) instead of 1 and 0, as in Platt: the curve is finite even if the
    scores separate the hits perfectly.
    """
    low, reach = float(scores.min()), float(np.ptp(scores))
    unit = (scores - low) / (reach or 1.0)  # before the squares of the deviation, which may vanish or overflow
    centre, deviation = float(unit.mean()), float(unit.std())
    if deviation == 0:
        return level(scores, relevant)
    hits = int(relevant.sum())
    target = np.where(relevant, (hits + 1) / (hits + 2), 1 / (relevant.size - hits + 2))
    # A target between 0 and 1 is a hit that counts twice, with weights for relevant and irrelevant.
    twice = np.tile((unit - centre) / deviation, 2)[:, np.newaxis]
    kinds = np.repeat([1, 0], relevant.size)
    model = package_of_eval("sklearn.linear_model", "scikit-learn").LogisticRegression(
        C=1e9, solver="newton-cholesky", tol=1e-10
    )
    model.fit(twice, kinds, sample_weight=np.concatenate([target, 1 - target]))
    slope, intercept = float(model.coef_[0, 0]), float(model.intercept_[0])
    if slope <= 0:
        return level(scores, relevant)
    return Logistic(low + centre * reach, slope / deviation / reach, intercept)


def level(scores: Floats, relevant: Bools) -> Logistic:
    """Return a constant curve, the share of relevant hits."""
    share = float(relevant.mean())
    return Logistic(float(scores.min()), 0.0, math.log(share / (1 - share)))


def isotonic(scores: Floats, relevant: Bools, *, prior: float = 1.0) -> Isotonic:
    """Return the isotonic fit (Zadrozny & Elkan 2002), each plateau with `prior` more hits of both kinds.

    Without them, three lucky hits at the top are a probability of 1. In 19 simulated settings (five shapes, 20 to 200
    queries), confidences of 0.8 and more were 0.12 too high on average; with one hit of both kinds (Laplace), 0.03, and
    the squared distance from the true curve fell by 15 %. Two hits cost more than they gain.
    """
    # Only the order of the scores decides, so no scale of them can round two of them into one.
    xs, place, count = np.unique(scores, return_inverse=True, return_counts=True)
    fitted = _risen(np.bincount(place, relevant) / count, count)
    plateau = np.cumsum(fitted > np.roll(fitted, 1))
    hits, size = np.bincount(plateau[place], relevant) + prior, np.bincount(plateau[place]) + 2 * prior
    ys = _risen(hits / size, size)[plateau]  # once more: a small plateau was moved further than a large neighbour
    kept = np.ones(xs.size, dtype=np.bool_)
    kept[1:-1] = (ys[1:-1] != ys[:-2]) | (ys[1:-1] != ys[2:])
    return Isotonic(tuple(xs[kept].tolist()), tuple(ys[kept].tolist()))


def _risen(shares: Floats, weights: ArrayLike) -> Floats:
    """Return the nearest non-decreasing shares: neighbours that fall get their common mean."""
    # Not the class of that name: it draws lines between the fitted values, which rounds them apart.
    nearest: Floats = package_of_eval("sklearn.isotonic", "scikit-learn").isotonic_regression(
        shares, sample_weight=weights, y_min=0, y_max=1
    )
    return nearest


Fit: TypeAlias = Callable[["Floats", "Bools"], Curve]
FITS: Mapping[str, Fit] = {"logistic": logistic, "isotonic": isotonic}
"""The shapes; the first one is taken in a tie."""


# ------------------------------------------------------------------------------------------ held out


def assign(relevant: Bools, owners: Ints, *, folds: int, seed: int = 0) -> Ints:
    """Return the (queries,) fold of each query; `owners` is the (n,) number of the query of each hit, from 0.

    Folds are drawn at random, except that queries with hits of one kind only are dealt first and last, so that every
    fold gets its share of both kinds.

    Raises:
        UsageError: too few hits of a kind, or queries with them, for every fold.
        ValueError: fewer than two folds.
    """
    if folds < 2:
        raise ValueError(f"folds must be at least 2, not {folds}")
    for kind, chosen in (("relevant", relevant), ("not relevant", ~relevant)):
        hits, queries = int(chosen.sum()), np.unique(owners[chosen]).size
        if hits < FEWEST or queries < 2 * folds:
            raise UsageError(
                f"too few judgments to calibrate: {kind} hits: {hits} of {queries} queries; "
                f"at least {FEWEST} hits of {2 * folds} queries are needed",
                hint="judge more queries, and more results of each",
            )
    kinds = np.sign(np.bincount(owners, ~relevant)) - np.sign(np.bincount(owners, relevant))
    lots = np.random.default_rng(seed).permutation(kinds.size)
    found = np.empty(kinds.size, dtype=np.int64)
    found[np.lexsort((lots, kinds))] = np.arange(kinds.size) % folds
    return found


def held_out(make: Fit, scores: Floats, relevant: Bools, held: Ints) -> Floats:
    """Return the confidence of each hit by the curve fitted on all folds but its own; `held` is the (n,) fold."""
    confidences = np.empty_like(scores)
    for fold in np.unique(held):
        inside = held == fold
        confidences[inside] = make(scores[~inside], relevant[~inside])(scores[inside])
    return confidences


def _brier(confidences: Floats, relevant: Bools) -> float:
    return float(np.mean((confidences - relevant) ** 2))


def reliability(confidences: Floats, relevant: Bools) -> tuple[Bin, ...]:
    """Return at most ten bins of about equal size, by increasing confidence.

    Hits of equal confidence share a bin, the one of their middle hit: relevance must not decide where a bin ends.
    """
    _, place, count = np.unique(confidences, return_inverse=True, return_counts=True)
    middle = np.cumsum(count) - count / 2
    bins = (BINS * middle / confidences.size).astype(np.int64)[place]
    return tuple(
        Bin(float(confidences[inside].mean()), float(relevant[inside].mean()), int(inside.sum()))
        for inside in (bins == number for number in np.unique(bins))
    )


def rates(confidences: Floats, relevant: Bools) -> tuple[tuple[float, float], ...]:
    """Return the false-accept and the false-reject rate for each threshold of GRID, see `Calibration.at`."""
    others, hits = np.sort(confidences[~relevant]), np.sort(confidences[relevant])
    accepted = (others.size - np.searchsorted(others, GRID)) / others.size
    rejected = np.searchsorted(hits, GRID) / hits.size
    return tuple(zip(accepted.tolist(), rejected.tolist(), strict=True))


# --------------------------------------------------------------------------------------------- input


def _rows(scores: ArrayLike, relevant: ArrayLike, queries: Iterable[int | str]) -> tuple[Floats, Bools, Ints]:
    """Return the hits in a canonical order, and the number of the query of each among the sorted ids."""
    values, truth, names = (
        np.asarray(scores, np.float64),
        np.asarray(relevant, np.bool_),
        [str(name) for name in queries],
    )
    if not values.shape == truth.shape == (len(names),):
        raise ValueError(f"{values.shape} scores, {truth.shape} judgments, {len(names)} queries: one per hit is needed")
    if not np.isfinite(values).all():
        raise ValueError("a score is not a finite number")
    numbers = {name: number for number, name in enumerate(sorted(set(names)))}
    owners = np.array([numbers[name] for name in names], dtype=np.int64)
    order = np.lexsort((owners, truth, values))
    return values[order], truth[order], owners[order]


_FEWEST = 10
"""Hits of each query that are used if fewer are configured to be shown."""


def calibrate(opened: Opened, settings: Settings, topics: Sequence[Topic]) -> Calibration:
    """Return the probability of relevance by score, measured on the results of judged queries.

    A record without a judgment counts as not relevant, as in every measure.

    Raises:
        UsageError: too few judged queries or hits.
        Unavailable: a retriever cannot run, or scikit-learn is not installed.
    """
    judged = {topic.id: topic for topic in topics if topic.grades}
    queries = queries_of(opened, judged.values(), [])
    with part("calibrating"), noting_interruption(lambda: "nothing is kept"):
        ranked = rank_all(opened, queries, opened.options(k=max(settings.search.k, _FEWEST)))
    if ranked.skipped:
        retriever, reason = next(iter(ranked.skipped.items()))
        hint = f"calibrate without it: --mode {ranked.retrievers[0]}"
        raise Unavailable(f"{retriever} did not run: {reason}", hint=hint)
    hits = [
        (hit.score, judged[ranking.query.id].grades.get(opened.generation.record_id(hit.record), 0) > 0, ranking)
        for ranking in ranked.rankings
        for hit in ranking.hits
    ]
    return fit(
        [score for score, _, _ in hits],
        [relevant for _, relevant, _ in hits],
        [ranking.query.id for _, _, ranking in hits],
        card=Searcher(opened).score_card(ranked),
        generation=opened.generation.manifest.id,
    )
