"""`retrieve inspect queries`, and the same numbers as Prometheus reads them."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from program.asking import Configure, refused
from samples import Program

from retrieve_cli.operations.query_log import Follower, QueryLog

SAMPLE = re.compile(r'([a-z_]+)(\{[a-z]+="[^"\n]*"(?:,[a-z]+="[^"\n]*")*\})? (\S+)')


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


def numbers(text: str) -> dict[str, float]:
    """The samples of an exposition; every other line is a comment."""
    found = {}
    for row in text.splitlines():
        if not row.startswith(("# HELP ", "# TYPE ")):
            match = SAMPLE.fullmatch(row)
            assert match is not None, row
            found[match[1] + (match[2] or "")] = float(match[3])
    return found


# ----------------------------------------------------------------------------------------------- summary


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


# --------------------------------------------------------------------------------------------- prometheus


def test_prometheus_has_the_numbers_and_no_text(retrieve: Program) -> None:
    secret = "who earns what"
    written(line(secret), line(secret, results=[], top_score=None, retries=2, total_ms=30), line(secret, warning="few"))
    done = retrieve("inspect", "queries", "--format", "prometheus")
    found = numbers(done.out)
    assert secret not in done.out
    assert found == {
        "retrieve_queries_total": 3,
        "retrieve_queries_empty_total": 1,
        "retrieve_queries_relaxed_total": 1,
        "retrieve_queries_reranked_total": 3,
        "retrieve_queries_few_candidates_total": 1,
        'retrieve_query_duration_seconds{quantile="0.5"}': 0.01,
        'retrieve_query_duration_seconds{quantile="0.95"}': 0.03,
        "retrieve_query_duration_seconds_sum": pytest.approx(0.05),
        "retrieve_query_duration_seconds_count": 3,
        "retrieve_query_top_score": 2,
        "retrieve_query_avg_score": 1,
        "retrieve_query_mean_similarity": 0.5,
        "retrieve_query_top_score_change": 0.25,
        "retrieve_query_log_damaged_lines": 0,
    }


# ------------------------------------------------------------------------------------------------- following


def test_a_log_is_read_on_from_where_it_was_read_to_or_from_its_beginning_where_it_was_replaced() -> None:
    log = Path("log")
    log.write_bytes(line() * 3)
    follower = Follower(log)
    assert follower.read(10**6).all.queries == 3
    with log.open("ab") as file:
        file.write(line()[:20])
        file.flush()
        assert follower.read(10**6).all.queries == 3  # half a line is not read yet
        file.write(line()[20:])
    assert follower.read(10**6).all.queries == 4
    assert follower.log.damages == 0
    log.write_bytes(line())
    assert follower.read().all.queries == 1
    log.with_name("new").write_bytes(line() * 5)
    log.with_name("new").replace(log)
    assert follower.read().all.queries == 5
