"""More like this: the vectors and words of records are the query, and the records are not in the answer."""

import json
from pathlib import Path

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


def test_near_duplicates_are_pairs_of_records_with_their_lines(catalog: Path, retrieve: Program) -> None:
    texts = ["boils water for tea", "boils water for tea!", "digs holes for bulbs", "boils water for tea"]
    catalog.write_text("".join(json.dumps({"id": f"r{n}", "name": "tool", "description": text}) + "\n"
                               for n, text in enumerate(texts)), "utf-8")  # fmt: skip
    assert retrieve("build", catalog).code == 0
    found = retrieve("inspect", "duplicates", "--above", "0.99", "--json").json
    pairs = [[(each["id"], each["line"]) for each in pair["records"]] for pair in found["duplicates"]]
    assert pairs == [[("r0", 1), ("r1", 2)], [("r0", 1), ("r3", 4)], [("r1", 2), ("r3", 4)]]
    assert found["pairs"] == 3
    shown = retrieve("inspect", "duplicates", "--above", "0.99", "--limit", "1").out
    assert shown == (
        "1.000  r0 (tools.jsonl:1)  =  r1 (tools.jsonl:2)\n"
        "3 pairs of 4 records with a similarity of at least 0.99, 1 shown\n"
    )
