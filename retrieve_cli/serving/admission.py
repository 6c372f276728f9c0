"""Who may ask, how much, and when: the key, the size of the body, and one computation at a time."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from hmac import compare_digest
from typing import TYPE_CHECKING

from retrieve_cli.serving.answers import dumped
from retrieve_cli.serving.requests import Limits, Refused, Work
from retrieve_cli.web.secrets import Secret

if TYPE_CHECKING:
    from starlette.requests import Request


def admit(request: Request, key: Secret | None) -> None:
    """Refuses a request that has not the key, where there is one."""
    if key is None:
        return
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    given = f"Bearer {token.strip()}"
    if scheme.lower() != "bearer" or not compare_digest(given.encode(), key.bearer.encode()):
        raise Refused(401, "the API key is missing or wrong", code="invalid_api_key")


async def read_body(request: Request, limits: Limits) -> bytes:
    """The body, read no further than it may go."""
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > limits.bytes:
            raise Refused(413, f"the body has more than {limits.bytes} bytes", code="too_large")
    return bytes(body)


class Queue:
    """Computes in one thread of its own, so that other requests are answered meanwhile; who waits is counted."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="compute")
        self._waiting = 0

    async def compute(self, work: Work) -> bytes:
        """The answer as JSON, once its turn has come."""
        if self._waiting >= self._limits.waiting:
            raise Refused(503, f"{self._waiting} requests are waiting already: come again", code="busy")
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, lambda: dumped(work()))
        finally:
            self._waiting -= 1

    def close(self) -> None:
        """Drops what has not begun."""
        self._pool.shutdown(wait=False, cancel_futures=True)
