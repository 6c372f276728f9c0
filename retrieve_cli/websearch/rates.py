"""Rates of servers, kept by all processes of a user together: one small file for each server.

A request reserves its time in the file, under a lock, and waits for it afterwards. A reservation that would end after
the deadline of the request is not made: `RateLimited` carries the time to ask again.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Callable
from math import isfinite
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from retrieve_cli.contracts.websearch import ProviderFailed, Rate, RateLimited
from retrieve_cli.errors import Locked
from retrieve_cli.http.addresses import place
from retrieve_cli.http.limits import Clock
from retrieve_cli.storage.lock import hold_briefly
from retrieve_cli.untrusted.files import CONFIG, read_text, regular_descriptor

_MARGIN = 1.1
"""Factor on intervals: requests may take different times to the server."""
_LONGEST_SPACE_S = 1.0
"""Requests are spread evenly over a window, unless they would be further apart than this."""
_MOST_TIMES = 300
_LONGEST_BLOCK_S = 86_400.0
_JUMP_S = 1.0
"""A file written this much later than now: the clock was set back."""
_LOCK_S = 5.0
_PLAIN = re.compile(r"[a-z0-9.-]{1,100}")


class _Past(NamedTuple):
    """Requests to a server, in seconds since 1970."""

    times: list[float]
    """Latest times that were reserved, in order."""
    blocked: float
    """Time before which the server permits nothing."""
    written: float


_NOBODY = _Past([], 0.0, 0.0)


class Rates:
    """Times of requests to servers, shared by the threads of this process and by other processes."""

    def __init__(
        self, folder: Path, *, now: Callable[[], float] = time.time, sleep: Callable[[float], object] = time.sleep
    ) -> None:
        """`folder` is one that all processes of the user share; it is made with the first request."""
        self._folder = folder
        self._now = now
        self._sleep = sleep
        self._own: dict[str, _Past] = {}
        self._lock = Lock()
        self.notice = ""
        """Reason for which this process keeps rates alone; empty if it does not."""

    def take(self, server: str, rate: Rate, *, clock: Clock) -> None:
        """Wait until a server may be asked, within the time of the clock.

        `server` is its origin: scheme, host and port.

        Raises:
            ProviderFailed: it may not be asked in that time; `RateLimited`, and nothing was reserved.
            TransientFailure: no time is left.
        """
        left = clock.patience()
        wait = self._change(server, lambda past, now: _reserved(past, rate, now, left), wait=left)
        if wait > left:
            raise ProviderFailed(RateLimited(wait))
        if wait > 0:
            self._sleep(wait)

    def block(self, server: str, seconds: float) -> None:
        """Let no process ask a server for some seconds, as the server requested."""
        seconds = min(max(0.0, seconds), _LONGEST_BLOCK_S)

        def blocked(past: _Past, now: float) -> tuple[_Past, float]:
            return past._replace(blocked=max(past.blocked, now + seconds), written=now), 0.0

        self._change(server, blocked, wait=_LOCK_S)

    def _change(self, server: str, change: Callable[[_Past, float], tuple[_Past, float]], *, wait: float) -> float:
        """Apply a change to the stored times of a server, and return its second value."""
        name = "{}-{}-{}".format(*place(server))
        path = self._folder / f"{name if _PLAIN.fullmatch(name) else hashlib.sha256(name.encode()).hexdigest()}.json"
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with hold_briefly(path, wait=max(0.0, min(wait, _LOCK_S))):
                past, result = change(_read(path, self._now()), self._now())
                # In place, under the lock: a part that a killed process leaves is a damaged file for the next one.
                with open(path, "r+b", buffering=0, opener=regular_descriptor) as file:
                    file.write(json.dumps(past._asdict()).encode())
                    file.truncate()
                return result
        except Locked:
            raise ProviderFailed(RateLimited(None)) from None
        except OSError as error:
            # A cache that cannot be written must not stop a search.
            self.notice = f"rates of servers are kept for this process alone: {path}: {error.strerror}"
        with self._lock:
            self._own[server], result = change(self._own.get(server, _NOBODY), self._now())
            return result


def _reserved(past: _Past, rate: Rate, now: float, left: float) -> tuple[_Past, float]:
    """Return the past with one more request, and the seconds until it; the same past if they are more than `left`."""
    requests = max(1, rate.requests)
    window = rate.seconds * _MARGIN if isfinite(rate.seconds) and rate.seconds > 0 else 0.0
    begin = max(now, past.blocked)
    if past.times:
        begin = max(begin, past.times[-1] + min(window / requests, _LONGEST_SPACE_S * _MARGIN))
    if len(past.times) >= requests:
        begin = max(begin, past.times[-requests] + window)
    if begin - now > left:
        return past, begin - now
    return past._replace(times=[*past.times, begin][-max(_MOST_TIMES, requests) :], written=now), begin - now


def _read(path: Path, now: float) -> _Past:
    """Return the content of a file. If it is damaged, or the clock was set back, the last request was just now."""
    try:
        text = read_text(path, limit=CONFIG)
        if not text.strip("\0"):
            return _NOBODY
        said = json.loads(text)
        times, blocked, written = [float(at) for at in said["times"]], float(said["blocked"]), float(said["written"])
    except (ValueError, KeyError, TypeError, RecursionError, OverflowError):
        return _Past([now], 0.0, now)
    sane = all(map(isfinite, (*times, blocked, written))) and times == sorted(times)
    if not sane or written > now + _JUMP_S or blocked - written > _LONGEST_BLOCK_S + _JUMP_S:
        return _Past([now], 0.0, now)
    return _Past(times, blocked, written)
