"""Limits of requests: a bucket per credential, filled by a clock, in bounded memory."""

import pytest
from hypothesis import given, strategies as st

from retrieve_cli.errors import UsageError
from retrieve_cli.server.auth.scopes import Buckets, read_rate


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize("text", ["20/s", "100/m", "1/h", "5/d", "20/s:50"])
def test_a_rate_is_written_as_it_is_read(text: str) -> None:
    assert str(read_rate(text)) == text


@pytest.mark.parametrize("text", ["", "20", "20/x", "0/s", "-1/s", "1.5/s", "20/s:0", "20/s:", "9999999999/s", "２/s"])
def test_anything_else_is_not_a_rate(text: str) -> None:
    with pytest.raises(UsageError, match="--rate"):
        read_rate(text)


@given(st.lists(st.floats(0, 3), max_size=60))
def test_no_more_than_the_burst_and_the_rate_is_ever_allowed(pauses: list[float]) -> None:
    clock = Clock()
    buckets, rate, allowed = Buckets(clock=clock), read_rate("2/s:4"), 0
    for pause in pauses:
        clock.now += pause
        allowed += buckets.take("a", rate).allowed
    assert allowed <= 4 + 2 * sum(pauses) + 1e-3


def test_workers_share_a_limit() -> None:
    clock = Clock()
    workers = [Buckets(workers=4, clock=clock) for _ in range(4)]
    rate = read_rate("8/s")
    assert sum(buckets.take("a", rate).allowed for buckets in workers for _ in range(10)) == 8
    assert workers[0].take("b", read_rate("1/m")).allowed


def test_memory_is_bounded() -> None:
    buckets, rate = Buckets(most=100), read_rate("1/s")
    for number in range(1000):
        buckets.take(f"caller {number}", rate)
    assert len(buckets) == 100
