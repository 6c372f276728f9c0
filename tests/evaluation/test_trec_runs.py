"""Ids with white space in TREC runs: encoded in the file, and found again by whoever judges it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ir_measures
import pytest
from hypothesis import given, strategies as st
from samples import Program, write_catalog

from retrieve_cli.evaluation.judgments import Topic, read_run
from retrieve_cli.evaluation.runs import matched
from retrieve_cli.output.trec_runs import encoded, lines

ODD = [
    "two words",
    "100 % sure",
    "tab\tand\nline",
    "Größe 大 x",
    "a%20b c",
    "50%",
    "größe",
    'quote " back\\slash x',
]
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=8)
CLOSE = st.text("a %20b", min_size=1, max_size=6)


@pytest.fixture
def odd(tmp_path: Path, retrieve: Program) -> Path:
    """A gold file whose queries and records have odd ids, and their index at the default place."""
    records = [{"id": name, "name": f"word{at}", "description": f"about word{at}"} for at, name in enumerate(ODD)]
    assert retrieve("build", "--catalog", write_catalog(tmp_path / "odd.jsonl", records)).code == 0
    queries = [{"id": f"q {name}", "query": f"word{at}", "relevant": [name]} for at, name in enumerate(ODD)]
    return write_catalog(tmp_path / "gold.jsonl", queries)


def metrics(done: Any) -> dict[str, float]:
    assert done.code == 0, done.err
    found: dict[str, float] = done.json["metrics"]
    return found


@given(scores=st.dictionaries(TEXTS, st.sampled_from([1.0, 0.5]), min_size=1, max_size=6))
def test_a_run_that_is_read_again_is_the_run_that_was_written(
    scores: dict[str, float], tmp_path_factory: pytest.TempPathFactory
) -> None:
    scores = {name: score for name, score in scores.items() if "%" not in name}
    path = tmp_path_factory.mktemp("run") / "run.trec"
    run = {"a query": scores} if scores else {}
    path.write_text("".join(lines(query, hits.items(), tag="t") for query, hits in run.items()), "utf-8", newline="")
    topics = [Topic("a query", "text", dict.fromkeys(scores, 1))]
    found = matched(read_run(path), topics).run
    assert {query: list(found[query]) for query in found} == {query: list(run[query]) for query in run}


def test_encoded_ids_become_judged_ones_only_where_nothing_else_can_be_meant() -> None:
    topics = [Topic("q 1", "text", {"a b": 1, "50%": 1, "x%20y": 1, "x y": 1})]
    run = {"q%201": {"a%20b": 4.0, "50%25": 3.0, "50%": 2.0, "x%20y": 1.0, "c%20d": 0.5, "%ff": 0.1}}
    found = matched(run, topics)
    assert found.run == {"q 1": {"a b": 4.0, "50%25": 3.0, "50%": 2.0, "x%20y": 1.0, "c%20d": 0.5, "%ff": 0.1}}
    assert found.notes[0] == "2 ids of the run are percent-encoded: decoded to judged ids"
    assert "'50%25'" in found.notes[1]


def test_a_run_with_odd_ids_has_the_value_of_its_index(odd: Path, retrieve: Program) -> None:
    direct = retrieve("eval", "--gold", odd, "--mode", "bm25", "--run-out", "run", "--json")
    assert metrics(direct)["RR@10"] == 1.0
    assert {len(line.split()) for line in Path("run").read_text().splitlines()} == {6}
    assert metrics(retrieve("eval", "--gold", odd, "--run", "run", "--json")) == metrics(direct)
    Path("copy").write_text(Path("run").read_text())
    fused = retrieve("eval", "--gold", odd, "--run", "run", "--run", "copy", "--json")
    assert metrics(fused)["RR@10"] == 1.0
    qrels = {encoded(f"q {name}"): {encoded(name): 1} for name in ODD}
    run = list(ir_measures.read_trec_run("run"))
    assert ir_measures.calc_aggregate([ir_measures.RR @ 10], qrels, run) == {ir_measures.RR @ 10: 1.0}


def test_that_ids_are_encoded_is_said_once(
    odd: Path, index: Path, retrieve: Program, stdin: Callable[[str], None]
) -> None:
    assert retrieve("query", "lungs", "--format", "trec").err == ""
    stdin(json.dumps({"id": "two words", "query": "lungs"}) + "\n" + json.dumps({"id": "50%", "query": "brain"}))
    done = retrieve("query", "-", "--format", "trec")
    assert done.err == "note: 2 ids are percent-encoded in the TREC run ('two words' as two%20words)\n"
    retrieve("build", "--catalog", "odd.jsonl")
    done = retrieve("eval", "--gold", odd, "--run-out", "run")
    assert done.err.count("percent-encoded in the TREC run") == 1
    done = retrieve("eval", "--gold", odd, "--run", "run")
    assert "percent-encoded: decoded to judged ids" in done.err
