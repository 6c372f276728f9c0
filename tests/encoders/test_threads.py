"""Work spread over threads is all done, once each, and its failures are heard."""

import threading

import pytest

from retrieve_cli.encoders.threads import spread


@pytest.mark.parametrize("threads", [1, 2, 7])
@pytest.mark.parametrize("count", [0, 1, 2, 50])
def test_every_item_is_worked_on_once(threads: int, count: int) -> None:
    done: list[int] = []
    spread(done.append, range(count), threads=threads)
    assert sorted(done) == list(range(count))


def test_items_are_worked_on_side_by_side() -> None:
    meeting = threading.Barrier(3, timeout=60)
    spread(lambda _: meeting.wait() and None, range(3), threads=3)


@pytest.mark.parametrize("count", [1, 9])
def test_a_single_item_or_a_single_thread_stays_on_the_thread_of_the_caller(count: int) -> None:
    seen: set[int] = set()
    spread(lambda _: seen.add(threading.get_ident()), range(count), threads=1 if count > 1 else 8)
    assert seen == {threading.get_ident()}


@pytest.mark.parametrize("threads", [1, 4])
def test_a_failure_of_one_item_is_raised(threads: int) -> None:
    def fail(item: int) -> None:
        if item == 3:
            raise ValueError("three")

    with pytest.raises(ValueError, match="three"):
        spread(fail, range(5), threads=threads)
