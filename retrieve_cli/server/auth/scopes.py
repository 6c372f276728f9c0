"""Callers, and scopes: what a credential permits.

Limits of requests per credential, as token buckets in bounded memory.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from math import ceil, floor
from time import monotonic
from typing import NamedTuple

from retrieve_cli.errors import UsageError, quoted
from retrieve_cli.untrusted.nearest import nearest

SCOPES: Mapping[str, str] = {
    "search": "search, and read records",
    "documents:write": "add and delete documents",
    "index:admin": "sync, roll back and verify the index",
    "metrics": "read the metrics of the server",
    "tools:call": "call the tools of other servers that `mcp.allow` names",
    "web": "search the web and literature, which sends queries to others",
}
WHOLE_INDEX = ("index:admin", "metrics")
"""Scopes that show figures of the whole index, other tenants included."""
_MOST_READ = 100
"""Scopes of one token that are read."""


class Caller(NamedTuple):
    """The sender of a request, as its credential names it."""

    tenant: str | None
    """The only tenant whose records exist for the caller; None: all."""
    scopes: frozenset[str]
    name: str
    account: str = ""
    """Name of the credential that no other has; empty for the server's own key and without one."""

    def may(self, scope: str) -> bool:
        """Return True if the credential permits this."""
        return scope in self.scopes

    @property
    def owner(self) -> str:
        """Name under which data of the caller is stored: the tenant, else the credential."""
        return f"tenant {self.tenant}" if self.tenant is not None else self.account and f"key {self.account}"


ANYONE = Caller(None, frozenset(SCOPES), "anyone")
"""Caller of a server that needs no credential."""


def read_scopes(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the scopes that texts list with commas, in the order of `SCOPES`.

    Raises:
        UsageError: a scope is unknown, which names the nearest, or there is no scope.
    """
    names = {name for text in texts for name in text.replace(",", " ").split()}
    for name in sorted(names - SCOPES.keys()):
        near = nearest(name, SCOPES)
        hint = f"did you mean {near}?" if near else f"scopes: {', '.join(SCOPES)}"
        raise UsageError(f"there is no scope {quoted(name)}", hint=hint)
    if not names:
        raise UsageError("the key has no scope", hint=f"scopes: {', '.join(SCOPES)}")
    return tuple(name for name in SCOPES if name in names)


def claimed_scopes(claim: object) -> frozenset[str]:
    """Return the known scopes of a token's claim: a list of strings, or one string with blanks (RFC 8693, 4.2)."""
    several = claim.split(" ", _MOST_READ) if isinstance(claim, str) else claim
    if not isinstance(several, list):
        return frozenset()
    return frozenset(name for name in several[:_MOST_READ] if isinstance(name, str) and name in SCOPES)


_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_RATE = re.compile(r"([0-9]{1,9})/([smhd])(?::([0-9]{1,9}))?")
_MOST = 10_000
"""Buckets in memory; the one that was used longest ago is forgotten first, as by then it is usually full."""
_ONE = 1.0 - 1e-6
"""One request, less what additions of seconds lose."""


class RequestRate(NamedTuple):
    """Requests in a unit of time, and the most at once."""

    number: int
    unit: str
    burst: int

    def __str__(self) -> str:
        return f"{self.number}/{self.unit}" + ("" if self.burst == self.number else f":{self.burst}")


def read_rate(text: str, *, where: str = "--rate") -> RequestRate:
    """Return a rate such as `20/s`, `100/m` or, with the most requests at once, `20/s:50`.

    Raises:
        UsageError: it is not written so, or is 0.
    """
    match = _RATE.fullmatch(text.strip())
    if match is None or int(match[1]) == 0 or int(match[3] or 1) == 0:
        message = f"{where} is {quoted(text)}; it takes a number of requests per s, m, h or d"
        raise UsageError(message, hint="20/s, or 20/s:50 for up to 50 at once")
    return RequestRate(int(match[1]), match[2], int(match[3] or match[1]))


class Allowance(NamedTuple):
    """The state of a credential's limit after a request."""

    allowed: bool
    quota: int
    """Most requests at once."""
    window: int
    """Seconds in which the whole quota comes back."""
    remaining: int
    reset: int
    """Seconds until the whole quota is back."""
    wait: int
    """Seconds until the next request may come; 0 if it may come now."""

    @property
    def headers(self) -> dict[str, str]:
        """Header fields of the answer: draft-ietf-httpapi-ratelimit-headers-10, and Retry-After (RFC 9110, 10.2.3)."""
        fields = {
            "RateLimit-Policy": f'"default";q={self.quota};w={self.window}',
            "RateLimit": f'"default";r={self.remaining};t={self.reset}',
        }
        return fields if self.allowed else {**fields, "Retry-After": str(self.wait)}


class Buckets:
    """Token buckets by credential, for the thread of the server's event loop only."""

    def __init__(self, *, workers: int = 1, clock: Callable[[], float] = monotonic, most: int = _MOST) -> None:
        """`workers` processes share each limit: each allows its part, and at least one request at once."""
        self._workers, self._clock, self._most = workers, clock, most
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._levels)

    def take(self, name: str, rate: RequestRate) -> Allowance:
        """Take one request from the bucket of a credential, if it holds one."""
        now, speed = self._clock(), rate.number / _UNITS[rate.unit] / self._workers
        size = max(1.0, rate.burst / self._workers)
        level, since = self._levels.pop(name, (size, now))
        level = min(size, level + (now - since) * speed)
        allowed = level >= _ONE
        level = max(0.0, level - 1.0) if allowed else level
        self._levels[name] = (level, now)
        if len(self._levels) > self._most:
            self._levels.popitem(last=False)
        wait = 0 if level >= _ONE else max(1, ceil((_ONE - level) / speed))
        quota, window, reset = floor(size), max(1, ceil(size / speed)), ceil((size - level) / speed)
        return Allowance(allowed, quota, window, floor(level), reset, wait)
