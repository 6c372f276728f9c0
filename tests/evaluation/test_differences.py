"""Two configurations on the same queries: differences paired by query, and what can be said of them."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st
from samples import Program

from retrieve_cli.evaluation.statistics import differences, holm, paired_t, randomisation

values = st.lists(st.floats(0, 1), min_size=2, max_size=30)


@given(before=values, data=st.data())
def test_every_difference_is_that_of_its_queries(before: list[float], data: st.DataObject) -> None:
    after = data.draw(st.lists(st.floats(0, 1), min_size=len(before), max_size=len(before)))
    names = [f"q{number}" for number in range(len(before))]
    base, arm = ({"m": dict(zip(names, each, strict=True))} for each in (before, after))
    [found] = differences(base, {"arm": arm})
    apart = np.array(after) - np.array(before)
    assert found.interval.mean == pytest.approx(apart.mean(), abs=1e-12)
    assert found.interval.low <= found.interval.mean <= found.interval.high
    assert (found.p, found.p_t) == (randomisation(apart), paired_t(apart))
    assert found.p_holm == found.p
    assert found.wins.won + found.wins.lost + found.wins.tied == len(names)
    assert [lost for _, lost in found.losers] == sorted(each for each in apart if each < 0)[:5]
    [other_way] = differences(arm, {"base": base})
    assert other_way.interval.mean == pytest.approx(-found.interval.mean, abs=1e-12)
    assert other_way.p == pytest.approx(found.p)


def test_only_the_primary_measure_is_corrected_and_decides() -> None:
    generator = np.random.default_rng(0)
    names = [str(number) for number in range(60)]
    base = {measure: dict(zip(names, generator.random(60), strict=True)) for measure in ("nDCG@10", "R@100")}
    runs = {
        f"run {number}": {
            measure: {name: value + 0.01 * (number + 1) + generator.normal(0, 0.05) for name, value in values.items()}
            for measure, values in base.items()
        }
        for number in range(4)
    }
    found = differences(base, runs)
    primary, others = ([each for each in found if each.primary is kind] for kind in (True, False))
    assert [each.p_holm for each in primary] == pytest.approx(holm([each.p for each in primary]))
    assert {each.measure for each in primary} == {"nDCG@10"}
    assert {(each.p_holm, each.significant, each.to_json()["significant"]) for each in others} == {(None, False, None)}
    assert any(each.p <= 0.05 for each in others)


def test_a_run_that_changes_nothing_is_said_to() -> None:
    base = {"m": {"a": 0.5, "b": 1.0}}
    [found] = differences(base, {"arm": base})
    assert (found.p, found.p_holm, found.losers) == (1.0, 1.0, [])
    assert not found.significant


# ------------------------------------------------------------------------------------------- the program


def test_settings_and_runs_are_compared_with_what_is_configured(gold: Path, retrieve: Program, tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert retrieve("eval", "--gold", gold, "--run-out", run).code == 0
    done = retrieve("eval", "--gold", gold, "--with", "search.mode=bm25", "--with",
                    "fusion.weights={dense: 0.1, bm25: 0.9}", "--with", run, "--json")  # fmt: skip
    assert done.code == 0, done.err
    first, second, third = done.json["runs"]
    assert (first["run"], first["pipeline"]) == ("search.mode=bm25", "bm25@200")
    alone = retrieve("eval", "--gold", gold, "--mode", "bm25", "--json").json
    assert first["metrics"] == alone["metrics"]
    apart = first["differences"]["nDCG@10"]
    assert apart["difference"] == pytest.approx(alone["metrics"]["nDCG@10"] - done.json["metrics"]["nDCG@10"])
    assert apart["p_holm"] >= apart["p"]
    assert second["pipeline"] == done.json["pipeline"]
    assert third["differences"]["nDCG@10"]["tied"] == 3
    shown = retrieve("eval", "--gold", gold, "--with", "search.mode=bm25", "--with", run).out
    assert "search.mode=bm25" in shown
    assert "no query differs" in shown


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("fusion.method=rff", "'rff'"),
        ("fusion.methud=rrf", "methud"),
        ("fusion", "neither a file nor SECTION.KEY=VALUE"),
        ("fusion=rrf", "is not SECTION.KEY=VALUE"),
        ("bm25.stemming=none", "`bm25.stemming` of bm25.stemming=none changes the index"),
        ("chunking.size=64", "changes the index"),
        ("nothing.at=all", "unknown section `nothing`"),
        ("bm25.k1=-1", "takes a number"),
    ],
)
def test_a_change_that_cannot_be_compared_is_refused(gold: Path, retrieve: Program, change: str, message: str) -> None:
    done = retrieve("eval", "--gold", gold, "--with", change)
    assert done.code == 2
    assert message in done.err


def test_the_largest_drops_of_the_primary_measure_are_named(gold: Path, retrieve: Program) -> None:
    flags = ("eval", "--gold", gold, "--with", "search.mode=bm25", "--metrics", "R@1,nDCG@10", "--mode", "dense")
    compared = retrieve(*flags, "--json").json["runs"][0]
    assert [name for name, each in compared["differences"].items() if each["primary"]] == ["R@1"]
    assert compared["run"] == "search.mode=bm25"
    losers = compared["differences"]["R@1"]["losers"]
    assert ("largest drops of R@1:" in retrieve(*flags).out) is bool(losers)
