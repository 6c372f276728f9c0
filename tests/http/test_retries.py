"""When a request is repeated, and after how long."""

import time

import pytest
from hypothesis import given, strategies as st

from retrieve_cli.http.limits import LONGEST_PAUSE_S, GaveUp, Retries, TransientFailure, persist, retry_after

SECONDS = {"7": 7, " 7 ": 7, "0": 0, "1.5": 1.5, "-3": 0, "-0.5": 0, "86400": 86400}
ABSENT = ["", "soon", "nan", "inf", "1e3", "7 s", "٧", "9" * 400, "9" * 5000]
PAST_OR_IMPOSSIBLE = [
    "Wed, 01 Jan 2020 00:00:00 GMT",
    "Mon, 01 Jan 2024 00:00:00 +99999999999999999999",
    "Mon, 01 Jan 2024 00:00:00 +9999",
    "Mon, 99 Jan 2024 00:00:00 GMT",
    "Mon, 01 Jan 99999999999 00:00:00 GMT",
    "Fri, 31 Dec 0001 23:59:59 +1400",
]


@pytest.mark.parametrize(
    ("value", "seconds"), [*SECONDS.items(), *((value, 0) for value in ABSENT + PAST_OR_IMPOSSIBLE)]
)
def test_a_retry_after_is_seconds_or_counts_as_absent(value: str, seconds: float) -> None:
    assert retry_after(value) == seconds


WORDS = st.sampled_from([*"Mon, 01 Jan 2024 00:00:00 GMT -0500 +99999999999999999999 é \x00 1e999 .".split(), " ", ":"])


@given(st.one_of(st.text(), st.lists(WORDS).map(" ".join), st.lists(WORDS).map("".join)))
def test_whatever_a_server_says_is_a_pause(value: str) -> None:
    assert 0 <= retry_after(value) < float("inf")


@given(st.integers(0, 10**6), st.floats(0, 100), st.floats(0, 1e9))
def test_a_pause_is_never_shorter_than_asked_for_nor_longer_than_the_longest(
    attempt: int, backoff_s: float, after: float
) -> None:
    pause = Retries(9, backoff_s).pause(attempt, after)
    assert min(after, LONGEST_PAUSE_S) <= pause <= LONGEST_PAUSE_S
    assert pause <= max(after, backoff_s * 2.0 ** min(attempt, 64))


@given(st.integers(0, 5), st.integers(0, 9))
def test_an_attempt_is_repeated_until_it_succeeds_or_was_the_last(most: int, failures: int) -> None:
    pauses: list[float] = []
    calls = iter(range(100))

    def attempt() -> str:
        if next(calls) < failures:
            raise TransientFailure("not yet", status=503)
        return "done"

    if failures <= most:
        assert persist(attempt, Retries(most, 1), sleep=pauses.append) == "done"
        assert len(pauses) == failures
    else:
        with pytest.raises(GaveUp, match="not yet") as caught:
            persist(attempt, Retries(most, 1), sleep=pauses.append)
        assert len(pauses) == most
        assert caught.value.status == 503
        assert (f"({most + 1} attempts)" in str(caught.value)) == (most > 0)
        assert caught.value.__context__ is None
    assert all(0.5 * 2**place <= pause <= 2**place for place, pause in enumerate(pauses))


@pytest.mark.parametrize(("after", "until", "said"), [(61, float("inf"), "asks for a pause of 61 s"), (5, 4, "full")])
def test_what_would_have_to_wait_too_long_is_given_up(after: float, until: float, said: str) -> None:
    def attempt() -> None:
        raise TransientFailure("full", after=after)

    pauses: list[float] = []
    with pytest.raises(GaveUp, match=said):
        persist(attempt, Retries(9, 0), sleep=pauses.append, until=time.monotonic() + until)
    assert pauses == []
