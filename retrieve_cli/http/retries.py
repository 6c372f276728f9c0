"""Repeated attempts: temporary statuses, pauses, and the end of attempts."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from math import inf, isfinite
from typing import TypeVar

from retrieve_cli.frozen import Frozen
from retrieve_cli.http.failures import TransientFailure

T = TypeVar("T")

PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Statuses of temporary failures."""
LONGEST_PAUSE_S = 60.0
_SECONDS = re.compile(r"-?[0-9]+(\.[0-9]+)?")


class Retries(Frozen):
    """Number and pauses of repeated attempts."""

    most: int
    """Maximum attempts after the first one."""
    backoff_s: float
    """First pause in seconds; each further pause is twice as long, with random jitter."""

    def pause(self, attempt: int, after: float) -> float:
        """Return the seconds to wait after attempt number `attempt`, from 0; `after` is the server's request."""
        backoff = self.backoff_s * 2.0 ** min(attempt, 64) * random.uniform(0.5, 1)  # noqa: S311  jitter is no secret
        return min(max(backoff, after), LONGEST_PAUSE_S)


class GaveUp(Exception):
    """No attempt succeeded. The message has the last failure and the number of attempts."""

    def __init__(self, last: TransientFailure, *, attempts: int) -> None:
        request = f"; it asks for a pause of {last.after:g} s" if last.after > LONGEST_PAUSE_S else ""
        super().__init__(f"{last}{request}" + (f" ({attempts} attempts)" if attempts > 1 else ""))
        self.status = last.status


def persist(
    attempt: Callable[[], T],
    retries: Retries,
    *,
    sleep: Callable[[float], object],
    until: float = inf,
) -> T:
    """Return the result of the first `attempt` that does not raise `TransientFailure`.

    Raises:
        GaveUp: after the last attempt, or if the next pause is too long or ends after `until`.
    """
    for number in range(retries.most + 1):
        try:
            return attempt()
        except TransientFailure as passing:
            last = passing
        pause = retries.pause(number, last.after)
        if number == retries.most or last.after > LONGEST_PAUSE_S or time.monotonic() + pause > until:
            break
        sleep(pause)
    raise GaveUp(last, attempts=number + 1)


def retry_after(value: str) -> float:
    """Return the seconds in a Retry-After header (RFC 9110, 10.2.3), or until its date; never below 0.

    Return 0 for a value that is unreadable, or too large for a number or a date.
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
