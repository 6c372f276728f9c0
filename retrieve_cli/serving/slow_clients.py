"""Clients that neither send nor read: their connections are closed, so that they cannot use up a server's sockets.

uvicorn itself limits only the time between two requests.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from weakref import WeakKeyDictionary

HEADERS_S = 15.0
"""Seconds for the request line and the headers of a connection's first request."""
BODY_S = 30.0
"""Seconds for the body of a request."""
READING_S = 30.0
"""Seconds in which a client reads nothing of an answer."""


class SlowClients:
    """Connections with an unfinished head or an unread answer, and since when."""

    def __init__(self) -> None:
        self._since: WeakKeyDictionary[Any, tuple[str, float]] = WeakKeyDictionary()

    def close(self, connections: Iterable[Any], now: float) -> None:
        """Close the connections of uvicorn that have been slow for too long; to be called every second or so."""
        for connection in list(connections):
            state = _state(connection)
            if state is None:
                self._since.pop(connection, None)
                continue
            before, since = self._since.get(connection, ("", now))
            if before != state:
                since = now
            self._since[connection] = (state, since)
            if now - since > (HEADERS_S if state == "head" else READING_S):
                connection.transport.abort()


def _state(connection: Any) -> str | None:
    """Return the reason to wait for a client: `head`, `answer`, or None."""
    cycle = connection.cycle
    if cycle is not None and not cycle.response_complete:
        return "answer" if connection.flow.write_paused else None
    return None if connection.timeout_keep_alive_task is not None else "head"
