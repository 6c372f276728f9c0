"""Every active stage switched off in turn, in one command."""

import json
from pathlib import Path

import numpy as np
import pytest
from samples import Program

from retrieve_cli.config import Settings, override
from retrieve_cli.evaluation.differences import differences
from retrieve_cli.evaluation.statistics import interval
from retrieve_cli.experiments.ablation import ablations, recommendation
from retrieve_cli.experiments.evaluate import Evaluation


def evaluated(values: list[float], p95: float) -> Evaluation:
    each = {"m": {str(number): value for number, value in enumerate(values)}}
    return Evaluation(each, {"m": interval(np.array(values))}, [], {}, "pipeline", latency_ms={"p95": p95, "p50": 1.0})


def test_only_what_is_active_is_switched_off() -> None:
    names = ablations(Settings())
    assert {"the dense leg", "the bm25 leg", "scores (ranks instead)", "half of the depth"} <= names.keys()
    ranks = override(Settings(), {"fusion": {"method": "rrf"}}, where="test")
    assert set(ablations(ranks)) == {"the dense leg", "the bm25 leg", "half of the depth"}
    assert ablations(override(Settings(), {"search": {"mode": "bm25"}}, where="test")) == {}


def test_one_command_shows_what_each_stage_is_worth(index: Path, retrieve: Program, tmp_path: Path) -> None:
    gold = tmp_path / "gold.jsonl"
    gold.write_text(json.dumps({"query": "lungs in CT", "relevant": ["lungs"]}) + "\n" +
                    json.dumps({"query": "counts cells", "relevant": ["cells"]}) + "\n")  # fmt: skip
    done = retrieve("eval", "--gold", gold, "--ablate", "--json")
    assert done.code == 0, done.err
    assert [arm["arm"] for arm in done.json["arms"]] == list(ablations(Settings()))
    alone = retrieve("eval", "--gold", gold, "--mode", "bm25", "--json").json
    assert done.json["arms"][0]["metrics"] == alone["metrics"]
    shown = retrieve("eval", "--gold", gold, "--ablate", "--latency-budget-ms", "100000")
    assert "without the dense leg (bm25@200" in shown.out
    assert "as configured" in shown.out
    advised = retrieve("eval", "--gold", gold, "--ablate", "--latency-budget-ms", "100000", "--json").json
    assert "as configured" in advised["recommendation"]


@pytest.mark.parametrize("flags", [["--ablate", "--mode", "bm25"], ["--latency-budget-ms", "5"]], ids=str)
def test_what_cannot_be_ablated_is_refused(index: Path, retrieve: Program, tmp_path: Path, flags: list[str]) -> None:
    gold = tmp_path / "gold.jsonl"
    gold.write_text('{"query": "lungs", "relevant": ["lungs"]}\n')
    assert retrieve("eval", "--gold", gold, *flags).code == 2


def test_a_recommendation_stays_within_the_budget_and_above_the_noise() -> None:
    generator = np.random.default_rng(0)
    values = generator.uniform(0.3, 0.6, 60)
    base = evaluated(values.tolist(), 20.0)
    arms = {
        "better": evaluated((values + generator.normal(0.1, 0.02, 60)).tolist(), 30.0),
        "noise": evaluated((values + generator.normal(0.0, 0.05, 60)).tolist(), 10.0),
    }
    compared = differences(base.per_query, {name: arm.per_query for name, arm in arms.items()})
    assert "without better, m +0.1" in recommendation(base, arms, compared, 50.0)
    assert "as configured" in recommendation(base, arms, compared, 25.0)
    assert "without noise" in recommendation(base, arms, compared, 15.0)
    assert "none of these" in recommendation(base, arms, compared, 5.0)
