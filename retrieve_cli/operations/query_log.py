"""Statistics of the query log: numbers, latencies and scores by day; frequent queries, and those without results.

It is read line by line and may be written at the same time. Memory is bounded: latencies have three significant
digits, and at most `_TEXTS` different texts. Damaged lines are counted, and the first ones listed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from math import ceil, isfinite
from pathlib import Path
from typing import NamedTuple

import orjson

from retrieve_cli.contracts import Json
from retrieve_cli.errors import UsageError, quoted
from retrieve_cli.untrusted import files

SCHEMA_VERSION = 1
SHARES = (0.5, 0.95)
"""Quantiles of the latencies."""
_SCORES = ("top_score", "avg_score", "mean_similarity", "top_score_change")
_TEXTS = 100_000
_LONGEST = 300
"""Characters of a text that are compared."""
_LINE = 16 * files.MB
"""Bytes of a line; longer ones are damaged."""
_NAMED = 10
"""Damaged lines that are listed."""


class DamagedLine(NamedTuple):
    """A damaged line of the log."""

    line: int
    why: str


@dataclass(slots=True)
class Tally:
    """Counts of queries of some period."""

    queries: int = 0
    empty: int = 0
    """Queries without results."""
    relaxed: int = 0
    """Queries that were retried with fewer terms."""
    reranked: int = 0
    few: int = 0
    """Queries with a warning about few candidates."""
    total_ms: float = 0.0
    latencies: Counter[float] = field(default_factory=Counter)
    """Number of queries by milliseconds to three significant digits."""
    sums: dict[str, float] = field(default_factory=lambda: dict.fromkeys(_SCORES, 0.0))
    scored: Counter[str] = field(default_factory=Counter)
    """Number of queries with each score."""

    def add(self, entry: Mapping[str, Json]) -> None:
        self.queries += 1
        self.empty += not entry["results"]
        self.few += entry.get("warning") is not None
        self.reranked += entry["reranked"] is True
        self.relaxed += bool(_number(entry.get("retries")))
        milliseconds = _number(entry["total_ms"]) or 0.0
        self.total_ms += milliseconds
        self.latencies[float(f"{milliseconds:.3g}")] += 1
        for name in _SCORES:
            if (score := _number(entry.get(name))) is not None:
                self.sums[name] += score
                self.scored[name] += 1

    def mean(self, name: str) -> float | None:
        """Return the mean of a score over the queries that have one."""
        return self.sums[name] / self.scored[name] if self.scored[name] else None

    def latency(self, share: float) -> float | None:
        """Return the latency that this share of the queries did not exceed, in milliseconds (nearest rank)."""
        place = ceil(share * self.queries)
        for milliseconds, count in sorted(self.latencies.items()):
            place -= count
            if place <= 0:
                return milliseconds
        return None

    def to_json(self) -> dict[str, Json]:
        return {
            "queries": self.queries,
            "latency_ms": {f"p{share * 100:.0f}": self.latency(share) for share in SHARES},
            "empty": self.empty,
            "relaxed": self.relaxed,
            "few_candidates": self.few,
            "reranked_share": self.reranked / self.queries if self.queries else None,
            **{name: self.mean(name) for name in _SCORES},
        }


class QueryLog:
    """Statistics of the lines of a log, since some time."""

    def __init__(self, since: datetime | None = None) -> None:
        self.all = Tally()
        self.damaged: list[DamagedLine] = []
        """First damaged lines."""
        self.damages = 0
        self._since = since
        self._days: dict[str, Tally] = {}
        self._texts: Counter[str] = Counter()
        self._without_results: Counter[str] = Counter()
        self._lines = 0
        self._uncounted = 0

    def add(self, line: bytes) -> None:
        """Count a line."""
        self._lines += 1
        try:
            at, entry = _entry(line)
        except ValueError as error:
            self.damages += 1
            if len(self.damaged) < _NAMED:
                self.damaged.append(DamagedLine(self._lines, str(error)))
            return
        if self._since is not None and at < self._since:
            return
        self.all.add(entry)
        self._days.setdefault(at.date().isoformat(), Tally()).add(entry)
        text = " ".join(entry["query"][: 2 * _LONGEST].split())[:_LONGEST]
        if text not in self._texts and len(self._texts) >= _TEXTS:
            self._uncounted += 1
            return
        self._texts[text] += 1
        if not entry["results"]:
            self._without_results[text] += 1

    def to_json(self, most: int) -> dict[str, Json]:
        """Return all statistics, with the `most` most frequent texts."""
        days = sorted(self._days.items())
        return {
            "schema_version": SCHEMA_VERSION,
            "since": None if self._since is None else self._since.isoformat(),
            **self.all.to_json(),
            "by_day": [{"day": day, **tally.to_json()} for day, tally in days],
            "frequent": _most(self._texts, most),
            "found_nothing": _most(self._without_results, most),
            "uncounted_texts": self._uncounted,
            "damaged": {"lines": self.damages, "first": [each._asdict() for each in self.damaged]},
        }


def read_log(path: Path, since: datetime | None = None) -> QueryLog:
    """Return the statistics of the whole log, since some time.

    Raises:
        UsageError: it is missing or cannot be read.
    """
    log = QueryLog(since)
    try:
        with files.open_regular(path) as file:
            while line := file.readline(_LINE):
                log.add(line)
    except FileNotFoundError as error:
        hint = "set log.queries: true in config.yaml to log queries from now on"
        raise UsageError(f"there is no query log at {path}", hint=hint) from error
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}", hint="check the path and its permissions") from error
    return log


def moment(text: str) -> datetime:
    """Return the moment of a date or time in ISO 8601; in UTC if it names no zone.

    Raises:
        UsageError: it is neither.
    """
    try:
        return _utc(text)
    except ValueError as error:
        hint = f"for example: --since {date(2026, 1, 31).isoformat()}"
        raise UsageError(f"--since {quoted(text)} is not a date", hint=hint) from error


def _utc(text: str) -> datetime:
    at = datetime.fromisoformat(text)
    try:
        return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except OverflowError as error:
        raise ValueError(text) from error


def _entry(line: bytes) -> tuple[datetime, dict[str, Json]]:
    """Return the time of a line and its keys.

    Raises:
        ValueError: it is not a line of the log.
    """
    try:
        entry = orjson.loads(line)
    except ValueError as error:
        raise ValueError("not JSON") from error
    _check(isinstance(entry, dict), "not an object")
    try:
        at = _utc(entry["at"])
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError("`at` is not a time") from error
    results, milliseconds = entry.get("results"), _number(entry.get("total_ms"))
    _check(isinstance(entry.get("query"), str), "`query` is not a text")
    _check(isinstance(results, list), "`results` is not a list")
    _check(milliseconds is not None and milliseconds >= 0, "`total_ms` is not a number of milliseconds")
    _check("reranked" in entry, "`reranked` is missing")
    return at, entry


def _check(true: bool, why: str) -> None:
    """Check a condition. Raises: ValueError: it is false."""
    if not true:
        raise ValueError(why)


def _number(value: Json) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and isfinite(value) else None


def _most(texts: Counter[str], most: int) -> list[dict[str, Json]]:
    """Return the most frequent texts, in alphabetical order if equally frequent."""
    first = sorted(texts.items(), key=lambda entry: (-entry[1], entry[0]))[:most]
    return [{"query": text, "count": count} for text, count in first]
