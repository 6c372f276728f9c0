"""`--deadline-ms`: what has no room in it is left out in the stated order, and the answer says so."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, strategies as st
from program.asking import Configure
from samples import Program
from waiting import pause

from retrieve_cli.config.loading import override
from retrieve_cli.config.settings import Settings
from retrieve_cli.models.encoders.hashed import HashedEncoder
from retrieve_cli.search.deadline import Costs, Deadline, busy_clock
from retrieve_cli.search.plan import needed, sacrifice

ORDER = ["maxsim", "splade", "dense"]


@pytest.fixture
def slow(index: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An index whose encoder takes 50 ms for a query."""
    encode = HashedEncoder.encode_queries

    def slowly(self: HashedEncoder, texts: Sequence[str]) -> Any:
        pause(0.05, why="an encoder that is slow on purpose")
        return encode(self, texts)

    monkeypatch.setattr(HashedEncoder, "encode_queries", slowly)
    return index


def test_a_leg_that_was_too_slow_before_is_left_out_and_the_answer_says_what_was_done(
    slow: Path, retrieve: Program
) -> None:
    roomy = retrieve("query", "brain scans", "--json", "--deadline-ms", "60000").json
    assert roomy["deadline"] == {"ms": 60000.0, "met": True, "asked": ["bm25", "dense"], "done": ["bm25", "dense"]}
    tight = retrieve("query", "brain scans", "--json", "--deadline-ms", "40").json
    assert tight["deadline"]["asked"] == ["bm25", "dense"]
    assert tight["deadline"]["done"] == tight["strategies_used"] == ["bm25"]
    assert "more than the deadline of 40 ms leaves" in tight["strategies_skipped"]["dense"]
    assert "--deadline-ms" in tight["strategies_skipped"]["dense"]
    by_words = retrieve("query", "brain scans", "--json", "--mode", "bm25").json
    assert [hit["doc_id"] for hit in tight["results"]] == [hit["doc_id"] for hit in by_words["results"]]


def test_one_line_on_stderr_and_one_of_the_explanation_say_it_too_and_the_key_is_the_flag(
    slow: Path, retrieve: Program, configure: Configure
) -> None:
    retrieve("query", "brain", "--deadline-ms", "60000")
    configure("search", deadline_ms=40)
    done = retrieve("query", "brain", "--explain")
    assert done.err.count("the dense retriever is skipped: it takes about ") == 1
    assert "deadline of 40 ms" in done.out
    assert ": bm25" in done.out


def test_the_only_leg_runs_whatever_it_takes_and_the_deadline_is_then_not_met(slow: Path, retrieve: Program) -> None:
    found = retrieve("query", "brain", "--json", "--mode", "dense", "--deadline-ms", "20").json
    assert found["strategies_used"] == ["dense"]
    assert found["results"]
    assert found["deadline"]["met"] is False


def test_without_a_deadline_nothing_is_said_of_it_and_nothing_is_kept(index: Path, retrieve: Program) -> None:
    assert "deadline" not in retrieve("query", "brain", "--json").json
    assert not (index / "cache" / "costs.json").exists()


@pytest.mark.parametrize(("queries", "used"), [(1, ["bm25"]), (40, ["bm25", "dense"])])
def test_a_batch_has_the_time_of_all_its_queries(
    index: Path, retrieve: Program, stdin: Any, queries: int, used: list[str]
) -> None:
    (index / "cache").mkdir(exist_ok=True)
    (index / "cache" / "costs.json").write_text('{"dense": [30, 0]}')
    stdin("brain\n" * queries)
    lines = retrieve("query", "-", "--json", "--deadline-ms", "20000").out.splitlines()
    assert [json.loads(line)["strategies_used"] for line in lines] == [used] * queries


@pytest.mark.parametrize("wrong", ["{", "[]", '{"dense": 3}', '{"dense": [-1, 1e99]}', '{"dense": ["a", "b"]}', "\0"])
def test_a_damaged_file_of_costs_is_as_good_as_none(index: Path, retrieve: Program, wrong: str, tmp_path: Path) -> None:
    (index / "cache").mkdir(exist_ok=True)
    (index / "cache" / "costs.json").write_text(wrong)
    assert retrieve("query", "brain", "--json", "--deadline-ms", "60000").json["deadline"]["met"] is True
    assert json.loads((index / "cache" / "costs.json").read_text())["dense"]


def test_an_answer_does_not_wait_until_its_costs_are_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[int] = []
    monkeypatch.setattr(os, "fsync", waited.append)
    costs = Costs(tmp_path / "costs.json")
    costs.record("dense", 0.5, 1)
    costs.save()
    assert Costs(tmp_path / "costs.json").expected("dense", 1) == 0.5
    assert waited == []


@pytest.mark.parametrize("value", ["0", "-5", "nan", "soon"])
def test_a_deadline_that_is_no_time_is_refused(index: Path, retrieve: Program, value: str) -> None:
    done = retrieve("query", "brain", "--deadline-ms", value)
    assert done.code == 2
    assert "deadline" in done.err


@given(st.lists(st.floats(0.0, 2.0), min_size=3, max_size=3), st.floats(1, 4000))
def test_what_goes_is_the_beginning_of_the_order_and_no_more_than_needed(costs: list[float], ms: float) -> None:
    known = Costs(Path("/nonexistent/costs.json"))
    for step, seconds in zip([*ORDER, "search", "results"], [*costs, 0.0, 0.0], strict=True):
        known.record(step, 0.0, 1)
        known.record(step, seconds, 1)
    costs = [known.expected(step, 1) for step in ORDER]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("retrieve_cli.search.deadline.time", SimpleNamespace(perf_counter=lambda: 0.0))
        gone = list(Deadline(ms, queries=1, spent=0.0, costs=known).skipped(ORDER, needed=[]))
    assert gone == ORDER[: len(gone)]
    kept = sum(costs[len(gone) :])
    before = sum(costs[len(gone) - 1 :])
    assert kept <= ms / 1000 or len(gone) == len(ORDER)
    assert not gone or before > ms / 1000


@given(st.lists(st.floats(0.0, 10.0), min_size=1, max_size=8))
def test_one_run_moves_an_expectation_half_way_to_what_it_took(seconds: list[float]) -> None:
    costs = Costs(Path("/nonexistent/costs.json"))
    costs.record("dense", 0.1, 1)
    costs.record("dense", 0.1, 1)
    for each in seconds:
        before = costs.expected("dense", 1)
        costs.record("dense", each, 1)
        assert costs.expected("dense", 1) == pytest.approx((before + each) / 2)


@pytest.mark.skipif(not Path("/proc/thread-self/schedstat").exists(), reason="needs Linux's account of threads")
def test_time_that_another_process_had_the_processor_is_not_a_cost() -> None:
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})  # the other process inherits it: both share one processor
    try:
        with subprocess.Popen([sys.executable, "-Sc", "while True: pass"]) as other:
            begun, busy, used = time.perf_counter(), busy_clock(), time.thread_time()
            while time.thread_time() - used < 0.1:
                pass
            took, counted = time.perf_counter() - begun, busy_clock() - busy
            other.kill()
    finally:
        os.sched_setaffinity(0, cores)
    assert counted < 0.8 * took
    assert counted >= 0.1


def test_what_is_required_stays_and_what_is_asked_for_by_name_may_go() -> None:
    legs = ("bm25", "dense", "splade")
    required = override(Settings(), {"splade": {"policy": "required"}, "rerank": {"policy": "required"}}, where="test")
    assert sacrifice(Settings(), legs, "maxsim") == ["maxsim", "splade", "dense"]
    assert sacrifice(required, legs, "maxsim") == ["dense"]
    assert sacrifice(Settings(), ("dense",), "maxsim") == ["maxsim"]
    assert needed(Settings(), legs, "maxsim", asked=True) == {"maxsim"}
    assert needed(required, legs, "maxsim", asked=False) == {"maxsim", "splade"}
