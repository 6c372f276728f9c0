"""`--deadline-ms`: an optional step without time is skipped, and the answer says so."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from program.asking import Configure
from samples import Program

from retrieve_cli.config.loading import override
from retrieve_cli.config.settings import Settings
from retrieve_cli.search import deadline
from retrieve_cli.search.deadline import Deadline, Durations
from retrieve_cli.search.plan import optional


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clock]:
    """The clock of deadlines."""
    made = Clock()
    monkeypatch.setattr(deadline, "time", made)
    return made


def ran(durations: Durations, step: str, clock: Clock, *, seconds: float) -> None:
    with Deadline(None, queries=1, spent=0.0, durations=durations).timed(step):
        clock.now += seconds


def test_a_step_is_skipped_if_its_last_run_took_longer_than_what_is_left(clock: Clock) -> None:
    durations = Durations()
    ran(durations, "maxsim", clock, seconds=30.0)  # it loads the model
    time = Deadline(400, queries=1, spent=0.1, durations=durations)
    assert time.left == pytest.approx(0.3)
    assert time.no_room_for("maxsim") is None
    ran(durations, "maxsim", clock, seconds=0.2)
    reason = time.no_room_for("maxsim")
    assert reason is not None
    assert "it took 200 ms the last time, more than the deadline of 400 ms leaves" in reason.message
    assert reason.hint == "raise --deadline-ms"
    assert time.no_room_for("another step") is None
    clock.now += 1.0
    assert "the deadline of 400 ms leaves" in str(time.no_room_for("another step"))


def test_a_batch_has_the_time_of_all_its_queries(clock: Clock) -> None:
    durations = Durations()
    for _ in range(2):
        ran(durations, "maxsim", clock, seconds=0.2)
    assert Deadline(100, queries=1, spent=0.0, durations=durations).no_room_for("maxsim")
    assert Deadline(100, queries=10, spent=0.0, durations=durations).no_room_for("maxsim")
    assert Deadline(300, queries=10, spent=0.0, durations=durations).no_room_for("maxsim") is None


def test_a_step_that_was_slow_a_minute_ago_is_tried_again(clock: Clock) -> None:
    durations = Durations()
    for _ in range(2):
        ran(durations, "dense", clock, seconds=5.0)
    assert Deadline(100, queries=1, spent=0.0, durations=durations).no_room_for("dense")
    clock.now += 61.0
    assert Deadline(100, queries=1, spent=0.0, durations=durations).no_room_for("dense") is None


def test_retrievers_on_a_server_may_go_but_one_that_answers_stays() -> None:
    names = ("bm25", "dense", "splade")
    required = override(Settings(), {"splade": {"policy": "required"}}, where="test")
    assert optional(names, {"dense", "splade"}, Settings()) == ["dense", "splade"]
    assert optional(names, {"dense", "splade"}, required) == ["dense"]
    assert optional(names, set(names), Settings()) == ["dense", "splade"]
    assert optional(("dense",), {"dense"}, Settings()) == []


# ----------------------------------------------------------------------------------------- the program


def test_the_answer_says_what_was_done_and_if_the_time_was_kept(index: Path, retrieve: Program) -> None:
    roomy = retrieve("query", "brain scans", "--json", "--deadline-ms", "60000").json
    assert roomy["deadline"] == {"ms": 60000.0, "met": True, "asked": ["bm25", "dense"], "done": ["bm25", "dense"]}
    assert "deadline" not in retrieve("query", "brain", "--json").json


def test_what_has_no_time_left_is_skipped_and_the_key_is_the_flag(
    index: Path, retrieve: Program, configure: Configure, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Deadline, "left", property(lambda self: None if self._ms is None else 0.0))
    configure("search", deadline_ms=40)
    configure("rerank", backend="cross_encoder", model="no/such-model")
    answer = retrieve("query", "brain", "--json")
    assert answer.json["strategies_used"] == ["bm25", "dense"]
    assert list(answer.json["strategies_skipped"])
    assert answer.json["deadline"]["asked"] == ["bm25", "dense", "cross_encoder"]
    assert answer.json["deadline"]["done"] == ["bm25", "dense"]


@pytest.mark.parametrize("value", ["0", "-5", "nan", "soon"])
def test_a_deadline_that_is_no_time_is_refused(index: Path, retrieve: Program, value: str) -> None:
    done = retrieve("query", "brain", "--deadline-ms", value)
    assert done.code == 2
    assert "deadline" in done.err
