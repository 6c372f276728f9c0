"""Repeated attempts: which answers may pass, how long to pause, when to give up."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from math import inf, isfinite
from typing import TypeVar

from retrieve_cli.web.failures import Passing

T = TypeVar("T")

PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Statuses of a server that may be well again in a moment."""
LONGEST_PAUSE_S = 60.0
_SECONDS = re.compile(r"-?[0-9]+(\.[0-9]+)?")


@dataclass(frozen=True, slots=True)
class Retries:
    """How often a request is repeated."""

    most: int
    """Attempts after the first one."""
    backoff_s: float
    """First pause; each one after is twice as long, and all are shortened at random so that clients spread out."""

    def pause(self, attempt: int, after: float) -> float:
        """Seconds before the attempt that follows `attempt`, from 0; `after` is what the server asks for."""
        backoff = self.backoff_s * 2.0 ** min(attempt, 64) * random.uniform(0.5, 1)  # noqa: S311  jitter is no secret
        return min(max(backoff, after), LONGEST_PAUSE_S)


class GaveUp(Exception):
    """No attempt succeeded. The message says what the last one met, and how many there were."""

    def __init__(self, last: Passing, *, attempts: int) -> None:
        asked = f"; it asks for a pause of {last.after:g} s" if last.after > LONGEST_PAUSE_S else ""
        super().__init__(f"{last}{asked}" + (f" ({attempts} attempts)" if attempts > 1 else ""))
        self.status = last.status


def persist(
    attempt: Callable[[], T],
    retries: Retries,
    *,
    sleep: Callable[[float], object],
    until: float = inf,
) -> T:
    """What `attempt` returns, once it no longer raises `Passing`.

    Raises:
        GaveUp: after the last attempt, or if the next one would have to wait too long or beyond `until`.
    """
    for number in range(retries.most + 1):
        try:
            return attempt()
        except Passing as passing:
            last = passing
        pause = retries.pause(number, last.after)
        if number == retries.most or last.after > LONGEST_PAUSE_S or time.monotonic() + pause > until:
            break
        sleep(pause)
    raise GaveUp(last, attempts=number + 1)


def retry_after(value: str) -> float:
    """Seconds that a Retry-After header asks for (RFC 9110, 10.2.3), whole or not, or until its date; never below 0.

    A value that cannot be read, or is too large for a number or a date, counts as absent: 0.
    """
    value = value.strip()
    if _SECONDS.fullmatch(value):
        seconds = float(value)
    else:
        try:
            date = parsedate_to_datetime(value)
            seconds = (date.replace(tzinfo=date.tzinfo or UTC) - datetime.now(UTC)).total_seconds()
        except (ValueError, OverflowError, TypeError, IndexError):
            return 0.0
    return max(0.0, seconds) if isfinite(seconds) else 0.0
