"""Reasons and explanations of results, in words."""

from __future__ import annotations

import pytest
from samples import Program

from retrieve_cli.contracts import Evidence, Hit, Reranked
from retrieve_cli.frozen import replace
from retrieve_cli.output.reasons import reasons, why
from retrieve_cli.search.answer import Result

BM25 = Evidence("bm25", 3, 4.2, 1.5, 0.35)
UNRANKED = Evidence("dense", None, 0.2, -0.4, 0.65)


def result(*evidence: Evidence, rank_before: int | None = None, path: str | None = None) -> Result:
    moved = None if rank_before is None else Reranked("maxsim", rank_before, 0.3, 0.7)
    hit = Hit("a#0", 0, 0, 1.0, evidence=evidence, reranked=moved, path=path)
    return Result(hit, {"id": "a", "name": "A", "kind": "catalog"}, {"index": 0})


@pytest.mark.parametrize(
    ("shown", "words"),
    [
        (result(BM25, UNRANKED), "bm25 #3 · dense –"),
        (result(BM25, rank_before=44), "bm25 #3 · reranked 44→4"),
        (result(Evidence("graph", None, 0.7, 1.0, 1.0), path="b —requires→ a (0.70)"), "required by b"),
        (result(BM25, Evidence("mmr", 2, 1.0, 0.1, -0.2)), "bm25 #3 · diversified 2→4"),
        (result(BM25, Evidence("boost", 9, 1.0, 0.5, 0.2)), "bm25 #3 · boosted 9→4"),
        (result(Evidence("text 1", 2, 1, 1, 1), Evidence("text 2", 5, 1, 1, 1)), "query #2 · variant 1 #5"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_evidence_is_a_few_words_without_scores(shown: Result, words: str) -> None:
    assert why(shown, rank=4) == words


def test_a_result_that_is_stale_or_only_fills_up_says_so() -> None:
    stale = replace(result(BM25), freshness="changed")
    assert why(stale, rank=3) == "bm25 #3 · changed since the build"
    assert [reason.style for reason in reasons(stale, rank=3)] == ["dim", "alert"]
    filling = replace(stale, hit=replace(stale.hit, topped_up="it fails grade 0.4"), freshness="fresh")
    assert why(filling, rank=3) == "bm25 #3 · topped up: it fails grade 0.4"


def test_an_explanation_tells_of_exclusions_groups_budgets_and_deadlines(index, retrieve: Program) -> None:
    limits = ("--route", "--max-tokens", "40", "--deadline-ms", "90000")
    out = retrieve("query", "brain [EXCLUDE:align] scans", "--explain", *limits).out
    for label in ("read as", "excluded", "groups", "budget", "cut", "deadline"):
        assert f"\n{label} " in out, label
