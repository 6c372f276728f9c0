"""The canonical form of a value: two values of records are equal if their canonical forms are.

A number is what a program prints for one: `2021`, `2021.0`, `-0.5`, `1e+22` are numbers; `007`, `1.10` and `1e1` are
texts, because a code or a version is not the number that it looks like. A date is ISO 8601, with or without a time and
a zone; a time is compared in UTC. Every other text is compared by NFC and case folding.

A person may write a number in any way: `1e6`, `10.50` and `+5` in a request mean the number as well as the text.
"""

from __future__ import annotations

import re
from math import isfinite
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

# Patterns, which are compiled when they are met first: most queries need none of them.
_PRINTED = r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:e[+-]?[0-9]{1,3})?"
_TYPED = r"[+-]?(?:0|[1-9][0-9]*)?(?:\.[0-9]*)?(?:[eE][+-]?[0-9]{1,3})?"
_AMOUNT = r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_DATE = (
    r"([0-9]{4})(?:-([0-9]{1,2})(?:-([0-9]{1,2})"
    r"(?:[Tt ]([0-9]{2}(?::[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,9})?)?)?)([Zz]|[+-][0-9]{2}(?::?[0-9]{2})?)?)?)?)?"
)
_LONGEST = 400
"""Characters of a number; the limit of Python's own conversion is 4,300 digits."""
_WHOLE = 1e21
"""Floats from here on are written with an exponent."""
_AFTER = "\x7f"
"""A character after all characters of dates."""
_DIGITS_END = ":"
"""The character after 9: the first text that no date or number is."""


def canonical(text: str) -> str:
    """Return the form by which a value of a record is compared."""
    if text[:1] in _STARTS and len(text) <= _LONGEST:
        special = _number_text(text) or _date_text(text)
        if special is not None:
            return special
    return folded(text)


def folded(text: str) -> str:
    """Return a text composed (NFC) and case-folded."""
    if text.isascii():
        return text.lower()
    from unicodedata import normalize

    return normalize("NFC", normalize("NFC", text).casefold())


def displayed(text: str) -> str:
    """Return a value as lists of values print it: a number in its canonical form, all else as written."""
    return (_number_text(text) if text[:1] in _STARTS and len(text) <= _LONGEST else None) or text


def meanings(text: str) -> tuple[str, ...]:
    """Return the canonical forms that a person means by a value in a request."""
    forms = [canonical(text)]
    plain = text.strip()
    if len(plain) <= _LONGEST and re.fullmatch(_TYPED, plain) and any(map(str.isdigit, plain)):
        number = float(plain)
        forms += [canonical(repr(number))] if isfinite(number) else []
    return tuple(dict.fromkeys(forms))


def number_of(text: str) -> float | None:
    """Return the number by which a value is ordered: also of `1.10` and `007`; None if it is not a number."""
    number = float(text) if len(text) <= _LONGEST and re.fullmatch(_AMOUNT, text) else None
    return number if number is not None and isfinite(number) else None


def period_of(text: str) -> tuple[str, str] | None:
    """Return the canonical forms between which the dates of a year, a month, a day or a time are; None if the text is
    none of them: `2024-01` has those from `2024-01-` up to but not including `2024-01-\\x7f`."""
    match = re.fullmatch(_DATE, text.strip())
    if match is None:
        return None
    year, month, day, time = match.group(1, 2, 3, 4)
    if day is not None:
        first = _date_text(text.strip())
        if first is not None and time is not None and ":" not in time:
            return (first, f"{first}T01") if "T" not in first else (first[:-2], first[:-2] + _AFTER)
        return None if first is None else (first, first + _AFTER)
    if month is not None and not 1 <= int(month) <= 12:
        return None
    first = f"{year}-" if month is None else f"{year}-{int(month):02}-"
    return first, first + _AFTER


def is_date(text: str) -> bool:
    """Return True if a value is written as a whole date."""
    match = re.fullmatch(_DATE, text)
    return match is not None and match[3] is not None


def seconds_of(text: str) -> float | None:
    """Return a date in seconds since 1970 in UTC; None if the text is not a whole date."""
    if not is_date(text):
        return None
    from datetime import UTC, datetime

    try:
        return datetime.fromisoformat(canonical(text)).replace(tzinfo=UTC).timestamp()
    except (ValueError, OverflowError):
        return None


def dates_from(text: str, operator: str) -> tuple[str, str] | None:
    """Return the canonical forms, from the first up to but not including the last, of the dates that have a relation
    to a period: one of `=`, `>=`, `>`, `<=`, `<`. None: the text is not a date."""
    period = period_of(text)
    if period is None:
        return None
    first, after = period
    return {
        "=": (first, after),
        ">=": (first, _DIGITS_END),
        ">": (after, _DIGITS_END),
        "<=": ("", after),
        "<": ("", first),
    }[operator]


def range_of(text: str) -> tuple[str, str] | None:
    """Return the ends of a range of numbers or dates, both included: `5..10`, `2024-01..2024-06`; else None."""
    low, dots, high = text.partition("..")
    ordered = is_ordered(low) and is_ordered(high) and not high.startswith(".")
    return (low, high) if dots and ordered else None


def is_ordered(text: str) -> bool:
    """Return True if a value can be compared by its order: a number or a date."""
    return number_of(text) is not None or period_of(text) is not None


_STARTS = frozenset("-0123456789")


def _number_text(text: str) -> str | None:
    """Return the canonical form of a number; None if the text is not what a program prints for one."""
    if not re.fullmatch(_PRINTED, text):
        return None
    if "." not in text and "e" not in text:
        return "0" if text == "-0" else text
    number = float(text)
    if repr(number) != text:
        return None
    return str(int(number)) if number.is_integer() and abs(number) < _WHOLE else text


def _date_text(text: str) -> str | None:
    """Return the canonical form of a whole date: padded, its time in UTC, none if that is midnight."""
    match = re.fullmatch(_DATE, text)
    if match is None or match[3] is None:
        return None
    from datetime import date, datetime

    year, month, day, time, zone = match.groups()
    try:
        if time is None:
            return date(int(year), int(month), int(day)).isoformat()
        return _time_text(datetime.fromisoformat(f"{year}-{month:0>2}-{day:0>2}T{time[:15]}{(zone or '').upper()}"))
    except (ValueError, OverflowError):
        return None


def _time_text(moment: datetime) -> str:
    from datetime import UTC

    if moment.tzinfo is not None:
        moment = moment.astimezone(UTC).replace(tzinfo=None)
    text = moment.isoformat()
    if "." in text:
        return text.rstrip("0")
    return text.removesuffix(":00").removesuffix("T00:00")
