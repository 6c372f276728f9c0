"""Numbers as people read them: counts with their noun, three significant digits, sizes and ages.

Programs are given exact numbers in JSON.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import floor, isfinite, log10

_DIGITS = 3
_UNITS = ("bytes", "kB", "MB", "GB", "TB", "PB")
_AGES = ((86400 * 365, "year"), (86400 * 30, "month"), (86400, "day"), (3600, "hour"), (60, "minute"))


def count(number: int, noun: str, plural: str = "") -> str:
    """Return a number and its noun: `1 record`, `1,490 chunks`, `2 queries` if the plural is given. A noun that
    ends with s is a plural already."""
    return f"{number:,} {noun if number == 1 else plural or noun.removesuffix('s') + 's'}"


def chance(p: float) -> str:
    """Return a p-value with three decimals."""
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def rounded(value: float) -> str:
    """Return a number with three significant digits, without an exponent: `0.810`, `13.0`, `1,490`."""
    if not isfinite(value):
        return str(value)
    if value == 0:
        return "0"
    text = value
    for _ in range(2):  # rounding may add a digit: 0.9996 is 1.00
        decimals = _DIGITS - 1 - floor(log10(abs(text)))
        text = round(value, decimals)
    return f"{text:,.{max(decimals, 0)}f}"


def size(number: int) -> str:
    """Return a number of bytes in the unit that suits it: `3.33 MB`."""
    value, unit = float(number), 0
    while value >= 999.5 and unit < len(_UNITS) - 1:
        value, unit = value / 1000, unit + 1
    return count(number, "byte") if unit == 0 else f"{rounded(value)} {_UNITS[unit]}"


def age(seconds: float) -> str:
    """Return how long ago something was: `just now`, `8 minutes ago`."""
    for length, unit in _AGES:
        if seconds >= length:
            return f"{count(int(seconds // length), unit)} ago"
    return "just now"


def noun_for(kinds: Iterable[str]) -> str:
    """Return the word for what sources of these kinds hold: `document`, `record`, or `records and documents`."""
    folders = {kind == "docs" for kind in kinds}
    return "records and documents" if len(folders) > 1 else "document" if True in folders else "record"
