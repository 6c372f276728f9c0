"""`retrieve eval`: the whole program against judged queries."""

import json
import shlex
from pathlib import Path

import ir_measures
import pytest
from samples import Program, fails, succeeds, write_catalog

GOLD = [
    {"id": "q1", "query": "segment lungs in CT", "relevant": {"lungs": 3, "brain": 1}, "group": "radiology"},
    {"id": "q2", "query": "count cells", "relevant": ["cells"], "group": "microscopy"},
    {"id": "q3", "query": "zqxv wqzk", "relevant": ["align"], "group": "nowhere"},
]


@pytest.fixture
def gold(tmp_path: Path) -> Path:
    return write_catalog(tmp_path / "gold.jsonl", GOLD)


def test_the_figures_are_those_that_ir_measures_computes_from_the_run(
    index: Path, gold: Path, retrieve: Program, tmp_path: Path
) -> None:
    done = retrieve("eval", "--gold", gold, "--run-out", tmp_path / "run", "--json")
    assert done.code == 0, done.err
    found = done.json
    qrels = {line["id"]: line["relevant"] if isinstance(line["relevant"], dict) else {"cells": 1} for line in GOLD[:2]}
    qrels["q3"] = {"align": 1}
    theirs = ir_measures.calc_aggregate(
        [ir_measures.parse_measure(name) for name in ("nDCG@10", "R@100", "RR@10", "AP@100")],
        qrels,
        list(ir_measures.read_trec_run(str(tmp_path / "run"))),
    )
    for measure, value in theirs.items():
        assert found["metrics"][str(measure)] == pytest.approx(value)
        low, high = found["intervals"][str(measure)]
        assert low <= value <= high
    assert (found["metrics"]["group@1"], found["metrics"]["group@3"]) == pytest.approx((2 / 3, 2 / 3))
    assert (found["queries"], found["schema_version"]) == (3, 1)
    assert {"p50", "p95", "encode_p50", "search_p95"} <= found["latency_ms"].keys()
    assert found["pipeline"].startswith("fuse(")


def test_a_query_without_an_answer_counts(index: Path, gold: Path, retrieve: Program) -> None:
    found = retrieve("eval", "--gold", gold, "--mode", "bm25", "--json").json
    assert (found["queries"], found["unanswered"]) == (3, 1)
    assert found["metrics"]["nDCG@10"] <= 2 / 3


def test_groups_that_no_record_has_are_not_measured(retrieve: Program, gold: Path, tmp_path: Path) -> None:
    tools = [{"id": "lungs", "name": "lungs in CT"}, {"id": "cells", "name": "cells"}]
    assert retrieve("build", "--catalog", write_catalog(tmp_path / "c.jsonl", tools)).code == 0
    done = retrieve("eval", "--gold", gold)
    assert "group metrics are skipped" in done.err
    assert "group@1" not in done.out


def test_quotes_are_looked_for_in_chunks(tmp_path: Path, retrieve: Program) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "a.md").write_text("# Zebras\nZebras have   stripes,\nas everybody knows.\n\n# Lions\nLions have none.")
    assert retrieve("build", "--docs-dir", docs).code == 0
    quotes = {"zebras stripes": "Zebras have stripes, as everybody", "x": "no such"}
    gold = write_catalog(tmp_path / "gold.jsonl", [{"query": asked, "quote": quotes[asked]} for asked in quotes])
    done = retrieve("eval", "--gold", gold, "--metrics", "RR@10,P@1", "--per-query-out", tmp_path / "each")
    assert done.code == 0, done.err
    assert "the quote of query '2' is in no chunk" in done.err
    first, second = map(json.loads, (tmp_path / "each").read_text().splitlines())
    assert (first["chunk RR@10"], second["chunk RR@10"]) == (1.0, 0.0)


def test_a_run_is_judged_without_an_index(gold: Path, retrieve: Program, tmp_path: Path) -> None:
    (tmp_path / "run").write_text("q1 Q0 lungs 1 2.0 t\nq2 Q0 brain 1 1.0 t\nq9 Q0 x 1 1.0 t\n")
    done = retrieve(
        "eval", "--gold", gold, "--run", tmp_path / "run", "--metrics", "Success@1", "--per-query-out", "each"
    )
    assert done.code == 0, done.err
    assert [json.loads(line)["Success@1"] for line in Path("each").read_text().splitlines()] == [1.0, 0.0, 0.0]
    assert "skipped 1 query of the run without judgments" in done.err


def test_gates_end_with_9_and_a_sentence_each(index: Path, gold: Path, retrieve: Program, tmp_path: Path) -> None:
    assert retrieve("eval", "--gold", gold, "--gate", "nDCG@10>=0.1", "--gate", "p95<=100000ms").code == 0
    done = retrieve("eval", "--gold", gold, "--gate", "nDCG@10>=0.999", "--gate", "p95<0ms", "--json")
    assert done.code == 9
    assert json.loads(done.err)["error"]["message"].count("must be") == 2
    assert done.json["queries"] == 3
    baseline = tmp_path / "base.json"
    baseline.write_text(retrieve("eval", "--gold", gold, "--json").out)
    assert retrieve("eval", "--gold", gold, "--baseline", baseline).code == 0
    worse = retrieve("eval", "--gold", gold, "--mode", "bm25", "--baseline", baseline)
    assert worse.code == 9
    assert "the baseline has" in worse.err
    assert retrieve("eval", "--gold", gold, "--mode", "bm25", "--baseline", baseline, "--tolerance", "1").code == 0


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ([], "one set of judged queries"),
        (["--gold", "gold.jsonl", "--beir", "x"], "one set of judged queries"),
        (["--queries", "gold.jsonl"], "one set of judged queries"),
        (["--gold", "nope.jsonl"], "nope.jsonl"),
        (["--gold", "gold.jsonl", "--metrics", "nDGC@10"], "'nDGC@10' is not a metric"),
        (["--gold", "gold.jsonl", "--gate", "nDCG@10"], "is not a gate"),
        (["--gold", "gold.jsonl", "--gate", "p@5>=1"], "hint: add it: --metrics nDCG@10,R@100,RR@10,AP@100,P@5"),
        (["--gold", "gold.jsonl", "--gate", "p96<=300ms"], "did you mean `p95`?"),
        (["--gold", "gold.jsonl", "--gate", "ndgc@10>0.5"], "did you mean `nDCG@10`?"),
        (["--gold", "gold.jsonl", "--baseline", "gold.jsonl"], "is not a baseline"),
        (["--gold", "gold.jsonl", "--mode", "sparse"], "'sparse'"),
    ],
    ids=str,
)
def test_what_cannot_be_meant_is_refused(
    index: Path, gold: Path, retrieve: Program, flags: list[str], message: str
) -> None:
    done = retrieve("eval", *flags)
    assert done.code == 2
    assert message in done.err


def test_measures_are_named_in_any_case_by_metrics_and_gates(index: Path, gold: Path, retrieve: Program) -> None:
    done = retrieve("eval", "--gold", gold, "--metrics", "ndcg@10 p@5 map,rr NDCG@10", "--gate", "NDCG@10>=0.1",
                    "--gate", "map>0", "--gate", "P95<100000ms", "--json")  # fmt: skip
    assert done.code == 0, done.err
    assert list(done.json["metrics"])[:4] == ["nDCG@10", "P@5", "AP", "RR"]
    missed = retrieve("eval", "--gold", gold, "--metrics", "ndcg@10", "--gate", "ndcg@10>1")
    assert missed.code == 9
    assert "nDCG@10 is" in missed.err


def test_judgments_of_another_collection_are_refused(index: Path, retrieve: Program, tmp_path: Path) -> None:
    path = tmp_path / "g.jsonl"
    path.write_text('{"query": "a", "relevant": ["x", "y"]}\n')
    done = retrieve("eval", "--gold", path)
    assert done.code == 2
    assert "none of the 2 relevant ids is in the index" in done.err
    path.write_text('{"query": "a", "relevant": ["lungs", "y"]}\n')
    assert "1 of 2 relevant ids is not in the index" in retrieve("eval", "--gold", path).err


def test_a_leg_that_cannot_run_is_no_result(index: Path, gold: Path, retrieve: Program, monkeypatch) -> None:
    from retrieve_cli.errors import Unavailable
    from retrieve_cli.models.encoders.hashed import HashedEncoder

    def refuse(*_: object) -> None:
        raise Unavailable("the model is gone", hint="fetch it")

    monkeypatch.setattr(HashedEncoder, "encode_queries", refuse)
    done = retrieve("eval", "--gold", gold)
    assert done.code == 6
    assert "dense did not run" in done.err
    assert retrieve("eval", "--gold", gold, "--mode", "bm25").code == 0


@pytest.fixture
def beir(tmp_path: Path, catalog: Path) -> Path:
    """A BEIR folder whose corpus is the catalog."""
    folder = tmp_path / "five tools"
    (folder / "qrels").mkdir(parents=True)
    (folder / "corpus.jsonl").write_text(catalog.read_text())
    (folder / "queries.jsonl").write_text('{"_id": "q1", "text": "lungs in CT"}\n{"_id": "q2", "text": "other"}\n')
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\tlungs\t1\n")
    return folder


def run_hint(retrieve: Program, err: str) -> None:
    """Run the commands of a hint, one after the other."""
    hint = err.partition("hint: index its corpus first: ")[2].strip()
    assert hint
    for command in hint.split(" && "):
        program, *words = shlex.split(command)
        done = retrieve(*words)
        assert (program, done.code) == ("retrieve", 0), done.err
    assert "nDCG@10" in done.out


def test_a_beir_folder_without_an_index_leads_to_the_two_commands_that_work(beir: Path, retrieve: Program) -> None:
    done = retrieve("eval", "--beir", beir)
    assert done.code == 4
    assert not Path("artifacts").exists()
    run_hint(retrieve, done.err)


def test_a_beir_folder_of_another_collection_than_the_index_leads_to_an_index_of_its_own(
    beir: Path, retrieve: Program, tmp_path: Path
) -> None:
    other = tmp_path / "other.jsonl"
    other.write_text('{"id": "x", "name": "something else"}\n')
    assert retrieve("build", "--catalog", other).code == 0
    before = (Path("artifacts") / "current").read_text()
    done = retrieve("eval", "--beir", beir)
    assert done.code == 2
    run_hint(retrieve, done.err)
    assert (Path("artifacts") / "current").read_text() == before


def test_a_query_that_cannot_be_read_fails_alone(index: Path, gold: Path, retrieve: Program) -> None:
    own = retrieve("eval", "--gold", gold, "--json").json
    (wrong := Path("wrong.jsonl")).write_text(
        gold.read_text() + '{"id": "odd", "query": "brain [FILTER:nothing=here]", "relevant": ["cells"]}\n'
    )
    done = succeeds(retrieve("eval", "--gold", wrong, "--metrics", "RR@10", "--json"))
    assert done.json["queries"] == own["queries"] + 1
    assert done.json["unanswered"] == own["unanswered"] + 1
    assert done.json["metrics"]["RR@10"] == pytest.approx(
        own["metrics"]["RR@10"] * own["queries"] / done.json["queries"]
    )
    assert "1 query cannot be read, without results: odd (no record has a field 'nothing')" in done.json["notes"]
    wrong.write_text('{"query": "[FILTER:nothing=here]", "relevant": ["cells"]}\n')
    fails(retrieve("eval", "--gold", wrong), 2, "no record has a field 'nothing'")
