"""Spans of time as people write them: 90, 90s, 10m, 1.5h, 2d; off."""

from __future__ import annotations

from retrieve_cli.errors import UsageError, quoted

_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_LONGEST = 366 * 86400.0


def seconds(value: object, what: str) -> float:
    """Return a span of time in seconds; `off` is 0.

    Raises:
        UsageError: it is not a span of time, or longer than a year; the message names `what`.
    """
    text = str(value).strip().lower()
    if value is False or text == "off":
        return 0.0
    number = text[:-1] if text[-1:] in _SECONDS else text
    try:
        span = float(number) * _SECONDS.get(text[-1:], 1.0)
    except ValueError:
        span = -1.0
    if isinstance(value, bool) or not 0 <= span <= _LONGEST:
        raise UsageError(f"{what} takes a span of time, not {quoted(value)}", hint="for example 90s, 10m, 2h, or off")
    return span
