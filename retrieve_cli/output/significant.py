"""Numbers for people: three significant digits."""

from __future__ import annotations

from math import floor, isfinite, log10


def significant(value: float, digits: int = 3) -> str:
    """Return a number with so many significant digits, without an exponent unless it is tiny or huge."""
    if not isfinite(value) or value == 0:
        return f"{value:g}"
    shown = float(f"{value:.{digits - 1}e}")
    exponent = floor(log10(abs(shown)))
    if not -5 <= exponent < 9:
        return f"{value:.{digits - 1}e}"
    return f"{shown:.{max(digits - 1 - exponent, 0)}f}"


def percent(share: float) -> str:
    """Return a share as `87 %`."""
    return f"{share * 100:.0f} %"
