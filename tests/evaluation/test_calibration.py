"""Calibrations held to curves that are known, to scikit-learn, to counting by hand, and to what they promise."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from profiles import examples

from retrieve_cli.errors import Unavailable, UsageError
from retrieve_cli.evaluation import calibrate as calibrating
from retrieve_cli.evaluation.calibrate import assign, fit, held_out, isotonic, logistic
from retrieve_cli.frozen import replace
from retrieve_cli.retrieval.calibration import GRID, Calibration, Logistic, read, write

CARD = {"legs": ["bm25", "dense"], "fusion": "rrf", "unit": "chunk", "depth": 50}
Truth = Callable[[np.ndarray], np.ndarray]
Hits = tuple[np.ndarray, np.ndarray, np.ndarray]


def sigmoid(scores: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-2.2 * (scores - 2)))


def steps(scores: np.ndarray) -> np.ndarray:
    return np.where(scores < 1.2, 0.01, np.where(scores < 1.9, 0.25, 0.85))


def levelling(scores: np.ndarray) -> np.ndarray:
    """The best hits are relevant no more often than 57 times in 100."""
    return 0.02 + 0.55 / (1 + np.exp(-6 * (scores - 1.2)))


def judged(truth: Truth, *, queries: int, seed: int = 0) -> Hits:
    """Twenty hits a query; some queries have higher scores than others."""
    generator = np.random.default_rng(seed)
    scores = 0.3 + generator.normal(0, 0.8, (queries, 20)) + generator.normal(0, 0.3, (queries, 1))
    relevant = generator.random(scores.shape) < truth(scores)
    return scores.ravel(), relevant.ravel(), np.repeat(np.arange(queries), 20)


def calibrated(hits: Hits, **given: Any) -> Calibration:
    return fit(*hits, **{"card": CARD, "generation": "0123456789ab", **given})


@pytest.fixture(scope="module")
def both() -> list[Calibration]:
    """One calibration of each shape."""
    free, smooth = (calibrated(judged(truth, queries=60), card={"legs": truth.__name__}) for truth in (steps, sigmoid))
    assert (free.method, smooth.method) == ("isotonic", "logistic")
    return [free, smooth]


# ------------------------------------------------------------------------------------------ the curve


@pytest.mark.parametrize("truth", [sigmoid, steps, levelling])
def test_a_known_curve_is_found_again(truth: Truth) -> None:
    found = calibrated(judged(truth, queries=400))
    unseen, relevant, _ = judged(truth, queries=400, seed=1)
    confidences = found.confidence(unseen)
    assert np.abs(confidences - truth(unseen)).mean() < 0.015
    assert found.calibration_error < 0.015
    assert np.mean((confidences - relevant) ** 2) == pytest.approx(found.brier, abs=0.01)
    assert found.brier < found.brier_base


def test_scores_that_say_the_opposite_give_the_share_of_relevant_hits() -> None:
    scores, relevant, queries = judged(sigmoid, queries=50)
    found = calibrated((-scores, relevant, queries))
    assert found.confidence([-9, 0, 9]) == pytest.approx(relevant.mean(), abs=0.02)
    assert logistic(-scores, relevant).slope == 0


def test_scores_that_part_the_hits_without_an_error_give_no_certainty() -> None:
    _, relevant, queries = judged(sigmoid, queries=50)
    found = calibrated((relevant.astype(float), relevant, queries))
    low, high = found.confidence([0.0, 1.0])
    assert 0 < low < 0.01 < 0.95 < high < 1


def test_without_further_hits_a_free_curve_is_that_of_scikit_learn() -> None:
    scores, relevant, _ = judged(steps, queries=60)
    scores = np.round(scores, 2)  # with ties
    from sklearn.isotonic import IsotonicRegression

    theirs = IsotonicRegression(out_of_bounds="clip", y_min=0, y_max=1).fit(scores, relevant)
    unseen = np.linspace(scores.min() - 1, scores.max() + 1, 5001)
    assert isotonic(scores, relevant, prior=0)(unseen) == pytest.approx(theirs.predict(unseen), abs=1e-12)


def test_three_lucky_hits_at_the_top_are_no_certainty() -> None:
    scores, relevant = np.arange(40.0), np.arange(40) >= 37
    assert isotonic(scores, relevant, prior=0)(np.array([50.0])) == 1
    assert isotonic(scores, relevant)(np.array([50.0])) == 4 / 5


# ---------------------------------------------------------------------------------------------- laws

numbers = st.floats(-1e6, 1e6)


@settings(max_examples=examples(1))
@given(scores=st.lists(numbers, min_size=1, max_size=50))
def test_a_higher_score_is_never_less_sure(both: list[Calibration], scores: list[float]) -> None:
    for found in both:
        near = np.sort(np.concatenate([scores, np.array(scores) / 1e6, np.linspace(-1, 4, 500)]))
        confidences = found.confidence(near)
        assert confidences.dtype == np.float64
        assert confidences.shape == near.shape
        assert np.all(np.diff(confidences) >= 0)
        assert np.all((confidences >= 0) & (confidences <= 1))


# ------------------------------------------------------------------------------------------ held out


def predicted(hits: Hits, method: str) -> np.ndarray:
    """The held-out confidence of each hit, in the order of the hits."""
    scores, relevant, queries = hits
    names = sorted({str(query) for query in queries})
    owners = np.array([names.index(str(query)) for query in queries])
    held = assign(relevant, owners, folds=5)[owners]
    return held_out(calibrating.FITS[method], scores, relevant, held)


def test_no_query_is_both_learnt_from_and_predicted(monkeypatch: pytest.MonkeyPatch) -> None:
    scores, relevant, queries = judged(steps, queries=33)
    owner = dict(zip(scores.tolist(), queries.tolist(), strict=True))
    learnt: list[set[int]] = []

    def spy(scores: np.ndarray, relevant: np.ndarray) -> Logistic:
        learnt.append({owner[score] for score in scores.tolist()})
        return logistic(scores, relevant)

    monkeypatch.setitem(calibrating.FITS, "logistic", spy)
    monkeypatch.setitem(calibrating.FITS, "isotonic", calibrating.level)
    calibrated((scores, relevant, queries))
    *folds, everything = learnt
    unseen = [everything - fold for fold in folds]
    assert everything == set(range(33))
    assert sorted(query for fold in unseen for query in fold) == list(range(33))
    for fold in folds:
        seen = sum(query in fold for query in queries)
        assert seen == 20 * len(fold)


def test_rates_are_those_counted_over_held_out_predictions() -> None:
    hits = judged(steps, queries=60)
    found = calibrated(hits)
    confidences, relevant = predicted(hits, found.method).tolist(), hits[1].tolist()
    for threshold, (accepted, rejected) in zip(GRID, found.rates, strict=True):
        others = [confidence for confidence, good in zip(confidences, relevant, strict=True) if not good]
        wanted = [confidence for confidence, good in zip(confidences, relevant, strict=True) if good]
        assert accepted == sum(confidence >= threshold for confidence in others) / len(others)
        assert rejected == sum(confidence < threshold for confidence in wanted) / len(wanted)
    assert found.rates[0] == (1.0, 0.0)


@pytest.mark.parametrize("threshold", [-0.01, 1.01, float("nan"), float("inf")])
def test_a_threshold_outside_the_range_is_refused(both: list[Calibration], threshold: float) -> None:
    with pytest.raises(UsageError, match="from 0 to 1"):
        both[0].at(threshold)


# ------------------------------------------------------------------------------------------ refusals


def few(queries: int = 40, relevant: int = 40, others: int = 40) -> Hits:
    truth = np.arange(relevant + others) < relevant
    return np.arange(truth.size) * 1.0, truth, np.arange(truth.size) % queries


@pytest.mark.parametrize(
    ("hits", "named"),
    [
        (few(queries=9), "of 9 queries; at least 20 hits of 10 queries"),
        (few(relevant=0), "relevant hits: 0 of 0 queries"),
        (few(others=0), "not relevant hits: 0 of 0 queries"),
        (few(relevant=19), "relevant hits: 19 of 19 queries; at least 20 hits"),
        (few(others=19), "not relevant hits: 19 of 19 queries; at least 20 hits"),
        ((np.arange(90.0), np.arange(90) % 10 == 1, np.where(np.arange(90) % 10 == 1, 0, np.arange(90))), "of 1 quer"),
        (([], [], []), "relevant hits: 0"),
    ],
)
def test_too_little_is_refused_with_what_there_is_and_what_it_takes(hits: Hits, named: str) -> None:
    with pytest.raises(UsageError, match=named) as refused:
        calibrated(hits)
    assert "judge more" in refused.value.hint


def test_without_scikit_learn_the_install_line_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.isotonic", None)
    with pytest.raises(Unavailable, match="scikit-learn") as missing:
        calibrated(judged(steps, queries=30))
    assert missing.value.hint == "pip install 'retrieve-cli[eval]'"


# ---------------------------------------------------------------------------------------------- file


def test_calibrations_are_read_as_they_were_written(both: list[Calibration], tmp_path: Path) -> None:
    path = tmp_path / "confidence.json"
    assert write(path, both) is None
    assert read(path) == both
    unseen = judged(steps, queries=50, seed=7)[0]
    for found, again in zip(both, read(path), strict=True):
        assert np.array_equal(found.confidence(unseen), again.confidence(unseen))


def test_a_card_that_is_written_again_replaces_its_calibration(both: list[Calibration], tmp_path: Path) -> None:
    free, smooth = both
    path = tmp_path / "c.json"
    write(path, both)
    anew = replace(smooth, card=free.card, generation="anew")
    write(path, [anew])
    assert read(path) == [smooth, anew]
    write(path, [replace(anew, generation="a"), replace(anew, generation="b")])
    assert [found.generation for found in read(path)] == [smooth.generation, "b"]


def changed(**given: Any) -> Callable[[Any], None]:
    return lambda value: value["calibrations"][0].update(given)


def without(name: str) -> Callable[[Any], None]:
    return lambda value: value["calibrations"][0].pop(name)


DAMAGE = {
    "schema": lambda value: value.update(schema_version=2),
    "no schema": lambda value: value.pop("schema_version"),
    "no list": lambda value: value.pop("calibrations"),
    "method": changed(method="beta"),
    "sigmoid falls": changed(method="logistic", curve={"centre": 0.0, "slope": -1.0, "intercept": 0.0}),
    "falling": changed(curve={"x": [0.0, 1.0], "y": [0.5, 0.4]}),
    "lengths": changed(curve={"x": [0.0, 1.0], "y": [0.5]}),
    "certain": changed(curve={"x": [0.0], "y": [1.1]}),
    "nan": changed(curve={"x": [0.0], "y": [float("nan")]}),
    "text": changed(brier="0.1"),
    "brier": changed(brier=float("nan")),
    "few rates": changed(rates=[[0.0, 1.0]] * 100),
    "bins": changed(reliability=[{"predicted": 0.5}]),
    "card": changed(card=[]),
    **{f"no {name}": without(name) for name in ("method", "curve", "card", "rates", "reliability", "brier_base")},
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_file_is_named_and_so_is_what_to_do(both: list[Calibration], tmp_path: Path, damage: str) -> None:
    path = tmp_path / "c.json"
    write(path, both)
    value = json.loads(path.read_text())
    DAMAGE[damage](value)
    path.write_text(json.dumps(value))
    with pytest.raises(UsageError, match=r"c\.json") as refused:
        read(path)
    assert refused.value.hint == "calibrate again: retrieve eval --gold FILE --calibrate"


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b"\xff\xfe", b"[" * 100_000, b'{"schema_version": 1}'])
def test_a_file_that_is_something_else_and_a_folder_in_its_place_are_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "c.json").write_bytes(content)
    with pytest.raises(UsageError, match=r"c\.json"):
        read(tmp_path / "c.json")
    with pytest.raises(UsageError, match="cannot read"):
        read(tmp_path)


def test_a_write_that_fails_leaves_the_file_as_it_was(
    both: list[Calibration], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "c.json"
    write(path, both[:1])

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        write(path, both[1:])
    assert read(path) == both[:1]
    assert list(tmp_path.iterdir()) == [path]


def test_a_confidence_is_read_and_applied_without_scikit_learn(both: list[Calibration], tmp_path: Path) -> None:
    write(tmp_path / "c.json", both)
    code = (
        "import sys; from pathlib import Path; "
        "from retrieve_cli.retrieval import calibration as confidence; early = 'numpy' in sys.modules;"
        "[one.confidence([0.1, 0.9]) for one in confidence.read(Path('c.json'))];"
        "print(early, [name for name in ('sklearn', 'scipy') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert (done.stdout, done.stderr) == ("False []\n", "")
