"""What can be compared: settings, configuration files, other indexes, runs, and runs fused."""

import json
from pathlib import Path

import pytest
from evaluation.conftest import GOLD
from samples import Program


def test_a_formula_of_bm25_is_measured_as_an_index_built_with_it(
    catalog: Path, gold: Path, retrieve: Program, tmp_path: Path
) -> None:
    config = tmp_path / "other.yaml"
    config.write_text("bm25: {k1: 3.0, b: 0.1, variant: atire}")
    assert retrieve("build", "--catalog", catalog, "--artifacts", "other", "--config", config).code == 0
    arms = ["bm25.k1=3.0,bm25.b=0.1,bm25.variant=atire", "other", config]
    flags = [flag for arm in arms for flag in ("--with", arm)]
    done = retrieve("eval", "--gold", gold, "--compare", *flags, "--mode", "bm25", "--run-out", "r1", "--json")
    assert done.code == 0, done.err
    assert len({json.dumps(run["metrics"]) for run in done.json["runs"]}) == 1
    there = retrieve("eval", "--gold", gold, "--artifacts", "other", "--mode", "bm25", "--run-out", "r2", "--json")
    assert there.json["metrics"] == done.json["runs"][0]["metrics"]


def test_a_configuration_file_that_wants_another_index_is_refused(
    gold: Path, retrieve: Program, tmp_path: Path
) -> None:
    config = tmp_path / "other.yaml"
    config.write_text("chunking: {size: 64}\nstore: {keep: 9}")
    done = retrieve("eval", "--gold", gold, "--with", config)
    assert done.code == 2
    assert "`chunking.size`" in done.err
    config.write_text("store: {keep: 9}\nfusion: {method: rrf}")
    done = retrieve("eval", "--gold", gold, "--with", config, "--with", "fusion.method=rrf", "--json")
    first, second = done.json["runs"]
    assert first["metrics"] == second["metrics"]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--with", "fusion.method=rrf"], "needs an index"),
        (["--with", "artifacts"], "needs an index"),
        (["--ablate"], "--ablate needs an index"),
        (["--tune"], "--tune needs an index"),
        (["--calibrate"], "--calibrate needs an index"),
        (["--with", "run", "--with", "run"], "compared twice"),
    ],
)
def test_beside_a_run_stand_runs_alone(gold: Path, retrieve: Program, flags: list[str], message: str) -> None:
    assert retrieve("eval", "--gold", gold, "--run-out", "run").code == 0
    done = retrieve("eval", "--gold", gold, "--run", "run", *flags)
    assert (done.code, message in done.err) == (2, True), done.err


def test_several_runs_are_fused_by_reciprocal_ranks(gold: Path, retrieve: Program) -> None:
    for mode in ("bm25", "dense"):
        assert retrieve("eval", "--gold", gold, "--mode", mode, "--run-out", mode).code == 0
    both = retrieve("eval", "--gold", gold, "--run", "bm25", "--run", "dense", "--json")
    assert both.json["pipeline"] == "rrf(k=60: bm25, dense)"
    live = retrieve("eval", "--gold", gold, "--with", "fusion.method=rrf,search.depth=1000", "--json").json["runs"][0]
    assert both.json["metrics"] == pytest.approx(live["metrics"])


def test_what_each_query_came_to_is_kept_beside_the_index(gold: Path, retrieve: Program) -> None:
    first, second = (retrieve("eval", "--gold", gold, "--json").json["per_query"] for _ in range(2))
    assert first == second
    assert Path(first).parts[:2] == ("artifacts", "runs")
    assert [json.loads(line)["query"] for line in Path(first).read_text().splitlines()] == [
        line["query"] for line in GOLD
    ]


def test_synthetic_queries_are_said_to_be(gold: Path, retrieve: Program) -> None:
    gold.write_text("".join(json.dumps({**line, "synthetic": "titles"}) + "\n" for line in GOLD[:2]))
    done = retrieve("eval", "--gold", gold)
    assert "2 of 2 queries are synthetic (made from titles)" in done.err
