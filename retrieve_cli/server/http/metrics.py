"""Metrics of the server, and of the log of queries beside it, as Prometheus reads them.

Labels are the server's own routes, stages, reasons and status codes, and the id of the generation that answers: nothing
of a request gets into one.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from retrieve_cli import __version__
from retrieve_cli.operations.query_log import Follower, query_metrics
from retrieve_cli.output.prometheus import Metric, MetricSample, exposition, histogram
from retrieve_cli.server.http.counts import Counts, Series

if TYPE_CHECKING:
    from retrieve_cli.search.answer import Answer

OTHER = "other"
_PIECE = 64 << 20
"""Bytes of a log that one scrape reads on; the rest is for the next one."""
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_OPENED = "open"
"""The stage that a server does once and not for each query."""

REQUESTS = Series("retrieve_http_requests_total", "counter", "Requests by route and status.", ("route", "status"))
WAITING = Series("retrieve_http_requests_waiting", "gauge", "Requests under way.", of_ended=False)
DURATION = Series(
    "retrieve_http_request_duration_seconds", "histogram", "Time to answer a request, by route.", ("route",), _SECONDS
)
STAGES = Series("retrieve_stage_duration_seconds", "histogram", "Time of a query by stage.", ("stage",), _SECONDS)
DEGRADED = Series("retrieve_degraded_total", "counter", "Stages that a search skipped, by reason.", ("stage", "reason"))
SYNCS = Series("retrieve_syncs_total", "counter", "Syncs of the server, by status.", ("status",))
LAST_SYNC = Series(
    "retrieve_last_successful_sync_timestamp_seconds", "gauge", "Time of the last sync that succeeded, since 1970."
)
SERIES = (REQUESTS, WAITING, DURATION, STAGES, DEGRADED, SYNCS, LAST_SYNC)
SYNCED = ("published", "unchanged", "partial")
"""Statuses of a sync that succeeded."""


class Metrics:
    """Counts the work of a server, over all its processes if they share a folder; follows a log of queries."""

    def __init__(self, folder: Path | None = None, *, query_log: Path | None = None) -> None:
        self._counts = Counts(SERIES, folder)
        self._follower = None if query_log is None else Follower(query_log)
        self._reading = Lock()
        self._generation: tuple[str, int, float | None] | None = None

    def began(self) -> None:
        """Count a request as under way, until `answered`."""
        self._counts.add(WAITING)

    def answered(self, route: str | None, status: int, seconds: float, *, under_way: bool = False) -> None:
        """Count a request that is answered, by the template of its route; None for a path without one. `under_way`
        is true for a request that `began`."""
        if under_way:
            self._counts.add(WAITING, amount=-1.0)
        self._counts.add(REQUESTS, (route or OTHER, str(status)))
        self._counts.observe(DURATION, (route or OTHER,), seconds)

    def stages(self, answers: Iterable[Answer]) -> None:
        """Count the stages of searches: their time, and those that were skipped."""
        skipped: Counter[tuple[str, str]] = Counter()
        for answer in answers:
            for stage, spent_ms in served_ms(answer.timings_ms).items():
                self._counts.observe(STAGES, (stage,), spent_ms / 1000.0)
            skipped.update(answer.skip_kinds.items())
        for labels, count in skipped.items():
            self._counts.add(DEGRADED, labels, count)

    def generation(self, generation: str, *, sequence: int, built: float | None) -> None:
        """Set the generation that answers, and the time at which it was built, in seconds since 1970."""
        self._generation = generation, sequence, built

    def sync(self, status: str) -> None:
        """Count a sync: `published`, `unchanged`, `partial`, or the kind of its failure."""
        self._counts.add(SYNCS, (status,))
        if status in SYNCED:
            self._counts.put(LAST_SYNC, (), time.time())

    def exposition(self) -> str:
        """Return the text of all metrics. It reads files: not for the thread of the server."""
        version = Metric("retrieve_info", "gauge", "The version.", [MetricSample(1, {"version": __version__})])
        return exposition([version, *self._counted(), *self._index(), *self._queries()])

    def close(self) -> None:
        """Let go of the files of counts."""
        self._counts.close()

    def _counted(self) -> list[Metric]:
        totals = self._counts.totals()
        totals = {(WAITING.name, ()): [0.0], **totals}
        return [Metric(series.name, series.kind, series.help, [*_samples(series, totals)]) for series in SERIES]

    def _index(self) -> list[Metric]:
        if self._generation is None:
            return []
        generation, sequence, built = self._generation
        named = MetricSample(1, {"generation": generation})
        age = [] if built is None else [MetricSample(round(time.time() - built, 3))]
        return [
            Metric("retrieve_generation_info", "gauge", "The generation that answers.", [named]),
            Metric(
                "retrieve_generation_sequence", "gauge", "Its number in the index's history.", [MetricSample(sequence)]
            ),
            Metric("retrieve_generation_age_seconds", "gauge", "Time since it was built.", age),
        ]

    def _queries(self) -> list[Metric]:
        if self._follower is None:
            return []
        readable = Metric("retrieve_query_log_up", "gauge", "1 if the log of queries could be read.", [MetricSample(1)])
        try:
            with self._reading:
                return [readable, *query_metrics(self._follower.read(_PIECE))]
        except FileNotFoundError:
            return []
        except OSError:
            return [readable._replace(samples=[MetricSample(0)])]


def served_ms(timings_ms: Mapping[str, float]) -> dict[str, float]:
    """Return milliseconds by stage of a query to an index that was open already."""
    spent = {stage: ms for stage, ms in timings_ms.items() if stage not in (_OPENED, "total")}
    return {**spent, "total": round(sum(spent.values()), 3)}


def _samples(series: Series, totals: Mapping[tuple[str, tuple[str, ...]], list[float]]) -> Iterable[MetricSample]:
    for (name, values), numbers in sorted(totals.items()):
        if name != series.name:
            continue
        labels = dict(zip(series.labels, values, strict=True))
        if series.kind == "histogram":
            yield from histogram(numbers, series.bounds, labels)
        else:
            yield MetricSample(numbers[0], labels)
