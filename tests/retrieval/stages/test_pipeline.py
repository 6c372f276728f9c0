"""Pipelines are values: they compare by what they are made of, print as what made them, and are changed as values."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from package_text import package
from retrieval.stages.retrievers import ASKED, make_retriever

from retrieve_cli.contracts import Hit, Kind, Query, Stage
from retrieve_cli.frozen import replace
from retrieve_cli.retrieval.stages.diversity import Limit, Mmr, per_group, per_source
from retrieve_cli.retrieval.stages.expand import Expand
from retrieve_cli.retrieval.stages.fuse import Fuse
from retrieve_cli.retrieval.stages.fusion import Fusion
from retrieve_cli.retrieval.stages.gate import GroupRouting
from retrieve_cli.retrieval.stages.merge import Merge
from retrieve_cli.retrieval.stages.pipeline import Pipeline, Wrapping
from retrieve_cli.retrieval.stages.rerank import RerankStage
from retrieve_cli.retrieval.stages.retrieve import Retrieve
from retrieve_cli.retrieval.stages.threshold import Threshold

TABLE = [[4.0, 3.0, 2.0, 1.0]]
GROUPS = np.array([0, 0, 1, 1], np.int32)
BM25 = make_retriever("bm25", TABLE, depth=200)
DENSE = make_retriever("dense", [TABLE[0][::-1]], depth=200)
FUSED = Fuse((BM25, DENSE), Fusion(weights={"bm25": 0.35, "dense": 0.65}), keep=100)


class Reader:
    """Likes the last hit best."""

    name = "backwards"

    def read(self, query: Query, hits: Sequence[Hit]) -> Any:
        return np.arange(len(hits), dtype=np.float64)


def rerank(**options: Any) -> RerankStage:
    return RerankStage(**{"reader": Reader(), "name": "maxsim", "depth": 50, "keep": 10, "interpolate": 0.6, **options})


def gate(first: Stage, second: Stage, **options: Any) -> GroupRouting:
    chosen = {"candidates": 3, "top_groups": 1, "keep": 10, **options}
    return GroupRouting(first, second, groups=GROUPS, names=["a", "b"], **chosen)


def expand(**options: Any) -> Expand:
    chosen: dict[str, Any] = {"seeds": 5, "floor": 50, "depth": 2, **options}
    return Expand(lambda _: [], None, **chosen)  # type: ignore[arg-type]


def mmr(**options: Any) -> Mmr:
    return Mmr(lambda rows: np.eye(4, dtype=np.float32)[rows], **{"trade_off": 0.7, "keep": 10, **options})


def merge(first: Stage, **options: Any) -> Merge:
    return Merge(first, **{"unit": "record", "rrf_k": 60.0, "keep": 10, **options})


# ---------------------------------------------------------------------------------------------------- values


def test_the_same_parts_make_the_same_pipeline() -> None:
    def made() -> Pipeline:
        pair = (make_retriever("bm25", TABLE), make_retriever("dense", TABLE))
        first = Fuse(pair, Fusion(weights={"bm25": 0.5}), keep=9)
        stages = (merge(gate(first, first)), rerank(), expand(), Threshold(0.1), Limit((per_source(2),), 5), mmr())
        return Pipeline(stages)

    assert made() == made()
    assert str(made()) == str(made())
    assert made() is not made()


def different() -> dict[str, Stage]:
    """Stages none of which is equal to another."""
    return {
        "retrieve": Retrieve(BM25, 10),
        "retriever": Retrieve(DENSE, 10),
        "retriever's depth": Retrieve(replace(BM25, depth=50), 10),
        "retriever's unit": Retrieve(replace(BM25, unit="record"), 10),
        "retriever's keep": Retrieve(BM25, 11),
        "fuse": FUSED,
        "order": replace(FUSED, retrievals=(DENSE, BM25)),
        "depth": replace(FUSED, retrievals=(BM25, replace(DENSE, depth=50))),
        "keep": replace(FUSED, keep=99),
        "weights": replace(FUSED, fusion=Fusion(weights={"bm25": 0.5, "dense": 0.5})),
        "method": replace(FUSED, fusion=replace(FUSED.fusion, method="rrf")),
        "normalization": replace(FUSED, fusion=replace(FUSED.fusion, normalization="minmax")),
        "rrf_k": replace(FUSED, fusion=replace(FUSED.fusion, rrf_k=10.0)),
        "gate": gate(FUSED, FUSED),
        "gate's groups": gate(FUSED, FUSED, top_groups=2),
        "gate's quota": gate(FUSED, FUSED, per_group=2),
        "gate's second stage": gate(FUSED, Retrieve(BM25, 10)),
        "merge": merge(FUSED),
        "merge's cap": merge(FUSED, per_text=2),
        "rerank": rerank(),
        "reranker": rerank(name="cross"),
        "rerank's depth": rerank(depth=20),
        "interpolate": rerank(interpolate=0.5),
        "rerank's keep": rerank(keep=20),
        "rerank's least score": rerank(min_score=0.0),
        "expand": expand(),
        "seeds": expand(seeds=4),
        "steps": expand(depth=3),
        "walk": expand(how="pagerank"),
        "threshold": Threshold(0.1),
        "least": Threshold(0.2),
        "grade": Threshold(0.1, grade=0.2),
        "distance": Threshold(0.1, max_distance=0.2),
        "limit": Limit((per_source(2),), 10),
        "cap": Limit((per_source(3),), 10),
        "group": Limit((per_group(2, GROUPS),), 10),
        "limit's keep": Limit((per_source(2),), 11),
        "mmr": mmr(),
        "trade-off": mmr(trade_off=0.5),
        "mmr's keep": mmr(keep=11),
    }


def test_any_difference_makes_another_pipeline() -> None:
    stages = different()
    again = different()
    for name, stage in stages.items():
        assert [other for other, each in again.items() if Pipeline((each,)) == Pipeline((stage,))] == [name]
    first = Pipeline((FUSED, rerank()))
    assert Pipeline((FUSED,)) != first != Pipeline((rerank(), FUSED))


def test_a_pipeline_and_its_stages_do_not_change() -> None:
    for value, key in [(Pipeline((FUSED,)), "stages"), (BM25, "depth"), (FUSED.fusion, "rrf_k")]:
        with pytest.raises(AttributeError, match="immutable"):
            setattr(value, key, 1)
    for stage in different().values():
        with pytest.raises(AttributeError, match="immutable"):
            setattr(stage, stage.__struct_fields__[0], None)


# -------------------------------------------------------------------------------------------------- expressions


def test_a_pipeline_prints_as_the_expression_that_made_it() -> None:
    assert str(Pipeline((FUSED, rerank()))) == "fuse(bm25@200, dense@200) > maxsim@50"
    assert str(Pipeline((Retrieve(BM25, 10), expand()))) == "bm25@200 > expand(5 seeds, 2 steps)"
    whole = (merge(gate(FUSED, FUSED)), rerank(), Threshold(0.1), Limit((per_source(2),), 5), mmr())
    assert str(Pipeline(whole)) == (
        "gate(3 > 1 groups, fuse(bm25@200, dense@200)) > merge > maxsim@50 > threshold(min_score=0.1)"
        " > limit(per_source 2) > mmr(0.7)"
    )


KINDS: dict[str, tuple[Kind, bool]] = {
    "retrieve": ("retrieve", False),
    "fuse": ("fuse", False),
    "gate": ("fuse", False),
    "merge": ("merge", True),
    "rerank": ("rerank", False),
    "expand": ("expand", True),
    "threshold": ("cut", False),
    "limit": ("cut", False),
    "mmr": ("cut", True),
}
"""By stage: its kind, and whether a score means something new after it. Reranking keeps retrieval's scale."""


@pytest.mark.parametrize("name", KINDS)
def test_every_stage_says_what_it_does_and_whether_scores_mean_something_new(name: str) -> None:
    stage = different()[name]
    assert (stage.kind, stage.rescores) == KINDS[name]


def test_a_gate_is_of_the_kind_of_what_it_searches_with() -> None:
    assert gate(FUSED, Retrieve(BM25, 10)).kind == "retrieve"


def test_a_pipeline_is_a_stage_of_its_last_kind_that_rescores_if_one_does() -> None:
    assert (Pipeline((FUSED, rerank())).kind, Pipeline((FUSED, rerank())).rescores) == ("rerank", False)
    assert (Pipeline((FUSED, mmr())).kind, Pipeline((FUSED, mmr())).rescores) == ("cut", True)
    inner = Pipeline((FUSED, rerank()))
    assert Pipeline((inner, mmr()))(ASKED) == Pipeline((FUSED, rerank(), mmr()))(ASKED)
    assert str(Pipeline((inner, mmr()))) == str(Pipeline((FUSED, rerank(), mmr())))


# ------------------------------------------------------------------------------------------------------ running


def test_stages_run_in_their_order_and_each_is_reported_with_what_it_passed_on() -> None:
    pipeline = Pipeline((FUSED, rerank(), Limit((), 2)))
    steps = [*pipeline.run(ASKED)]
    assert [step.stage for step in steps] == [*pipeline.stages]
    assert [step.name for step in steps] == ["fuse(bm25@200, dense@200)", "maxsim@50", "limit()"]
    assert [len(step.rankings[0].hits) for step in steps] == [4, 4, 2]
    assert pipeline(ASKED) == steps[-1].rankings == Limit((), 2)(rerank()(FUSED(ASKED)))


# ------------------------------------------------------------------------------------------------------ changes


def test_without_a_kind_the_other_stages_stay() -> None:
    pipeline = Pipeline((FUSED, rerank(), expand(), Threshold(0.1), mmr()))
    assert pipeline.without("rerank") == Pipeline((FUSED, expand(), Threshold(0.1), mmr()))
    assert pipeline.without("cut") == Pipeline((FUSED, rerank(), expand()))
    assert pipeline.without("merge") == pipeline
    assert len(pipeline.stages) == 5


@pytest.mark.parametrize(
    "wrapped",
    [
        lambda first: first,
        lambda first: gate(replace(first, keep=300), first),
        merge,
        lambda first: merge(gate(replace(first, keep=300), first)),
    ],
    ids=["plain", "gate", "merge", "merge of a gate"],
)
def test_what_asks_the_retrievers_is_exchanged_wherever_it_stands(wrapped: Callable[[Any], Any]) -> None:
    pipeline = Pipeline((wrapped(FUSED), rerank()))
    assert pipeline.retrieves == FUSED
    assert isinstance(pipeline.stages[0], Wrapping) == (wrapped(FUSED) is not FUSED)

    alone = pipeline.retrieving(lambda first: Retrieve(first.retrievals[0], keep=first.keep))

    assert alone == Pipeline((wrapped(Retrieve(BM25, keep=FUSED.keep)), rerank()))
    assert str(alone) == str(pipeline).replace("fuse(bm25@200, dense@200)", "bm25@200")
    assert pipeline.retrieving(lambda first: first) == pipeline
    assert alone(ASKED) == rerank()(wrapped(Retrieve(BM25, keep=FUSED.keep))(ASKED))


def test_a_pipeline_that_asks_nobody_has_nothing_to_exchange() -> None:
    with pytest.raises(TypeError, match="asks no retriever"):
        _ = Pipeline((rerank(),)).retrieves
    with pytest.raises(TypeError, match="asks no retriever"):
        Pipeline((Threshold(0.1),)).retrieving(lambda first: first)


# ---------------------------------------------------------------------------------------------- names are to be read

_PRINTED = re.compile(r"(fuse|gate|expand|limit|threshold|mmr|maxsim)[(@]| > merge")


@pytest.mark.usefixtures("parsed_package")
def test_a_printed_name_stands_once_in_the_stage_that_prints_it_and_recognises_none() -> None:
    texts = [(file.path, text.value) for file in package() for text in file.constants]
    assert [each for each in texts if _PRINTED.search(each[1])] == [
        ("retrieval/stages/diversity.py", "limit("),
        ("retrieval/stages/diversity.py", "mmr("),
        ("retrieval/stages/expand.py", "expand("),
        ("retrieval/stages/fuse.py", "fuse("),
        ("retrieval/stages/gate.py", "gate("),
        ("retrieval/stages/merge.py", " > merge"),
        ("retrieval/stages/threshold.py", "threshold("),
    ]
