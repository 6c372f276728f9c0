"""A server's answer: its body without compression, hashed on the way, and an error where it ends before its end."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from retrieve_cli.errors import SourceFailed, printable

PIECE = 1 << 16
"""Bytes that are read, or unpacked, at a time."""
HEAD = 4096
"""Bytes of a body that are read where only its beginning is looked at."""


class Passing(Exception):
    """A failure that may pass by itself: worth another attempt, `after` seconds at least."""

    def __init__(self, reason: str, after: float = 0.0) -> None:
        super().__init__(reason)
        self.after = after


def _sha1() -> hashlib._Hash:
    return hashlib.sha1(usedforsecurity=False)


@dataclass(slots=True)
class Reply:
    """The answer to a request; its body is read once."""

    origin: str
    """The address that was asked, for people."""
    status: int
    headers: Mapping[str, str]
    travelling: Iterable[bytes]
    """The body's bytes as they travel."""
    redirected: str = ""
    """The address it came from in the end, where that is not the one that was asked."""
    _travelled: hashlib._Hash = field(default_factory=_sha1, init=False)
    _decoded: hashlib._Hash = field(default_factory=_sha1, init=False)

    @property
    def digests(self) -> tuple[str, str]:
        """SHA-1 of the body read so far, as it travelled and without its content coding.

        A server that compresses on the fly offers the digest of either, by the header's definition and by its habit.
        """
        return self._travelled.hexdigest(), self._decoded.hexdigest()

    def pieces(self) -> Iterator[bytes]:
        """The body without its content coding.

        Raises:
            Passing: it ended before its end.
            SourceFailed: its coding is not known, or it is damaged.
        """
        coding = self.headers.get("Content-Encoding", "").strip().lower()
        if coding not in ("", "identity", "gzip", "x-gzip"):
            hint = "ask the server for gzip or for no compression"
            raise SourceFailed(f"{self.origin} answers in the coding {printable(coding)!r}", hint=hint)
        travelled = _hashed(self.travelling, self._travelled)
        return _hashed(gunzip(travelled) if coding.endswith("gzip") else travelled, self._decoded)

    def head(self) -> bytes:
        """The first bytes of the body, as far as they can be had."""
        body = b""
        with suppress(Passing, SourceFailed):
            for piece in self.pieces():
                body += piece
                if len(body) >= HEAD:
                    break
        return body


def gunzip(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The members of a gzip stream, in pieces of bounded size however well they were compressed.

    Raises:
        Passing: the stream ends before its end.
        SourceFailed: it is damaged.
    """
    inflater, begun = zlib.decompressobj(wbits=31), False
    for piece in pieces:
        rest = piece
        while rest:
            if inflater.eof:
                rest = rest.lstrip(b"\0")  # members may be padded with zeros
                if not rest:
                    break
                inflater = zlib.decompressobj(wbits=31)
            try:
                inflated = inflater.decompress(rest, PIECE)
            except zlib.error as error:
                hint = "fetch it by hand and look: gunzip -t"
                raise SourceFailed(f"the gzip stream is damaged ({error})", hint=hint) from error
            begun = True
            rest = inflater.unused_data if inflater.eof else inflater.unconsumed_tail
            if inflated:
                yield inflated
    if begun and not inflater.eof:
        raise Passing("the gzip stream was cut short")


def _hashed(pieces: Iterable[bytes], digest: hashlib._Hash) -> Iterator[bytes]:
    for piece in pieces:
        digest.update(piece)
        yield piece
