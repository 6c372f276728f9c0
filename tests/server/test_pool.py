"""Admission: bounded threads behind a bounded queue."""

import asyncio
from collections.abc import Callable, Coroutine
from threading import Event
from typing import Any

import pytest
from waiting import PATIENCE_S

from retrieve_cli.server.http.pool import Pool
from retrieve_cli.server.http.requests import RejectedRequest


class Client:
    """A request whose client leaves when it is told to."""

    def __init__(self) -> None:
        self.left = asyncio.Event()

    async def receive(self) -> dict[str, Any]:
        await self.left.wait()
        return {"type": "http.disconnect"}


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), PATIENCE_S))


def test_more_requests_than_threads_and_queue_hold_are_told_to_come_again() -> None:
    async def test() -> None:
        pool, going_on = Pool(1, 1), Event()
        jobs = [asyncio.ensure_future(pool.run(Client(), going_on.wait)) for _ in range(2)]  # type: ignore[arg-type]
        await asyncio.sleep(0)
        with pytest.raises(RejectedRequest, match="2 requests are already waiting") as rejected:
            await pool.run(Client(), int)  # type: ignore[arg-type]
        assert rejected.value.status == 503
        assert int(rejected.value.headers["Retry-After"]) >= 1
        going_on.set()
        assert await asyncio.gather(*jobs) == [True, True]
        assert pool.waiting == 0
        assert await pool.run(Client(), int) == 0  # type: ignore[arg-type]
        pool.close()

    run(test)


def test_a_request_that_would_wait_longer_than_its_deadline_is_rejected_at_once() -> None:
    async def test() -> None:
        pool, going_on = Pool(1, 8), Event()
        await pool.run(Client(), Event().wait, 0.05)  # type: ignore[arg-type]
        job = asyncio.ensure_future(pool.run(Client(), going_on.wait))  # type: ignore[arg-type]
        await asyncio.sleep(0)
        with pytest.raises(RejectedRequest, match="more than the deadline of 1 ms"):
            await pool.run(Client(), int, deadline_ms=1)  # type: ignore[arg-type]
        patient = asyncio.ensure_future(pool.run(Client(), int, deadline_ms=60_000))  # type: ignore[arg-type]
        going_on.set()
        assert (await job, await patient) == (True, 0)
        pool.close()

    run(test)


def test_a_request_whose_client_has_left_never_begins() -> None:
    async def test() -> None:
        pool, going_on, ran, client = Pool(1, 8), Event(), Event(), Client()
        first = asyncio.ensure_future(pool.run(Client(), going_on.wait))  # type: ignore[arg-type]
        await asyncio.sleep(0)
        second = asyncio.ensure_future(pool.run(client, ran.set))  # type: ignore[arg-type]
        await asyncio.sleep(0)
        client.left.set()
        with pytest.raises(RejectedRequest) as rejected:
            await second
        assert rejected.value.status == 499
        going_on.set()
        assert await first
        assert await pool.run(Client(), int) == 0  # type: ignore[arg-type]
        assert not ran.is_set()
        pool.close()

    run(test)


def test_an_error_reaches_the_request_and_the_pool_goes_on() -> None:
    async def test() -> None:
        pool = Pool(1, 8)
        with pytest.raises(ValueError, match="invalid literal"):
            await pool.run(Client(), int, "x")  # type: ignore[arg-type]
        assert await pool.run(Client(), int, "7") == 7  # type: ignore[arg-type]
        assert (pool.waiting, pool.busy) == (0, False)
        pool.close()

    run(test)
