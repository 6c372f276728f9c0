"""The log of queries in numbers: how many, how fast and how good, by day; which texts are asked most, which in vain.

It is read a line at a time and may be written to meanwhile. What is kept of it is bounded: latencies to three
significant digits, and as many different texts as `_TEXTS`. A line that is damaged is counted, and the first are named.
"""

from __future__ import annotations

import os
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
"""Of the latencies that are told."""
_SCORES = ("top_score", "avg_score", "mean_similarity", "top_score_change")
_TEXTS = 100_000
_LONGEST = 300
"""Characters of a text: those that begin alike so far count as one."""
_LINE = 16 * files.MB
"""Bytes of a line; what is longer is damaged."""
_NAMED = 10
"""Damaged lines that are named."""


class Damage(NamedTuple):
    """A line that is none of the log."""

    line: int
    why: str


class _Mean:
    """A mean of numbers that are not kept."""

    def __init__(self) -> None:
        self._sum = 0.0
        self._count = 0

    def add(self, value: float | None) -> None:
        if value is not None:
            self._sum += value
            self._count += 1

    @property
    def value(self) -> float | None:
        return self._sum / self._count if self._count else None


@dataclass(slots=True)
class Tally:
    """Queries of some time."""

    queries: int = 0
    empty: int = 0
    """Those that found nothing."""
    relaxed: int = 0
    """Those that were asked again in fewer words."""
    reranked: int = 0
    told: int = 0
    """Those whose line says whether they were relaxed and reranked; lines of earlier versions do not."""
    few: int = 0
    """Those with a warning that candidates were few."""
    total_ms: float = 0.0
    latencies: Counter[float] = field(default_factory=Counter)
    """Number of queries by milliseconds to three significant digits."""
    scores: Mapping[str, _Mean] = field(default_factory=lambda: {name: _Mean() for name in _SCORES})

    def add(self, entry: Mapping[str, Json]) -> None:
        self.queries += 1
        self.empty += not entry["results"]
        self.few += entry.get("warning") is not None
        if "reranked" in entry:
            self.told += 1
            self.reranked += entry["reranked"] is True
            self.relaxed += bool(_number(entry.get("retries")))
        milliseconds = _number(entry["total_ms"]) or 0.0
        self.total_ms += milliseconds
        self.latencies[float(f"{milliseconds:.3g}")] += 1
        for name, mean in self.scores.items():
            mean.add(_number(entry.get(name)))

    def latency(self, share: float) -> float | None:
        """The milliseconds that this share of the queries did not exceed (nearest rank)."""
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
            "reranked_share": self.reranked / self.told if self.told else None,
            **{name: mean.value for name, mean in self.scores.items()},
        }


class QueryLog:
    """Totals of the lines of a log, from some time on."""

    def __init__(self, since: datetime | None = None) -> None:
        self.all = Tally()
        self.damaged: list[Damage] = []
        """The first of them."""
        self.damages = 0
        self._since = since
        self._days: dict[str, Tally] = {}
        self._texts: Counter[str] = Counter()
        self._in_vain: Counter[str] = Counter()
        self._lines = 0
        self._uncounted = 0

    def add(self, line: bytes) -> None:
        """Counts a line."""
        self._lines += 1
        try:
            at, entry = _entry(line)
        except ValueError as error:
            self.damages += 1
            if len(self.damaged) < _NAMED:
                self.damaged.append(Damage(self._lines, str(error)))
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
            self._in_vain[text] += 1

    def to_json(self, most: int) -> dict[str, Json]:
        """All of it, with so many of the texts that were asked most often."""
        days = sorted(self._days.items())
        return {
            "schema_version": SCHEMA_VERSION,
            "since": None if self._since is None else self._since.isoformat(),
            **self.all.to_json(),
            "by_day": [{"day": day, **tally.to_json()} for day, tally in days],
            "frequent": _most(self._texts, most),
            "found_nothing": _most(self._in_vain, most),
            "uncounted_texts": self._uncounted,
            "damaged": {"lines": self.damages, "first": [each._asdict() for each in self.damaged]},
        }


class Follower:
    """A log that is read on from where it was read to; one that was replaced, or cut, is read from its beginning."""

    def __init__(self, path: Path, since: datetime | None = None) -> None:
        self._path = path
        self._since = since
        self._file: tuple[int, int] | None = None
        self._offset = 0
        self.log = QueryLog(since)

    def read(self, most: int | None = None) -> QueryLog:
        """Counts the whole lines that are new, at least one and about `most` bytes of them.

        Raises:
            OSError: there is none, or it cannot be read.
        """
        with files.open_regular(self._path) as file:
            found = os.fstat(file.fileno())
            if self._file != (found.st_dev, found.st_ino) or found.st_size < self._offset:
                self._file, self._offset = (found.st_dev, found.st_ino), 0
                self.log = QueryLog(self._since)
            file.seek(self._offset)
            end = found.st_size if most is None else min(found.st_size, self._offset + most)
            while file.tell() < end and (line := file.readline(_LINE)):
                if most is not None and not line.endswith(b"\n") and len(line) < _LINE:
                    break  # it is being written: the next call reads it
                self._offset = file.tell()
                self.log.add(line)
        return self.log


def read_log(path: Path, since: datetime | None = None) -> QueryLog:
    """The whole log, from some time on.

    Raises:
        UsageError: there is none, or it cannot be read.
    """
    try:
        return Follower(path, since).read()
    except FileNotFoundError as error:
        hint = "log.queries: true in config.yaml keeps one from now on"
        raise UsageError(f"there is no log of queries at {path}", hint=hint) from error
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}", hint="check the path and its rights") from error


def moment(text: str) -> datetime:
    """A date, or a time of a day, as ISO 8601 has it; UTC where it names no zone.

    Raises:
        UsageError: it is neither.
    """
    try:
        return _utc(text)
    except ValueError as error:
        hint = f"for example: --since {date(2026, 1, 31).isoformat()}"
        raise UsageError(f"--since {quoted(text)} is no date", hint=hint) from error


def _utc(text: str) -> datetime:
    at = datetime.fromisoformat(text)
    try:
        return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except OverflowError as error:
        raise ValueError(text) from error


def _entry(line: bytes) -> tuple[datetime, dict[str, Json]]:
    """A line's time, and its keys; of those that older versions do not write none is sure to be there.

    Raises:
        ValueError: it is no line of the log.
    """
    try:
        entry = orjson.loads(line)
    except ValueError as error:
        raise ValueError("not JSON") from error
    _hold(isinstance(entry, dict), "no object")
    try:
        at = _utc(entry["at"])
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError("`at` is no time") from error
    results, milliseconds = entry.get("results"), _number(entry.get("total_ms"))
    _hold(isinstance(entry.get("query"), str), "`query` is no text")
    _hold(isinstance(results, list), "`results` is no list")
    _hold(milliseconds is not None and milliseconds >= 0, "`total_ms` is no number of milliseconds")
    if "top_score" not in entry and results and isinstance(results[0], dict):
        entry["top_score"] = results[0].get("score")
    return at, entry


def _hold(true: bool, why: str) -> None:
    """Raises: ValueError if it is not so."""
    if not true:
        raise ValueError(why)


def _number(value: Json) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and isfinite(value) else None


def _most(texts: Counter[str], most: int) -> list[dict[str, Json]]:
    """The texts that were asked most often, those of equal number in their own order."""
    first = sorted(texts.items(), key=lambda entry: (-entry[1], entry[0]))[:most]
    return [{"query": text, "count": count} for text, count in first]
