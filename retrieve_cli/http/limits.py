"""Limits of time and size: a clock for whole requests, and bodies decompressed in pieces of bounded size.

Failures of a request, by what the caller can do about them.

Neither is chained to an error of the HTTP client, which would contain the request and thus the credentials.

Repeated attempts: temporary statuses, pauses, and the end of attempts.
"""

from __future__ import annotations

import random
import re
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from itertools import chain
from math import inf, isfinite
from typing import TypeVar

from retrieve_cli.frozen import Frozen, field

PIECE = 1 << 16
"""Maximum bytes that are read, sent or decompressed at a time."""


class Clock(Frozen):
    """Time limits of a request: in total, and without progress."""

    total_s: float
    idle_s: float
    start: float = field(default_factory=time.monotonic)

    @property
    def until(self) -> float:
        """End of the total time, on the monotonic clock."""
        return self.start + self.total_s

    def patience(self) -> float:
        """Return the seconds to wait for the next byte. Raises: TransientFailure: no time is left."""
        remaining = self.until - time.monotonic()
        if remaining <= 0:
            raise TransientFailure(f"no complete answer within {self.total_s:g} s")
        return min(self.idle_s, remaining)


class TooMuchSent(Exception):
    """A server sent more than it may."""


class ByteAllowance:
    """Bytes that a server may still send, in all of its answers together."""

    def __init__(self, most: int) -> None:
        self.left = most
        self.status = 0
        """Status of the last answer over HTTP."""

    def take(self, count: int) -> None:
        """Count bytes as received. Raises: TooMuchSent: they are too many."""
        self.left -= count
        if self.left < 0:
            raise TooMuchSent


def limit_size(pieces: Iterable[bytes], most: int, too_large: Callable[[], Exception]) -> Iterator[bytes]:
    """Yield the pieces; raise the error from `too_large` as soon as they have more than `most` bytes."""
    for piece in pieces:
        most -= len(piece)
        if most < 0:
            raise too_large()
        yield piece


def peek(pieces: Iterator[bytes], size: int) -> tuple[bytes, Iterator[bytes]]:
    """Return the first `size` bytes, fewer if there are no more, and all pieces from the first."""
    head = b""
    for piece in pieces:
        head += piece
        if len(head) >= size:
            break
    return head[:size], chain((head,), pieces)


def gunzip(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the contents of a gzip stream (RFC 1952), in pieces of bounded size at any compression ratio.

    Raises:
        TransientFailure: the stream is truncated.
        HttpFailed: it is damaged.
    """
    return _inflated(pieces, wbits=31)


def inflate(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the contents of the coding `deflate`: zlib format (RFC 9110, 8.4.1.2), or raw as some servers send it.

    Raises:
        TransientFailure: the stream is truncated.
        HttpFailed: it is damaged.
    """
    head, pieces = peek(pieces, 2)
    zlib_format = head[:1] and head[0] & 15 == zlib.DEFLATED and int.from_bytes(head, "big") % 31 == 0
    return _inflated(pieces, wbits=15 if zlib_format else -15)


def _inflated(pieces: Iterable[bytes], *, wbits: int) -> Iterator[bytes]:
    inflater, begun = zlib.decompressobj(wbits=wbits), False
    for piece in pieces:
        rest = piece
        while rest:
            if inflater.eof:
                rest = rest.lstrip(b"\0")  # members may be padded with zeros
                if not rest:
                    break
                inflater = zlib.decompressobj(wbits=wbits)
            try:
                inflated = inflater.decompress(rest, PIECE)
            except zlib.error as error:
                hint = "download it and test it: gunzip -t"
                raise HttpFailed(f"the gzip stream is damaged ({error})", hint=hint) from error
            begun = True
            rest = inflater.unused_data if inflater.eof else inflater.unconsumed_tail
            if inflated:
                yield inflated
    if begun and not inflater.eof:
        raise TransientFailure("the gzip stream was cut short")


class TransientFailure(Exception):
    """A temporary failure: worth another attempt, after at least `after` seconds."""

    def __init__(self, reason: str, *, after: float = 0.0, status: int = 0) -> None:
        """`status` is the status of the answer; 0 without an answer."""
        super().__init__(reason)
        self.after = after
        self.status = status


class HttpFailed(Exception):
    """A permanent failure, which another attempt would repeat."""

    def __init__(self, message: str, *, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


class NotPermitted(HttpFailed):
    """An address, a redirect or a size that the rules for servers chosen by others do not permit."""


class NotReadable(HttpFailed):
    """A complete answer that is not text, or whose coding is damaged."""


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


def persist(attempt: Callable[[], T], retries: Retries, *, sleep: Callable[[float], object], until: float = inf) -> T:
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
