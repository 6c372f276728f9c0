"""Metrics of the server, and of the log of queries beside it, as Prometheus reads them.

Labels are the server's own routes, stages, reasons and status codes, and the id of the generation that answers: nothing
of a request gets into one.

Numbers that several processes count together: each has its own mapped file, and a reader adds them up.

A counted value is in the file at once, so that a counter never falls from one scrape to the next, no matter which
process answers it, nor when a process is killed. A process that ends leaves its file to the next one that starts, which
counts on from there. Without a folder the numbers are in memory.

This is not the multiprocess mode of prometheus_client: an environment variable chooses that mode for a whole program
before the first import, and it would print a second exposition beside `retrieve inspect queries --format prometheus`.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from struct import Struct
from threading import Lock
from typing import TYPE_CHECKING, Literal, NamedTuple

from retrieve_cli.operations.query_log import Follower, query_metrics
from retrieve_cli.output.prometheus import Metric, MetricSample, exposition, histogram
from retrieve_cli.version import __version__

if TYPE_CHECKING:
    from retrieve_cli.search.answer import Answer


_SIZE = 1 << 20
"""Bytes of a file: thousands of numbers. It is sparse: only used pages take space."""
_USED, _HEAD, _FLOAT = Struct("<Q"), Struct("<II"), Struct("<d")
_SPLIT = "\x1f"
_MOST_FILES = 4096


class Series(NamedTuple):
    """Numbers of one name, by the values of their labels."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    labels: tuple[str, ...] = ()
    bounds: tuple[float, ...] = ()
    """Upper bounds of a histogram's buckets."""
    of_ended: bool = True
    """True if the numbers of processes that have ended count as well."""

    @property
    def width(self) -> int:
        """Numbers of one set of labels: of a histogram those in each bucket, those above all of them, and the sum."""
        return len(self.bounds) + 2 if self.kind == "histogram" else 1


Totals = Mapping[tuple[str, tuple[str, ...]], list[float]]
"""Numbers by name and labels; of gauges the sum, or the highest of those that count beyond their process."""


class Counts:
    """Numbers of this process, in a file in `folder` if it is shared with others. Threads may share one."""

    def __init__(self, series: Iterable[Series], folder: Path | None = None) -> None:
        self._series = {one.name: one for one in series}
        self._folder, self._lock = folder, Lock()
        self._descriptor = None if folder is None else _own_file(folder)
        self._memory = mmap.mmap(-1 if self._descriptor is None else self._descriptor, _SIZE)
        self._numbers = memoryview(self._memory).cast("d")
        self._places: dict[str, int] = {}
        for key, place, width in _entries(self._memory):
            self._places[key] = place // _FLOAT.size
            if not self._known(key, width).of_ended:
                self._numbers[self._places[key]] = 0.0

    def add(self, series: Series, labels: tuple[str, ...] = (), amount: float = 1.0) -> None:
        """Add to a counter or a gauge."""
        with self._lock:
            if (place := self._place(series, labels)) is not None:
                self._numbers[place] += amount

    def put(self, series: Series, labels: tuple[str, ...], value: float) -> None:
        """Set a gauge."""
        with self._lock:
            if (place := self._place(series, labels)) is not None:
                self._numbers[place] = value

    def observe(self, series: Series, labels: tuple[str, ...], value: float) -> None:
        """Add a value to a histogram."""
        with self._lock:
            if (place := self._place(series, labels)) is not None:
                self._numbers[place + bisect_left(series.bounds, value)] += 1.0
                self._numbers[place + len(series.bounds) + 1] += value

    def totals(self) -> Totals:
        """Return the numbers of all processes. Reads files: not for the thread of the server."""
        totals: dict[tuple[str, tuple[str, ...]], list[float]] = {}
        with self._lock:
            own = bytes(self._memory[: _used(self._memory)])
        for contents, alive in [(own, True), *self._others()]:
            for key, place, width in _entries(contents):
                series = self._known(key, width)
                if series.name == "" or not (alive or series.of_ended):
                    continue
                numbers = [_FLOAT.unpack_from(contents, place + _FLOAT.size * at)[0] for at in range(width)]
                name, *labels = key.split(_SPLIT)
                before = totals.setdefault((name, tuple(labels)), [0.0] * width)
                merge = max if series.kind == "gauge" and series.of_ended else float.__add__
                before[:] = [merge(one, other) for one, other in zip(before, numbers, strict=True)]
        return totals

    def close(self) -> None:
        """Leave the file to the next process."""
        self._numbers.release()
        self._memory.close()
        if self._descriptor is not None:
            os.close(self._descriptor)

    def _known(self, key: str, width: int) -> Series:
        """The series of a key; a nameless series for keys of another version."""
        series = self._series.get(key.partition(_SPLIT)[0])
        return series if series is not None and series.width == width else Series("", "counter", "")

    def _place(self, series: Series, labels: tuple[str, ...]) -> int | None:
        """Place of the first number; None if the file is full."""
        key = _SPLIT.join((series.name, *labels))
        if (place := self._places.get(key)) is not None:
            return place
        name = key.encode("utf-8", "replace")
        used = _used(self._memory)
        start = used + _HEAD.size + len(name) + -len(name) % _FLOAT.size
        end = start + _FLOAT.size * series.width
        if end > _SIZE:
            return None
        _HEAD.pack_into(self._memory, used, len(name), series.width)
        self._memory[used + _HEAD.size : used + _HEAD.size + len(name)] = name
        _USED.pack_into(self._memory, 0, end)  # last: a reader sees whole entries
        self._places[key] = start // _FLOAT.size
        return self._places[key]

    def _others(self) -> Iterator[tuple[bytes, bool]]:
        """Contents of the files of other processes, and True for each process that runs."""
        if self._folder is None or self._descriptor is None:
            return
        own = os.fstat(self._descriptor).st_ino
        for path in sorted(self._folder.glob("*.counts"))[:_MOST_FILES]:
            with suppress(OSError, ValueError), path.open("rb") as file:
                if os.fstat(file.fileno()).st_ino == own or len(head := file.read(_USED.size)) < _USED.size:
                    continue
                contents = head + file.read(min(_used(head), _SIZE) - len(head))
                yield contents, not _lock(file.fileno(), fcntl.LOCK_SH)


def _own_file(folder: Path) -> int:
    """Open the first file in `folder` that no running process has, locked for as long as this process lives."""
    for number in range(_MOST_FILES):
        descriptor = os.open(folder / f"{number}.counts", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if _lock(descriptor, fcntl.LOCK_EX):
            os.ftruncate(descriptor, _SIZE)
            return descriptor
        os.close(descriptor)
    raise OSError(f"{folder} has {_MOST_FILES} files that are in use")


def _lock(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _used(contents: bytes | mmap.mmap) -> int:
    """Used bytes, including the bytes of this number."""
    return max(int(_USED.unpack_from(contents, 0)[0]), _USED.size)


def _entries(contents: bytes | mmap.mmap) -> Iterator[tuple[str, int, int]]:
    """Yield the key of each entry, the place of its first number in bytes, and how many numbers it has."""
    at, end = _USED.size, min(_used(contents), len(contents))
    while at + _HEAD.size <= end:
        length, width = _HEAD.unpack_from(contents, at)
        start = at + _HEAD.size + length + -length % _FLOAT.size
        if start + _FLOAT.size * width > end:
            return
        yield contents[at + _HEAD.size : at + _HEAD.size + length].decode("utf-8", "replace"), start, width
        at = start + _FLOAT.size * width


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
        totals = {(WAITING.name, ()): [0.0], **self._counts.totals()}
        counted = [Metric(series.name, series.kind, series.help, [*_samples(series, totals)]) for series in SERIES]
        return exposition([version, *counted, *self._index(), *self._queries()])

    def close(self) -> None:
        """Let go of the files of counts."""
        self._counts.close()

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
        except OSError as error:
            missing = isinstance(error, FileNotFoundError)
            return [] if missing else [readable._replace(samples=[MetricSample(0)])]


def served_ms(timings_ms: Mapping[str, float]) -> dict[str, float]:
    """Return milliseconds by stage of a query to an index that was open already."""
    spent = {stage: ms for stage, ms in timings_ms.items() if stage not in (_OPENED, "total")}
    return {**spent, "total": round(sum(spent.values()), 3)}


def _samples(series: Series, totals: Totals) -> Iterable[MetricSample]:
    for (name, values), numbers in sorted(totals.items()):
        if name != series.name:
            continue
        labels = dict(zip(series.labels, values, strict=True))
        if series.kind == "histogram":
            yield from histogram(numbers, series.bounds, labels)
        else:
            yield MetricSample(numbers[0], labels)
