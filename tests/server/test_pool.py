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
