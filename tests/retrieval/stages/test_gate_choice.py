"""What the gate chooses, over tables of scores: which groups are worth a second search, and what is filled up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from retrieval.stages.retrievers import ASKED, make_layout, make_retriever

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
