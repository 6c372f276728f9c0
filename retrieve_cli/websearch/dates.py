"""Dates with the precision that is known: `2024`, `2024-03`, `2024-03-05` (ISO 8601, reduced precision)."""

from __future__ import annotations

import re
from datetime import date

_ISO = re.compile(r"([0-9]{4})(?:[-/]([0-9]{1,2})(?:[-/]([0-9]{1,2}))?)?(?![0-9])")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_EARLIEST, _LATEST = 1000, 2200


def of_parts(year: str | int, month: str | int = "", day: str | int = "") -> str:
    """Return the date of a year, a month (a number, or a name in English) and a day; parts that make no date are left
    out, empty if the year does not."""
    if not _is_number(year) or not _EARLIEST <= int(year) <= _LATEST:
        return ""
    name = str(month).strip().lower()[:3]
    number = _MONTHS.index(name) + 1 if name in _MONTHS else int(month) if _is_number(month) else 0
    if not 1 <= number <= 12:
        return f"{int(year):04}"
    try:
        return date(int(year), number, int(day)).isoformat() if _is_number(day) else f"{int(year):04}-{number:02}"
    except ValueError:
        return f"{int(year):04}-{number:02}"


def of_text(text: str) -> str:
    """Return the date with which a text begins: `2024`, `2024-03`, `2024/3/5`, `2024-03-05T10:00:00Z`; else empty."""
    found = _ISO.match(text.strip()[:40])
    return of_parts(found[1], found[2] or "", found[3] or "") if found else ""


def first_day(since: str) -> str:
    """Return the first day of a year, a month or a day, as `2024-01-01`; empty for an empty text."""
    return since + "-01-01"[len(since) - 4 :] if since else ""


def is_since(text: str, since: str) -> bool:
    """Return True if a date is `since` or later as far as both are known; an unknown date is."""
    size = min(len(text), len(since))
    return text[:size] >= since[:size]


def _is_number(value: str | int) -> bool:
    said = str(value).strip()
    return said.isascii() and said.isdecimal() and len(said) < 5
