"""`retrieve inspect queries`: statistics of the query log."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from program.asking import Configure, refused
from samples import Program

from retrieve_cli.operations.query_log import QueryLog


def line(text: str = "brain", at: str = "2026-03-01T10:00:00+00:00", **more: Any) -> bytes:
    """A line of a log, as it is written."""
    said: dict[str, Any] = {
        "at": at,
        "query": text,
        "results": [{"id": "a", "score": 2.0}],
        "top_score": 2.0,
        "avg_score": 1.0,
        "mean_similarity": 0.5,
        "top_score_change": 0.25,
        "reranked": True,
        "retries": 0,
        "warning": None,
        "total_ms": 10.0,
    }
    return json.dumps({**said, **more}).encode() + b"\n"


def written(*lines: bytes) -> Path:
    """A log at the default place."""
    path = Path("artifacts/runs/queries.jsonl")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(lines))
    return path


def summary(retrieve: Program, *words: object) -> dict[str, Any]:
    """The report on the log."""
    return dict(retrieve("inspect", "queries", *words, "--json").json)


def logged(*lines: bytes) -> QueryLog:
    """A log with these lines, in memory."""
    log = QueryLog()
    for each in lines:
        log.add(each)
    return log


def test_queries_that_were_logged_are_summed_up(
    index: Path, retrieve: Program, stdin: Callable[[str], None], configure: Configure
) -> None:
    configure("log", queries="true")
    stdin("brain\nlungs\nbrain\n")
    retrieve("query", "-")
    retrieve("query", "zebra quokka lynx badger", "--mode", "bm25")
    kept = [json.loads(each) for each in Path("artifacts/runs/queries.jsonl").read_bytes().splitlines()]
    report = summary(retrieve)
    assert (report["queries"], report["empty"], report["relaxed"], report["few_candidates"]) == (4, 1, 1, 4)
    assert report["reranked_share"] == 0.0
    top = [each["top_score"] for each in kept if each["top_score"] is not None]
    assert report["top_score"] == pytest.approx(sum(top) / 3)
    assert report["frequent"][0] == {"query": "brain", "count": 2}
    assert report["found_nothing"] == [{"query": "zebra quokka lynx badger", "count": 1}]
    (day,) = report["by_day"]
    assert {key: day[key] for key in day if key != "day"} == {key: report[key] for key in day if key != "day"}
    text = retrieve("inspect", "queries")
    assert "zebra quokka lynx badger" in text.out
    assert (text.code, text.err) == (0, "")


def test_days_are_those_of_utc_and_since_is_held(retrieve: Program) -> None:
    written(
        line("a", "2026-03-01T23:30:00+00:00"),
        line("b", "2026-03-01T23:30:00-02:00", results=[]),
        line("c", "2026-03-02T12:00:00"),
    )
    days = [(each["day"], each["queries"], each["empty"]) for each in summary(retrieve)["by_day"]]
    assert days == [("2026-03-01", 1, 0), ("2026-03-02", 2, 1)]
    counts = {"2026-03-02": 2, "2026-03-02T12:00": 1, "2026-03-02T12:00:00+02:00": 1, "2026-04-01": 0}
    assert {since: summary(retrieve, "--since", since)["queries"] for since in counts} == counts
    assert "no queries" in retrieve("inspect", "queries", "--since", "2026-04-01").out


def test_damaged_lines_are_counted_and_named(retrieve: Program) -> None:
    wrong = {"at": ("yesterday", None), "query": (None,), "results": (3,), "total_ms": ("fast", -1)}
    values = [line(**{key: value}) for key, given in wrong.items() for value in given]
    bad = [b"garbage\n", b"[1]\n", *values, b"\xff\n", b"[" * 5000 + b"\n", line()[:-20]]
    written(line(), *bad[:-1], line(total_ms=0), bad[-1])
    done = retrieve("inspect", "queries", "--json")
    assert (done.code, done.json["queries"], done.json["damaged"]["lines"]) == (0, 2, len(bad))
    named = done.json["damaged"]["first"]
    assert [each["line"] for each in named] == list(range(2, 12))
    assert named[0]["why"] == "not JSON"
    assert f"note: skipped {len(bad)} damaged lines" in retrieve("inspect", "queries").err


def test_a_text_of_the_log_drives_no_terminal(retrieve: Program) -> None:
    written(line("\x1b[31mred\u2028"))
    for form in ("text", "json"):
        done = retrieve("inspect", "queries", "--format", form)
        assert not {"\x1b", "\u2028"} & set(done.out)


@pytest.mark.parametrize(
    ("words", "message"),
    [([], "log.queries: true"), (["--since", "tomorrow"], "2026-01-31"), (["-n", "-1"], "whole number")],
)
def test_what_cannot_be_meant_is_refused(retrieve: Program, words: list[str], message: str) -> None:
    if words:
        written(line())
    assert message in refused(retrieve, "inspect", "queries", *words)
