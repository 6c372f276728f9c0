"""More like this: the vectors and words of records are the query, and the records are not in the answer."""

import numpy as np
import pytest
from samples import Program

from retrieve_cli import open as opened
from retrieve_cli.assemble.indexes import stored_vectors
from retrieve_cli.errors import UsageError


def test_the_scores_are_the_cosines_with_the_mean_of_the_examples(index: object, retrieve: Program) -> None:
    found = retrieve("query", "--like", "brain", "--like", "align", "--mode", "dense", "--no-rerank", "--json").json
    with opened("artifacts") as held:
        generation = held.opened.generation
        rows = {generation.record_id(row): row for row in range(len(generation.records))}
        vectors = stored_vectors(generation, np.arange(len(generation.chunks)))  # one chunk each
        wanted = vectors[[rows["brain"], rows["align"]]].mean(axis=0)
        wanted /= np.linalg.norm(wanted)
        scores = {hit["doc_id"]: hit["score"] for hit in found["results"]}
        assert scores == pytest.approx({name: wanted @ vectors[rows[name]] for name in scores}, abs=1e-6)
    assert found["excluded"] == ["brain", "align"]
    assert {"brain", "align"} & ({*scores} | {each["doc_id"] for each in found["related"]}) == set()
    assert len(scores) == len(rows) - 2


def test_words_and_counterexamples_move_the_ranking(index: object, retrieve: Program) -> None:
    def ids(*words: str) -> list[str]:
        return retrieve("query", *words, "--no-rerank", "--no-expand", "-l").out.split()

    alone = ids("--like", "brain")
    assert ids("--like", "brain", "--mode", "bm25")[:1] == ids("BrainStrip MRI skull stripping", "--mode", "bm25")[1:2]
    assert sorted(ids("tiles", "--like", "brain")) == sorted(alone)
    away = ids("--like", "brain", "--not-like", alone[0])
    assert alone[0] not in away
    assert sorted([*away, alone[0]]) == sorted(alone)


def test_an_unknown_example_is_an_error_in_every_door_and_a_tenant_has_no_other(
    index: object, retrieve: Program
) -> None:
    assert "did you mean `brain`" in retrieve("query", "--like", "brian").err
    with opened("artifacts") as held:
        with pytest.raises(UsageError, match="no record 'brian'"):
            held.search("", like=["brian"])
        assert [hit.doc_id for hit in held.search("", like="brain", k=1).results] != ["brain"]
