"""Metrics of the server, and of the log of queries beside it, as Prometheus reads them.

Labels are the server's own routes and status codes: nothing of a request gets into one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from pathlib import Path
from threading import Lock

from retrieve_cli import __version__
from retrieve_cli.inspect.query_log import Follower
from retrieve_cli.inspect.query_metrics import query_metrics
from retrieve_cli.output.prometheus import Metric, Sample, exposition

_OTHER = "other"
_PIECE = 64 << 20
"""Bytes of a log that one scrape reads on; the rest is for the next one."""


class Metrics:
    """Counts requests; follows a log of queries if there is one."""

    def __init__(self, routes: Collection[str], *, waiting: Callable[[], int], query_log: Path | None = None) -> None:
        """`waiting` says how many requests are computed, or wait for it."""
        self._routes = frozenset(routes)
        self._waiting = waiting
        self._requests: Counter[tuple[str, int]] = Counter()
        self._follower = None if query_log is None else Follower(query_log)
        self._reading = Lock()

    def count(self, path: str, status: int) -> None:
        """Count a request that is answered. To be called in the thread of the server."""
        self._requests[path if path in self._routes else _OTHER, status] += 1

    def server(self) -> list[Metric]:
        """The metrics of the server. To be called in the thread of the server."""
        answered = [
            Sample(count, {"route": route, "status": str(status)})
            for (route, status), count in sorted(self._requests.items())
        ]
        return [
            Metric("retrieve_info", "gauge", "The version.", [Sample(1, {"version": __version__})]),
            Metric("retrieve_http_requests_total", "counter", "Requests by route and status.", answered),
            Metric("retrieve_http_requests_waiting", "gauge", "Requests under way.", [Sample(self._waiting())]),
        ]

    def exposition(self, server: list[Metric]) -> str:
        """The text of the server's metrics, and of those of the log, which is read on: not for the server's thread."""
        return exposition([*server, *self._queries()])

    def _queries(self) -> list[Metric]:
        if self._follower is None:
            return []
        readable = Metric("retrieve_query_log_up", "gauge", "1 if the log of queries could be read.", [Sample(1)])
        try:
            with self._reading:
                return [readable, *query_metrics(self._follower.read(_PIECE))]
        except FileNotFoundError:
            return []
        except OSError:
            return [readable._replace(samples=[Sample(0)])]
