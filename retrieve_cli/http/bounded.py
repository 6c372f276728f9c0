"""An asynchronous HTTP client whose answers are bounded together: for the SDK of the Model Context Protocol."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping

import httpx2

from retrieve_cli.http.limits import ByteAllowance


class _Counted(httpx2.AsyncByteStream):
    def __init__(self, inner: httpx2.AsyncByteStream, allowance: ByteAllowance) -> None:
        self._inner, self._allowance = inner, allowance

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._inner:
            self._allowance.take(len(piece))
            yield piece

    async def aclose(self) -> None:
        await self._inner.aclose()


def bounded_client(headers: Mapping[str, str], *, allowance: ByteAllowance, seconds: float) -> httpx2.AsyncClient:
    """Return a client whose answers use up the allowance while they arrive. A compressed one is rejected: its size does
    not tell how much memory it takes."""

    async def count(response: httpx2.Response) -> None:
        allowance.status = response.status_code
        if response.headers.get("Content-Encoding", "identity").lower() != "identity":
            raise httpx2.DecodingError("the answer is compressed, although that was not asked for")
        if isinstance(response.stream, httpx2.AsyncByteStream):
            response.stream = _Counted(response.stream, allowance)

    sent = {**headers, "Accept-Encoding": "identity"}
    return httpx2.AsyncClient(headers=sent, timeout=seconds, event_hooks={"response": [count]})
