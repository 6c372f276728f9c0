"""What the gate chooses, over tables of scores: which groups are worth a second search, and what is filled up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from retrieval.stages.retrievers import ASKED, make_layout, make_retriever

from retrieve_cli.contracts import Kind, Query, Ranking
from retrieve_cli.retrieval.stages.gate import GroupRouting
from retrieve_cli.retrieval.stages.retrieve import IndexRetrieval, Retrieve


def gate_over(
    retriever: IndexRetrieval[Any], groups: Sequence[int], names: Sequence[str], *, top_groups: int = 1, **options: Any
) -> dict[str, Any]:
    """What the gate says about query "0" over a table of scores."""
    stage = Retrieve(retriever, keep=100)
    numbers = np.array(groups, np.int32)
    gate = GroupRouting(
        stage, stage, groups=numbers, names=names, candidates=100, top_groups=top_groups, keep=100, **options
    )
    (ranking,) = gate(ASKED)
    return {"records": [hit.record for hit in ranking.hits], **ranking.trace["gate"]}


NOISE = [1.0, 0.9, 0.8] * 20
"""What most records score, each a group of its own that is worth next to nothing."""


def amid_noise(scores: Sequence[float], groups: Sequence[int], **options: Any) -> dict[str, Any]:
    """What the gate says where groups 0, 1, 2 ... have these scores, and there is noise besides."""
    numbers = [*groups, *range(10, 10 + len(NOISE))]
    retriever = make_retriever("dense", [[*scores, *NOISE]], layout=options.pop("layout", None))
    return gate_over(retriever, numbers, [f"group {at}" for at in range(10 + len(NOISE))], **options)


def names_of(told: dict[str, Any]) -> list[str]:
    return [each["group"] for each in told["chosen"]]


def test_several_good_hits_count_for_more_than_one_that_is_a_little_better() -> None:
    told = amid_noise([6.0, 5.0, 5.0, 5.0], [0, 1, 1, 1])
    assert names_of(told) == ["group 1"]
    assert told["records"] == [1, 2, 3]


def test_no_number_of_fair_hits_counts_for_more_than_an_excellent_one() -> None:
    told = amid_noise([9.0, *[3.0] * 20], [0, *[1] * 20])
    assert names_of(told) == ["group 0"]


def test_queries_that_choose_the_same_groups_keep_each_its_own_filter() -> None:
    stage = Retrieve(make_retriever("dense", [[9.0, 9.0, 1.0, 1.0]]), keep=100)
    groups = np.array([0, 0, 1, 1], np.int32)
    gate = GroupRouting(stage, stage, groups=groups, names=["a", "b"], candidates=9, top_groups=1, keep=9)
    allowed = [np.array(mask, np.bool_) for mask in ([1, 0, 1, 1], [0, 1, 1, 1])]
    answers = gate([Ranking(Query("0", records=mask)) for mask in allowed])
    assert [[hit.record for hit in each.hits] for each in answers] == [[0], [1]]


def test_a_large_group_of_noise_counts_for_less_than_a_good_hit() -> None:
    told = gate_over(make_retriever("dense", [[2.0, *NOISE]]), [0, *[1] * len(NOISE)], ["good", "large"])
    assert names_of(told) == ["good"]


def test_a_long_document_speaks_for_its_group_once() -> None:
    layout = make_layout([4, 1, 1, *[1] * len(NOISE)])
    told = amid_noise([5.0, 4.9, 4.9, 4.9, 5.0, 4.8], [0, 1, 1], layout=layout, top_groups=2)
    assert [(each["group"], each["candidates"]) for each in told["chosen"]] == [("group 1", 2), ("group 0", 4)]


def test_records_without_a_group_are_one_group_that_no_quota_counts() -> None:
    told = amid_noise([4.9, 3.9], [-1, -1], per_group=1)
    scores = np.array([4.9, 3.9, *NOISE])
    score = np.hypot(*(scores[:2] - scores.mean() - scores.std()))
    assert told["chosen"] == [{"group": None, "score": pytest.approx(score), "candidates": 2}]
    assert told["records"] == [0, 1]
    assert (told["groups_seen"], told["left_out"], told["searched"]) == (61, 60, 2)


falling = st.lists(st.integers(0, 40), min_size=1, max_size=9).map(lambda scores: sorted(scores, reverse=True))


def test_a_query_that_finds_nothing_has_an_empty_answer_that_says_so() -> None:
    class Silent:
        """A stage that finds nothing."""

        kind: Kind = "retrieve"
        rescores = False

        def __call__(self, rankings: Sequence[Ranking]) -> list[Ranking]:
            return [Ranking(each.query, trace={"seen": True}) for each in rankings]

    sizes = {"candidates": 9, "top_groups": 1, "keep": 5, "min_results": 5}
    gate = GroupRouting(Silent(), Silent(), groups=np.zeros(3, np.int32), names=["a"], **sizes)
    (ranking,) = gate([Ranking(Query("q"))])
    assert ranking.hits == ()
    told = {"candidates": 0, "groups_seen": 0, "chosen": [], "left_out": 0, "passes": 1, "searched": 0, "filled": 0}
    assert ranking.trace == {"seen": True, "gate": told}


def test_a_minimum_the_corpus_cannot_give_is_filled_as_far_as_it_goes_and_scores_still_descend() -> None:
    retriever = make_retriever("dense", [[9.0, 8.0, 8.8, 8.7, 8.6]])
    told = gate_over(retriever, [0, 1, 2, 2, 2], ["best", "other", "rest"], min_results=50)
    assert told["records"] == [0, 2, 3, 4, 1]
    assert told["filled"] == 4
