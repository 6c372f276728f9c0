"""Ids with white space in TREC runs: encoded in the file, and found again by whoever judges it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ir_measures
import pytest
from hypothesis import given, strategies as st
from samples import Program, write_catalog

from retrieve_cli.errors import UsageError
from retrieve_cli.evaluation.judgments import Topic, read_run
from retrieve_cli.evaluation.runs import matched, read_ids
from retrieve_cli.evaluation.trial import run_lines
from retrieve_cli.output.trec_ids import TrecIds

ODD = [
    "two words",
    "100 % sure",
    "tab\tand\nline",
    "Größe 大 x",
    "a%20b c",
    "50%",
    "größe",
    "a%20b",
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


# ----------------------------------------------------------------------------------------------- encoding


@given(names=st.sets(TEXTS | CLOSE, max_size=8))
def test_every_id_is_one_word_of_its_own_and_the_file_of_ids_gives_it_back(
    names: set[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    ids = TrecIds.of(names, names)
    words = {name: ids.document(name) for name in names}
    assert len(set(words.values())) == len(names)
    assert all(word.split() == [word] and word.isprintable() for word in words.values())
    assert all(word == name for name, word in words.items() if name.isprintable() and name.split() == [name])
    path = tmp_path_factory.mktemp("ids") / "ids.tsv"
    path.write_text(ids.lines(), "utf-8", newline="")
    assert read_ids(path) == ids


@given(scores=st.dictionaries(TEXTS | CLOSE, st.sampled_from([1.0, 0.5]), min_size=1, max_size=6))
def test_a_run_with_its_file_of_ids_is_the_run_that_was_written(
    scores: dict[str, float], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("run") / "run.trec"
    run = {"a query": scores}
    path.write_text(run_lines(run, tag="t"), "utf-8", newline="")
    ids = TrecIds.of(run, scores)
    topics = [Topic("a query", "text", dict.fromkeys(scores, 1))]
    assert matched(read_run(path), topics, ids).run == run


def test_an_id_that_is_written_like_an_encoded_one_stays_another() -> None:
    ids = TrecIds.of([], ["a b", "a%20b"])
    assert ids.document("a%20b") == "a%20b"
    assert ids.document("a b") == "%61%20%62"
    with pytest.raises(UsageError, match="cannot distinguish"):
        TrecIds.of([], ["a b", "a%20b", "%61%20%62"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("document\ta%20b\n", ":1 is not"),
        ("\ndocuments\ta%20b\ta b\n", ":2 is not"),
        ("document\ta%20b\ta \\x\n", "not an id"),
        ("document\ta%20b\ta \\ud800\n", "not an id"),
        ("document\ta%20b\ta b\ndocument\ta%20b\ta c\n", ":2: .* repeated"),
        ("document\ta%20b\ta b\ndocument\tx\ta b\n", ":2: .* repeated"),
    ],
)
def test_a_line_that_is_none_is_refused_with_its_place(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "ids").write_text(text)
    with pytest.raises(UsageError, match=message):
        read_ids(tmp_path / "ids")


# ----------------------------------------------------------------------------------------------- reading


def test_encoded_ids_become_judged_ones_only_where_nothing_else_can_be_meant() -> None:
    topics = [Topic("q 1", "text", {"a b": 1, "50%": 1, "x%20y": 1, "x y": 1})]
    run = {"q%201": {"a%20b": 4.0, "50%25": 3.0, "50%": 2.0, "x%20y": 1.0, "c%20d": 0.5, "%ff": 0.1}}
    found = matched(run, topics, None)
    assert found.run == {"q 1": {"a b": 4.0, "50%25": 3.0, "50%": 2.0, "x%20y": 1.0, "c%20d": 0.5, "%ff": 0.1}}
    assert found.notes[0] == "2 ids of the run are percent-encoded: decoded to judged ids"
    assert "'50%25'" in found.notes[1]
    given_ = matched({"q": {"x%20y": 1.0}}, topics, TrecIds({"q 1": "q"}, {"x y": "x%20y"}))
    assert given_ == ({"q 1": {"x y": 1.0}}, [])


# ------------------------------------------------------------------------------------------ the whole program


def test_a_run_with_odd_ids_has_the_value_of_its_index(odd: Path, retrieve: Program) -> None:
    direct = retrieve("eval", "--gold", odd, "--mode", "bm25", "--run-out", "run", "--trec-ids", "ids", "--json")
    assert metrics(direct)["RR@10"] == 1.0
    assert {len(line.split()) for line in Path("run").read_text().splitlines()} == {6}
    for flags in ([], ["--trec-ids", "ids"]):
        found = metrics(retrieve("eval", "--gold", odd, "--run", "run", *flags, "--json"))
        assert found == metrics(direct)
    Path("copy").write_text(Path("run").read_text())
    fused = retrieve("eval", "--gold", odd, "--run", "run", "--run", "copy", "--json")
    assert metrics(fused)["RR@10"] == 1.0
    beside = retrieve("eval", "--gold", odd, "--mode", "dense", "--with", "run", "--json")
    assert {arm["arm"]: arm["metrics"] for arm in beside.json["arms"]}["run"]["RR@10"] == 1.0


def test_another_judge_finds_every_record_by_the_file_of_ids(odd: Path, retrieve: Program) -> None:
    retrieve("eval", "--gold", odd, "--mode", "bm25", "--run-out", "run", "--trec-ids", "ids")
    ids = read_ids(Path("ids"))
    qrels = {ids.query(f"q {name}"): {ids.document(name): 1} for name in ODD}
    run = list(ir_measures.read_trec_run("run"))
    assert ir_measures.calc_aggregate([ir_measures.RR @ 10], qrels, run) == {ir_measures.RR @ 10: 1.0}
    assert set(ids.documents) == {name for name in ODD if len(name.split()) > 1}


def test_queries_write_the_same_file(odd: Path, retrieve: Program, stdin: Callable[[str], None]) -> None:
    lines = [json.dumps({"id": f"q {name}", "query": f"word{at}"}) for at, name in enumerate(ODD)]
    stdin("\n".join(lines))
    done = retrieve("query", "-", "--mode", "bm25", "--format", "trec", "--trec-ids", "ids")
    assert (done.code, done.err) == (0, "")
    Path("run").write_text(done.out)
    found = metrics(retrieve("eval", "--gold", odd, "--run", "run", "--trec-ids", "ids", "--json"))
    assert found["RR@10"] == 1.0


def test_that_ids_are_encoded_is_said_once_with_the_flag(
    odd: Path, index: Path, retrieve: Program, stdin: Callable[[str], None]
) -> None:
    assert retrieve("query", "lungs", "--format", "trec").err == ""
    stdin('{"id": "two words", "query": "lungs"}\n{"id": "three more words", "query": "brain"}\n')
    done = retrieve("query", "-", "--format", "trec")
    assert done.err.count("--trec-ids FILE") == done.err.count("\n") == 1
    assert "2 ids with white space are percent-encoded" in done.err
    retrieve("build", "--catalog", "odd.jsonl")
    done = retrieve("eval", "--gold", odd, "--run-out", "run")
    assert done.err.count("--trec-ids FILE") == 1
    done = retrieve("eval", "--gold", odd, "--run", "run")
    assert "percent-encoded: decoded to judged ids" in done.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["query", "lungs", "--trec-ids", "ids"], "--format trec"),
        (["eval", "--gold", "gold.jsonl", "--trec-ids", "ids"], "--run or --run-out"),
        (["eval", "--gold", "gold.jsonl", "--run-out", "x", "--trec-ids", "x"], "would overwrite x"),
        (["eval", "--gold", "gold.jsonl", "--run", "x", "--trec-ids", "nowhere"], "nowhere"),
        (["query", "lungs", "--format", "trec", "--trec-ids", "no/such/folder"], "cannot write"),
    ],
)
def test_what_cannot_be_meant_is_refused(odd: Path, retrieve: Program, words: list[str], message: str) -> None:
    Path("x").write_text("q Q0 d 1 1.0 t\n")
    done = retrieve(*words)
    assert (done.code in (1, 2), message in done.err) == (True, True), done
