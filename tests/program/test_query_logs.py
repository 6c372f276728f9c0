"""Logs of answers: the lines of `-v`, and the log of queries."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from program.asking import Configure, refused
from samples import Done, Program

PAIR = re.compile(r'(\w+)=(\{.*?\}|\[.*?\]|"(?:[^"\\]|\\.)*"|\S+)')


def events(done: Done) -> list[dict[str, Any]]:
    """The pairs of each answer's line on stderr."""
    assert done.code == 0, done
    lines = [line for line in done.err.splitlines() if line.startswith("event=")]
    return [{key: read(value) for key, value in PAIR.findall(line)} for line in lines]


def read(value: str) -> Any:
    """A value of a pair."""
    if value in ("None", "True", "False"):
        return {"None": None, "True": True, "False": False}[value]
    try:
        return json.loads(value)
    except ValueError:
        return value


def logged(retrieve: Program, *words: object) -> tuple[dict[str, Any], dict[str, Any]]:
    """The one event that is logged of an answer, and the answer."""
    done = retrieve("query", *words, "--json", "-v")
    (event,) = events(done)
    return event, done.json


def lines(index: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (index / "runs" / "queries.jsonl").read_bytes().splitlines()]


# ------------------------------------------------------------------------------------------------------------ -v


def test_each_answer_is_a_line_with_its_numbers(index: Path, retrieve: Program, stdin: Callable[[str], None]) -> None:
    stdin('brain\n{"id": "q 2", "query": "lungs", "filters": ["license=MIT"]}\n')
    done = retrieve("query", "-", "--json", "-v")
    answers = [json.loads(line) for line in done.out.splitlines()]
    for event, answer in zip(events(done), answers, strict=True):
        assert (event["event"], str(event["query"])) == ("answer", answer["query_id"])
        assert event["generation"] == answer["generation"]
        assert event["results"] == answer["total_results"]
        assert event["total_ms"] == answer["timings_ms"]["total"]
        similar = [each["source_scores"]["dense"]["score"] for each in answer["results"]]
        assert event["mean_similarity"] == pytest.approx(sum(similar) / len(similar), abs=1e-4)
        assert (event["retries"], event["moved_by_reranker"], event["skipped"]) == (0, None, [])
    assert [event["candidates"] for event in events(done)] == [
        {"fuse(bm25@200, dense@200)": 5},
        {"fuse(bm25@200, dense@200)": 2},
    ]


def test_few_candidates_are_a_warning_in_the_log_alone(index: Path, retrieve: Program, configure: Configure) -> None:
    def warning(*words: object) -> Any:
        return logged(retrieve, "brain", *words)[0]["warning"]

    assert warning() == "5 candidates, fewer than 8 (log.min_candidates)"
    assert warning("-k", 5) is None  # no more were asked for
    assert warning("-k", 5, "--filter", "license=MIT") == "2 candidates, fewer than 5 (asked for by -k)"
    assert "WARNING pipeline: 5 candidates" in retrieve("query", "brain", "-v").err
    assert retrieve("query", "brain").err == ""
    configure("log", min_candidates=5)
    assert warning() is None
    configure("log", min_candidates=0)
    assert warning("--filter", "license=MIT", "--min-score", 1000) is None


def test_an_id_drives_no_terminal(index: Path, retrieve: Program, stdin: Callable[[str], None]) -> None:
    stdin('{"id": "\\u001b[31m\\u2028", "query": "brain"}')
    done = retrieve("query", "-", "-v")
    assert "\x1b" not in done.err + done.out
    assert "\u2028" not in done.err


# -------------------------------------------------------------------------------------------------- log.queries


@pytest.fixture
def logging(index: Path, configure: Configure) -> Path:
    """An index whose queries are logged."""
    configure("log", queries="true")
    return index


def test_queries_are_logged_only_where_that_is_asked_for_and_for_the_owner_alone(
    index: Path, retrieve: Program, configure: Configure
) -> None:
    retrieve("query", "brain")
    assert not (index / "runs").exists()
    configure("log", queries="true")
    retrieve("query", "brain")
    assert len(lines(index)) == 1
    assert (index / "runs" / "queries.jsonl").stat().st_mode & 0o777 == 0o600
    refused(retrieve, "inspect", "run", "queries.jsonl")  # which is no run


def test_a_line_has_the_question_and_what_it_found(logging: Path, retrieve: Program) -> None:
    answer = retrieve("query", "brain [EXCLUDE:lungs]", "--json").json
    (line,) = lines(logging)
    assert (line["query"], line["clean_query"]) == ("brain [EXCLUDE:lungs]", "brain")
    assert (line["generation"], line["pipeline"]) == (answer["generation"], answer["pipeline"])
    assert line["results"] == [{"id": each["doc_id"], "score": each["score"]} for each in answer["results"]]
    assert line["total_ms"] == answer["timings_ms"]["total"]
    assert line["at"]
    assert line["top_score"] == pytest.approx(answer["results"][0]["score"], abs=1e-6)
    assert line["candidates"] == {"fuse(bm25@200, dense@200)": 4}
    assert (line["retries"], line["reranked"], line["warning"][:12]) == (0, False, "4 candidates")


def test_lines_are_appended_in_order_a_batch_too(
    logging: Path, retrieve: Program, stdin: Callable[[str], None]
) -> None:
    retrieve("query", "first brain")
    stdin("second\n\nthird\nbroken \ud800".encode("utf-8", "surrogatepass"))
    assert retrieve("query", "-").code == 8
    stdin("fourth\n\nfifth\n")
    assert retrieve("query", "-", "--stream").code == 0
    queries = [line["query"] for line in lines(logging)]
    assert queries == ["first brain", "second", "third", "fourth", "fifth"]


def test_two_processes_append_whole_lines(logging: Path, tmp_path: Path) -> None:
    batch = tmp_path / "batch.txt"
    words = "brain volumes and images of cells "
    batch.write_text("".join(f"{words * 40}{number}\n" for number in range(60)))
    command = [sys.executable, "-m", "retrieve_cli", "query", "-", "--mode", "bm25", "-l"]
    running = []
    for _ in range(2):
        with batch.open() as text:
            running.append(subprocess.Popen(command, stdin=text, stdout=subprocess.DEVNULL, cwd=tmp_path))
    assert [process.wait() for process in running] == [0, 0]
    found = sorted(int(line["query"].split()[-1]) for line in lines(logging))
    assert found == sorted([*range(60), *range(60)])


def test_a_log_that_cannot_be_written_withholds_no_answer_and_is_said(logging: Path, retrieve: Program) -> None:
    (logging / "runs").write_text("a file where a folder is to be")
    done = retrieve("query", "brain", "-l")
    assert (done.code, done.out.split()[0]) == (0, "brain")
    assert "note: the query was not logged" in done.err
