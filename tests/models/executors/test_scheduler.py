"""The scheduler on a virtual clock: nothing is lost, nobody waits, and a text that ends its workers is found."""

import random

import pytest
from hypothesis import given, settings, strategies as st

from retrieve_cli.models.executors.scheduler import Policy, Scheduler
from tests.models.executors.simulation import Simulation, lengths


def crew(count: int, *, spread: float = 0.2, seed: int = 0) -> dict[str, float]:
    """Workers with tokens per second that differ."""
    chance = random.Random(seed)
    return {f"worker {place}": 16_000 * chance.lognormvariate(0, spread) for place in range(count)}


@pytest.mark.parametrize("count", [1, 2, 4, 8, 16, 32, 64])
def test_workers_of_different_speed_are_busy_nine_tenths_of_the_time_or_more(count: int) -> None:
    texts = lengths(1000 * count, seed=count)
    chance = random.Random(count)
    policy = Policy(window=max(4096, 256 * count))
    outcome = Simulation(crew(count), policy, jitter=lambda: chance.lognormvariate(0, 0.1)).run(texts)
    assert sorted(outcome.results) == sorted(texts)
    assert outcome.efficiency >= 0.9
    assert outcome.encoded <= 1.05 * len(texts)


@pytest.mark.parametrize("count", [8, 64])
def test_one_worker_that_is_twenty_times_as_slow_does_not_hold_up_the_others(count: int) -> None:
    texts = lengths(1000 * count, seed=1)
    speeds = crew(count)
    speeds["worker 0"] /= 20
    outcome = Simulation(speeds, Policy(window=max(4096, 256 * count))).run(texts)
    assert outcome.efficiency >= 0.9
    assert outcome.encoded <= 1.05 * len(texts)


def test_a_worker_that_never_answers_again_is_replaced_by_the_others() -> None:
    texts = lengths(6000, seed=2)
    outcome = Simulation(crew(4), Policy(lease_s=1000), stalls=frozenset({"worker 3"})).run(texts)
    assert sorted(outcome.results) == sorted(texts)
    assert outcome.encoded <= 1.05 * len(texts)
    assert outcome.seconds < 1000


def test_a_worker_alone_that_never_answers_is_ended_after_its_lease() -> None:
    texts = lengths(1000, seed=2)
    outcome = Simulation({"only": 16_000.0}, Policy(lease_s=30), stalls=frozenset({"only"})).run(texts)
    assert sorted(outcome.results) == sorted(texts)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 8), st.integers(0, 2**32), st.integers(1, 1500))
def test_every_text_gets_one_result_whoever_is_killed(count: int, seed: int, number: int) -> None:
    chance = random.Random(seed)
    deaths = {name: [chance.uniform(0, 20) for _ in range(3)] for name in crew(count)}
    texts = lengths(number, seed)
    simulation = Simulation(crew(count), Policy(unit_tokens=2048), deaths=deaths, batch=300)
    outcome = simulation.run(texts)
    assert sorted(outcome.results) == sorted(texts)
    assert outcome.given_up == []


def test_eight_workers_that_are_killed_three_times_each_encode_few_texts_twice() -> None:
    chance = random.Random(5)
    deaths = {name: [chance.uniform(0, 10) for _ in range(3)] for name in crew(8)}
    texts = lengths(20_000, seed=5)
    outcome = Simulation(crew(8), Policy(), deaths=deaths).run(texts)
    assert sorted(outcome.results) == sorted(texts)
    assert outcome.encoded <= 1.05 * len(texts)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 8), st.integers(0, 2**32), st.sets(st.integers(0, 799), max_size=3))
def test_a_text_that_ends_every_worker_is_the_only_one_that_is_given_up(
    count: int, seed: int, poison: set[int]
) -> None:
    texts = lengths(800, seed)
    simulation = Simulation(crew(count), poison=frozenset(poison), batch=300)
    outcome = simulation.run(texts)
    assert {each.text for each in outcome.given_up} == poison
    assert sorted(outcome.results) == sorted(texts.keys() - poison)
    assert {each.reason for each in outcome.given_up} <= {"signal SIGKILL"}


def test_a_worker_that_ends_before_it_begins_is_no_fault_of_its_texts() -> None:
    scheduler = Scheduler()
    scheduler.add({0: 10, 1: 10})
    for place in range(20):
        scheduler.join(f"worker {place}")
        lease = scheduler.next(f"worker {place}", 0.0)
        assert lease is not None
        assert lease.texts == (0, 1)
        scheduler.leave(f"worker {place}", "signal SIGKILL")
    assert scheduler.given_up == []


def test_no_more_texts_are_taken_in_than_the_window_and_a_batch() -> None:
    outcome = Simulation(crew(2), Policy(window=1000), batch=500).run(lengths(5000, seed=3))
    assert 1000 <= outcome.most_open < 1500


def test_the_longest_texts_of_a_batch_come_first_and_batches_in_their_order() -> None:
    scheduler = Scheduler(Policy(unit_tokens=100))
    scheduler.add({0: 10, 1: 90, 2: 50})
    scheduler.add({3: 95, 4: 5})
    scheduler.join("one")
    taken = []
    while (lease := scheduler.next("one", 0.0)) is not None:
        taken.append(lease.texts)
        scheduler.received("one", lease.texts, 1.0)
        scheduler.finished("one", 1.0)
    assert taken == [(1,), (2, 0), (3, 4)]


def test_a_unit_holds_no_more_tokens_than_allowed_unless_a_text_alone_does() -> None:
    texts = {**lengths(500, seed=4), 500: 9000}
    scheduler = Scheduler(Policy(unit_tokens=1000))
    scheduler.add(texts)
    for place in range(200):
        scheduler.join(f"worker {place}")
        lease = scheduler.next(f"worker {place}", 0.0)
        assert lease is None or lease.tokens <= 1000 or lease.texts == (500,)


def test_a_result_that_comes_after_its_text_was_leased_again_counts_once() -> None:
    scheduler = Scheduler()
    scheduler.add({0: 10})
    scheduler.join("one")
    scheduler.join("two")
    assert scheduler.next("one", 0.0) is not None
    scheduler.leave("one", "connection lost")
    assert scheduler.next("two", 1.0) is not None
    assert scheduler.received("one", [0], 2.0) == [0]
    assert scheduler.received("two", [0], 3.0) == []
    assert scheduler.idle


def test_what_a_worker_cannot_encode_is_given_up_with_its_reason() -> None:
    scheduler = Scheduler()
    scheduler.add({0: 10, 1: 10})
    scheduler.join("one")
    for _ in range(20):
        lease = scheduler.next("one", 0.0)
        if lease is None:
            break
        done = [text for text in lease.texts if text != 1] if len(lease.texts) == 1 else []
        scheduler.received("one", done, 1.0)
        scheduler.finished("one", 1.0, "" if done else "it has no numbers")
    assert scheduler.idle
    assert scheduler.given_up == [(1, "it has no numbers")]
