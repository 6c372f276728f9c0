"""What goes wrong around an evaluation: said with file and line, before any work, and without a crash."""

import os
import stat
from pathlib import Path

import pytest
from samples import Program, write_catalog

from retrieve_cli.storage import durable

LINES = [
    {"id": "q1", "query": "lungs in CT", "relevant": ["lungs"]},
    {"id": "q2", "query": "counts cells", "relevant": ["cells"]},
    {"id": "q3", "query": "zqxv wqzk", "relevant": ["align"]},
]


@pytest.fixture
def gold(index: Path, tmp_path: Path) -> Path:
    return write_catalog(tmp_path / "gold.jsonl", LINES)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"id": "q\\ud800", "query": "a", "relevant": ["lungs"]}', "half of a character"),
        ('{"query": "a", "relevant": ["\\ud800"]}', "half of a character"),
        ('{"query": "\\ud800 lung", "relevant": ["lungs"]}', "half of a character"),
        ('{"id": "q\\u0000a", "query": "a", "relevant": ["lungs"]}', "is not an id"),
        ('{"query": "a", "relevant": {"lungs": 2147483647}}', "is not a grade"),
        ('{"query": "a", "relevant": {"lungs": -2000}}', "is not a grade"),
        ('{"query": "a", "relevant": {"lungs": 3, "lungs": 0}}', "the key 'lungs' is repeated"),
    ],
)
def test_what_would_bring_the_measures_down_is_refused_with_its_line(
    gold: Path, retrieve: Program, line: str, message: str
) -> None:
    gold.write_text(gold.read_text() + line + "\n")
    done = retrieve("eval", "--gold", gold)
    assert done.code == 2
    assert f"{gold}:4" in done.err
    assert message in done.err


@pytest.mark.parametrize("score", ["nan", "inf", "1e400", "1_000", ""])
def test_scores_of_a_run_are_numbers(gold: Path, retrieve: Program, score: str) -> None:
    Path("run").write_text(f"q1 Q0 lungs 1 {score} x\n")
    done = retrieve("eval", "--gold", gold, "--run", "run")
    assert done.code == 2
    assert "run:1" in done.err


@pytest.mark.parametrize("names", ["AP SetF NumRet NumRelRet Bpref infAP Rprec", "Judged@10 Success@1"])
def test_measures_of_queries_without_an_answer_end_well(gold: Path, retrieve: Program, names: str) -> None:
    done = retrieve("eval", "--gold", gold, "--mode", "bm25", "--metrics", names, "--json")
    assert done.code == 0, done.err
    assert done.json["unanswered"] == 1


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--metrics", ""], "no metric is named"),
        (["--metrics", "nDCG@0"], "looks at no rank"),
        (["--metrics", "nDCG@99999999999999999999"], "looks at no rank"),
        (["--metrics", "ndgc@10"], "did you mean `nDCG@10`"),
        (["--tolerance", "nan"], "--tolerance is nan"),
        (["--tolerance", "-1"], "--tolerance is -1"),
        (["--ablate", "--latency-budget-ms", "nan"], "--latency-budget-ms is nan"),
        (["--with", "fusion.method=["], "no valid YAML"),
        (["--with", "fusion.method=!!python/object:x y"], "no valid YAML"),
        (["--run-out", "artifacts"], "is a folder"),
        (["--report", "gold.jsonl"], "is a file"),
        (["--run-out", "gold.jsonl"], "would overwrite gold.jsonl"),
        (["--run-out", "x", "--per-query-out", "x"], "would overwrite x"),
        (["--with", "broken.run"], "broken.run:1"),
    ],
    ids=str,
)
def test_what_cannot_be_done_is_refused_before_any_work(
    gold: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch, flags: list[str], message: str
) -> None:
    Path("broken.run").write_text("no run\n")
    if "--latency-budget-ms" not in flags:
        monkeypatch.setattr("retrieve_cli.evaluation.runs.evaluate", None)
    done = retrieve("eval", "--gold", gold.name, *flags)
    assert done.code == 2, done.err
    assert message.replace("no valid", "not valid") in done.err
    assert gold.read_text().count("\n") == 3


def test_queries_that_ask_for_nothing_measurable_are_an_error(retrieve: Program, tmp_path: Path) -> None:
    plain = write_catalog(tmp_path / "c.jsonl", [{"id": "a", "name": "lungs"}, {"id": "b", "name": "cells"}])
    assert retrieve("build", "--catalog", plain, "--artifacts", "plain").code == 0
    gold = write_catalog(tmp_path / "g.jsonl", [{"query": "lungs", "group": "radiology"}])
    done = retrieve("eval", "--gold", gold, "--artifacts", "plain")
    assert done.code == 2
    assert "these queries have no judgments that can be measured" in done.err


def test_every_judged_query_is_counted_and_each_measure_says_of_how_many_it_speaks(
    gold: Path, retrieve: Program
) -> None:
    write_catalog(gold, [*LINES, {"query": "brain MRI", "group": "radiology"}])
    found = retrieve("eval", "--gold", gold, "--json").json
    assert found["queries"] == 4
    assert (found["measured"]["nDCG@10"], found["measured"]["group@1"]) == (3, 1)


def test_notes_reach_who_reads_json(gold: Path, retrieve: Program) -> None:
    gold.write_text(gold.read_text() + '{"query": "a", "relevant": ["nowhere"], "synthetic": "titles"}\n')
    notes = " ".join(retrieve("eval", "--gold", gold, "--json").json["notes"])
    assert "1 of 4 relevant ids is not in the index" in notes
    assert "1 of 4 queries is synthetic" in notes


# ------------------------------------------------------------------------------------------ files of users


def test_a_file_is_written_through_links_and_keeps_its_rights(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("old")
    target.chmod(0o600)
    link.symlink_to("target")
    durable.put(link, "new\r\n")
    assert link.is_symlink()
    assert target.read_bytes() == b"new\r\n"
    assert stat.S_IMODE(target.stat().st_mode) == 0o600


def test_what_is_no_plain_file_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    import threading

    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    heard: list[str] = []
    reader = threading.Thread(target=lambda: heard.append(pipe.read_text()))
    reader.start()
    durable.put(pipe, "said")
    reader.join()
    assert heard == ["said"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    durable.put(Path("/dev/null"), "nothing")
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)
