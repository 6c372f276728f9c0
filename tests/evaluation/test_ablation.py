"""Every active stage switched off in turn, in one command."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from samples import Program

from retrieve_cli.assemble import registry
from retrieve_cli.config.loading import override
from retrieve_cli.config.settings import Settings
from retrieve_cli.contracts import Query
from retrieve_cli.errors import UsageError
from retrieve_cli.evaluation.evaluate import Evaluation
from retrieve_cli.evaluation.runs import Answers
from retrieve_cli.evaluation.statistics import differences, interval
from retrieve_cli.evaluation.trial import ablations, recommendation
from retrieve_cli.search.opened import Opened
from retrieve_cli.search.searcher import Searcher
from retrieve_cli.storage.store import Store


def evaluated(values: list[float], p95: float) -> Evaluation:
    each = {"m": {str(number): value for number, value in enumerate(values)}}
    return Evaluation(
        each, {"m": interval(np.array(values))}, [], {}, "pipeline", len(values), latency_ms={"p95": p95, "p50": 1.0}
    )


def names(artifacts: Path, **settings: dict[str, object]) -> list[str]:
    return [arm.name for arm in ablations(Answers.of("", Store(artifacts), override(Settings(), settings, where="")))]


def test_only_what_is_active_is_switched_off(index: Path) -> None:
    assert {"without dense", "without bm25", "ranks instead of scores", "half the depth"} <= set(names(index))
    ranks = {"without dense", "without bm25", "half the depth", "without field weights"}
    assert set(names(index, fusion={"method": "rrf"})) == ranks
    assert names(index, search={"mode": "bm25"}) == ["without field weights"]
    gated = names(index, gating={"enabled": True}, diversity={"mmr": 0.5, "per_group": 2}, search={"min_score": 0.1})
    further = {"without group routing", "without MMR", "without a cap per group"}
    assert further | {"without min_score"} <= set(gated)
    with pytest.raises(UsageError, match="--mode dense"):
        names(index, search={"mode": "dense"})


def test_one_command_shows_what_each_stage_is_worth(index: Path, retrieve: Program, tmp_path: Path) -> None:
    gold = tmp_path / "gold.jsonl"
    gold.write_text(json.dumps({"query": "lungs in CT", "relevant": ["lungs"]}) + "\n" +
                    json.dumps({"query": "counts cells", "relevant": ["cells"]}) + "\n")  # fmt: skip
    done = retrieve("eval", "--gold", gold, "--ablate", "--json")
    assert done.code == 0, done.err
    assert [run["run"] for run in done.json["runs"]] == names(index)
    alone = retrieve("eval", "--gold", gold, "--mode", "bm25", "--json").json
    assert done.json["runs"][0]["metrics"] == alone["metrics"]
    shown = retrieve("eval", "--gold", gold, "--ablate", "--latency-budget-ms", "100000")
    assert "without dense" in shown.out
    assert "as configured" in shown.out
    advised = retrieve("eval", "--gold", gold, "--ablate", "--latency-budget-ms", "100000", "--json").json
    assert "as configured" in advised["recommendation"]


def test_without_field_weights_is_what_a_build_with_equal_weights_finds(
    catalog: Path, retrieve: Program, tmp_path: Path
) -> None:
    config = tmp_path / "equal.yaml"
    config.write_text("catalog: {fields: {name: 1, tool_arguments: 1}}")
    assert retrieve("build", "--catalog", catalog).code == 0
    assert retrieve("build", "--catalog", catalog, "--artifacts", "equal", "--config", config).code == 0
    weighted, equal = (Opened.of(Store(Path(name)), Settings()) for name in ("artifacts", "equal"))
    plain_index = registry.retriever("bm25").plain(weighted.generation, Settings())
    assert plain_index is not None
    assert registry.retriever("bm25").plain(equal.generation, Settings()) is None
    ours = weighted.under(Settings(), {"bm25": plain_index})
    for text in ("lungs", "counts cells", "brain MRI", "align"):
        mine, theirs, plain = (
            Searcher(each, each.options(k=5, mode="bm25")).rank([Query(text)]).rankings[0].hits
            for each in (ours, equal, weighted)
        )
        assert [hit.id for hit in mine] == [hit.id for hit in theirs]
        assert [hit.score for hit in mine] == pytest.approx([hit.score for hit in theirs], rel=0.15)
        assert [hit.score for hit in mine] != pytest.approx([hit.score for hit in plain])


GATED: dict[str, Any] = {
    "gating": {"enabled": True, "top_groups": 1, "global_candidates": 5},
    "diversity": {"mmr": 0.5, "per_group": 2},
    "search": {"min_score": -5.0, "grade": 0.0},
}


def pipelines(artifacts: Path, **settings: dict[str, object]) -> dict[str, str]:
    """By name of an ablation, the pipeline that answers; "" is the one as configured."""
    base = Answers.of("", Store(artifacts), override(Settings(), settings, where=""))
    asked = [Query("lungs in CT")]
    return {
        each.name: str(Searcher(each.opened, each.opened.options(k=3)).rank(asked, each.edit).pipeline)
        for each in (base, *ablations(base))
    }


def test_each_ablation_leaves_out_its_part_and_nothing_else(index: Path) -> None:
    assert pipelines(index) == {
        "": "fuse(bm25@200, dense@200)",
        "without dense": "bm25@200",
        "without bm25": "dense@200",
        "ranks instead of scores": "fuse(bm25@200, dense@200)",
        "equal weights": "fuse(bm25@200, dense@200)",
        "z-scores over candidates": "fuse(bm25@200, dense@200)",
        "min-max instead of z-scores": "fuse(bm25@200, dense@200)",
        "half the depth": "fuse(bm25@100, dense@100)",
        "without field weights": "fuse(bm25@200, dense@200)",
    }


@pytest.mark.parametrize(
    "flags", [["--ablate", "--mode", "dense"], ["--latency-budget-ms", "5"], ["--compare"]], ids=str
)
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
    assert ": better, m +0.1" in recommendation(base, arms, compared, 50.0)
    assert "as configured" in recommendation(base, arms, compared, 25.0)
    assert ": noise, m" in recommendation(base, arms, compared, 15.0)
    assert "none of these" in recommendation(base, arms, compared, 5.0)
