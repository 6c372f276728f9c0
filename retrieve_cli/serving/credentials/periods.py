"""Ends of validity: as a period from now, or as a date."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta

from retrieve_cli.errors import UsageError, quoted

_PERIOD = re.compile(r"([0-9]{1,6})([mhdwy])")
_UNITS = {
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
    "w": timedelta(weeks=1),
    "y": timedelta(days=365),
}


def read_end(text: str, now: datetime) -> datetime | None:
    """Return the time until which something is valid: `90d`, `2027-01-31` (the end of that day, UTC); None for `never`.

    Raises:
        UsageError: it is not written so, or not in the future.
    """
    word = text.strip().lower()
    if word == "never":
        return None
    end = _end(word, now)
    if end is None:
        raise UsageError(f"--expires is {quoted(text)}, not a period or a date", hint="90d, 12h, 2027-01-31 or never")
    if end <= now:
        raise UsageError(f"--expires is {quoted(text)}, which is not in the future", hint="90d, 12h or never")
    return end


def written(time: datetime) -> str:
    """Return a time as ISO 8601 has it, in UTC."""
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def read_time(text: str) -> datetime:
    """Return a time that `written` wrote. Raises: ValueError."""
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)


def _end(word: str, now: datetime) -> datetime | None:
    try:
        if (match := _PERIOD.fullmatch(word)) is not None:
            return now + int(match[1]) * _UNITS[match[2]]
        day = date.fromisoformat(word)
        return datetime(day.year, day.month, day.day, tzinfo=UTC) + timedelta(days=1)
    except (ValueError, OverflowError):
        return None
