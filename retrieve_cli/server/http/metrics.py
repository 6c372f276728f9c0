"""Metrics of the server, as Prometheus reads them.

Labels are the server's own routes, stages, reasons and status codes, and the id of the generation that answers: nothing
of a request gets into one.

Several processes count together in the multiprocess mode of prometheus_client: `SHARED` names their folder, and is set
before the first import of this module. A counted value is in a file at once, so that a killed process loses no count.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import prometheus_client
from prometheus_client import CollectorRegistry, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead
from prometheus_client.registry import Collector

from retrieve_cli.version import __version__

if TYPE_CHECKING:
    from retrieve_cli.search.answer import Answer

prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]  # further series without use

SHARED = "PROMETHEUS_MULTIPROC_DIR"
"""Environment variable with the folder that the processes of a server share."""
OTHER = "other"
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_LAST_SYNC = "retrieve_last_successful_sync_timestamp_seconds"
SYNCED = ("published", "unchanged", "partial")
"""Statuses of a sync that succeeded."""


class Metrics(Collector):
    """Counts the work of a server, over all its processes if they share a folder."""

    def __init__(self) -> None:
        self._registry = own = CollectorRegistry()
        counter = prometheus_client.Counter
        self._requests = counter(
            "retrieve_http_requests", "Requests by route and status.", ["route", "status"], registry=own
        )
        self._waiting = Gauge(
            "retrieve_http_requests_waiting", "Requests under way.", registry=own, multiprocess_mode="livesum"
        )
        self._duration = Histogram(
            "retrieve_http_request_duration_seconds",
            "Time to answer a request, by route.",
            ["route"],
            registry=own,
            buckets=_SECONDS,
        )
        self._stages = Histogram(
            "retrieve_stage_duration_seconds", "Time of a query by stage.", ["stage"], registry=own, buckets=_SECONDS
        )
        self._degraded = counter(
            "retrieve_degraded", "Stages that a search skipped, by reason.", ["stage", "reason"], registry=own
        )
        self._syncs = counter("retrieve_syncs", "Syncs of the server, by status.", ["status"], registry=own)
        self._last_sync: Gauge | None = None  # made at the first success: a gauge that exists has a value
        self._generation: tuple[str, int, float | None] | None = None

    def began(self) -> None:
        """Count a request as under way, until `answered`."""
        self._waiting.inc()

    def answered(self, route: str | None, status: int, seconds: float, *, under_way: bool = False) -> None:
        """Count a request that is answered, by the template of its route; None for a path without one. `under_way`
        is true for a request that `began`."""
        if under_way:
            self._waiting.dec()
        self._requests.labels(route or OTHER, str(status)).inc()
        self._duration.labels(route or OTHER).observe(seconds)

    def stages(self, answers: Iterable[Answer]) -> None:
        """Count the stages of searches: their time, and those that were skipped."""
        skipped: Counter[tuple[str, str]] = Counter()
        for answer in answers:
            for stage, spent_ms in answer.served_ms.items():
                self._stages.labels(stage).observe(spent_ms / 1000.0)
            skipped.update(answer.skip_kinds.items())
        for labels, count in skipped.items():
            self._degraded.labels(*labels).inc(count)

    def generation(self, generation: str, *, sequence: int, built: float | None) -> None:
        """Set the generation that answers, and the time at which it was built, in seconds since 1970."""
        self._generation = generation, sequence, built

    def sync(self, status: str) -> None:
        """Count a sync: `published`, `unchanged`, `partial`, or the kind of its failure."""
        self._syncs.labels(status).inc()
        if status in SYNCED:
            if self._last_sync is None:
                text = "Time of the last sync that succeeded, since 1970."
                self._last_sync = Gauge(_LAST_SYNC, text, registry=self._registry, multiprocess_mode="max")
            self._last_sync.set_to_current_time()

    def exposition(self) -> str:
        """Return the text of all metrics. It reads files: not for the thread of the server."""
        facts = CollectorRegistry()
        facts.register(self)
        return (generate_latest(facts) + generate_latest(self._counted())).decode()

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield facts of this process, which are not added up."""

        def fact(name: str, text: str, value: float, **labels: str) -> GaugeMetricFamily:
            family = GaugeMetricFamily(f"retrieve_{name}", text, labels=list(labels))
            family.add_metric(list(labels.values()), value)
            return family

        yield fact("info", "The version.", 1, version=__version__)
        if self._generation is not None:
            name, sequence, built = self._generation
            yield fact("generation_info", "The generation that answers.", 1, generation=name)
            yield fact("generation_sequence", "Its number in the index's history.", sequence)
            if built is not None:
                age = round(time.time() - built, 3)
                yield fact("generation_age_seconds", "Time since it was built.", age)

    def _counted(self) -> CollectorRegistry:
        """Return the numbers of all processes."""
        folder = os.environ.get(SHARED)
        if folder is None:
            return self._registry
        for path in Path(folder).glob("gauge_live*.db"):
            process = path.stem.rpartition("_")[2]
            try:
                os.kill(int(process), 0)  # sends nothing: it fails if there is no such process
            except ProcessLookupError:
                with suppress(OSError):  # another process has removed it
                    mark_process_dead(int(process), folder)  # type: ignore[no-untyped-call]
        together = CollectorRegistry()
        MultiProcessCollector(together, folder)  # type: ignore[no-untyped-call]
        return together
