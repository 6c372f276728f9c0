"""Pipelines are values: they compare by what they are made of, print as what made them, and are changed as values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from retrieval.stages.retrievers import ASKED, make_retriever

from retrieve_cli.contracts import Hit, Query, Stage
from retrieve_cli.frozen import replace
from retrieve_cli.retrieval.stages.diversity import Limit, Mmr
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


# -------------------------------------------------------------------------------------------------- expressions


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
