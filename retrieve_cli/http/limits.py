"""Limits of time and size: a clock for whole requests, and bodies decompressed in pieces of bounded size."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from itertools import chain

from retrieve_cli.frozen import Frozen, field
from retrieve_cli.http.failures import HttpFailed, TransientFailure

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
        """Return the seconds to wait for the next byte.

        Raises:
            TransientFailure: no time is left.
        """
        remaining = self.until - time.monotonic()
        if remaining <= 0:
            raise TransientFailure(f"no complete answer within {self.total_s:g} s")
        return min(self.idle_s, remaining)


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
