"""Fusion held to ranx on random runs, and the one place where the two differ on purpose."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from retrieval.stages.retrievers import ASKED, make_retriever, make_retrievers

from retrieve_cli.contracts import Query, Ranking
from retrieve_cli.frozen import replace
from retrieve_cli.retrieval.stages.fuse import Fuse
from retrieve_cli.retrieval.stages.fusion import Fusion
from retrieve_cli.retrieval.stages.retrieve import IndexRetrieval

CASES = 60
QUERIES, ROWS = 3, 25
TOLERANCE = 1e-9

# ranx is compiled by numba at its first call, which takes a minute; without the compiler the same lines of ranx run
# as plain Python. The switch is read at import, so the comparison has a process of its own.
RANX = """
import json, sys
from ranx import Run, fuse
answers = []
for case in json.load(sys.stdin):
    runs = [Run(run) for run in case["runs"]]
    answers.append(fuse(runs=runs, method=case["method"], norm=case["norm"], params=case["params"]).to_dict())
json.dump(answers, sys.stdout, default=float)
"""


def by_ranx(cases: list[dict[str, Any]]) -> list[dict[str, dict[str, float]]]:
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", RANX],
        input=json.dumps(cases),
        capture_output=True,
        text=True,
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def queries() -> list[Ranking]:
    return [Ranking(Query(str(number), id=f"q{number}")) for number in range(QUERIES)]


def tables(generator: np.random.Generator, retrievers: int) -> np.ndarray:
    """(retrievers, queries, rows) float32 scores, no two equal: ties are broken differently by everyone."""
    scores = generator.permutation(retrievers * QUERIES * ROWS).astype(np.float32) / 7 - 20
    return scores.reshape(retrievers, QUERIES, ROWS)


def run_of(retriever: IndexRetrieval[Any]) -> dict[str, dict[str, float]]:
    """What the retriever lists, as ranx takes it."""
    accounts = retriever.ask([Query(str(number)) for number in range(QUERIES)])
    return {
        f"q{number}": {
            retriever.layout.chunk_id(int(row)): float(score)
            for row, score in zip(account.candidates.rows, account.candidates.scores, strict=True)
        }
        for number, account in enumerate(accounts)
    }


def scores_of(rankings: list[Ranking]) -> dict[str, dict[str, float]]:
    return {ranking.query.id: {hit.id: hit.score for hit in ranking.hits} for ranking in rankings}


@pytest.fixture(scope="module")
def compared() -> dict[str, list[tuple[Any, Any]]]:
    """By formula, pairs of our scores and those of ranx, from one process that answers all cases."""
    generator = np.random.default_rng(2009)
    cases, ours, kinds = [], [], []
    for number in range(CASES):
        kind = ("rrf", "minmax", "zscore", "zscore_candidates")[number % 4]
        retrievers = int(generator.integers(2, 5))
        weights = generator.uniform(0.05, 2, retrievers).tolist()
        k = int(generator.integers(1, 100))
        depths = generator.integers(1, ROWS + 5, retrievers) if kind == "rrf" else [ROWS] * retrievers
        made = make_retrievers(tables(generator, retrievers))
        made = [replace(each, depth=int(depth)) for each, depth in zip(made, depths, strict=True)]
        method, normalization = ("rrf", "zscore") if kind == "rrf" else ("weighted", kind)
        named = {f"retriever{at}": weight for at, weight in enumerate(weights)}
        stage = Fuse(tuple(made), fusion=Fusion(method, normalization, k, named), keep=1000)
        ours.append(scores_of(stage(queries())))
        kinds.append(kind)
        cases.append(
            {
                "runs": [run_of(retriever) for retriever in made],
                "method": "rrf" if kind == "rrf" else "wsum",
                "norm": {"rrf": None, "minmax": "min-max"}.get(kind, "zmuv"),
                "params": {"k": k} if kind == "rrf" else {"weights": weights},
            }
        )
    pairs: dict[str, list[tuple[Any, Any]]] = {kind: [] for kind in kinds}
    for kind, mine, theirs in zip(kinds, ours, by_ranx(cases), strict=True):
        pairs[kind].append((mine, theirs))
    return pairs


@pytest.mark.parametrize("kind", ["rrf", "minmax", "zscore", "zscore_candidates"])
def test_fused_scores_equal_those_of_ranx(kind: str, compared: dict[str, list[tuple[Any, Any]]]) -> None:
    assert len(compared[kind]) == CASES / 4
    for ours, theirs in compared[kind]:
        assert ours.keys() == theirs.keys()
        for query, scores in theirs.items():
            assert ours[query] == pytest.approx(scores, rel=TOLERANCE, abs=TOLERANCE)


def test_a_candidate_missing_from_one_list_gets_that_retrievers_exact_score_where_ranx_puts_nothing() -> None:
    first = make_retriever("first", [[4, 3, 2, 1]], depth=2)
    second = make_retriever("second", [[-5, -1, -2, -9]], depth=2)
    stage = Fuse((first, second), fusion=Fusion("weighted", "minmax"), keep=1000)

    (ranking,) = stage(ASKED)

    evidence = {hit.row: hit.evidence for hit in ranking.hits}
    ranks = {row: [each.rank for each in why] for row, why in evidence.items()}
    assert ranks == {0: [1, None], 1: [2, 1], 2: [None, 2]}
    assert [each.score for each in evidence[0]] == [4, -5]
    assert [each.score for each in evidence[2]] == [2, -2]
    assert evidence[0][1].normalized == -3  # as far below the lowest listed as -5 is, where ranx adds a 0
