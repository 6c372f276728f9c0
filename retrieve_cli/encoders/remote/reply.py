"""A model server's answer: how it is read, what its status means, what it says is wrong."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

from retrieve_cli.contracts import Json
from retrieve_cli.encoders.remote.failures import Passing
from retrieve_cli.errors import printable

if TYPE_CHECKING:
    from requests import Response

_PIECE = 1 << 16
"""Bytes that are read at a time."""
_HEAD = 4096
"""Bytes of an answer that are read where only its complaint is looked at."""
_SECONDS = re.compile(r"[0-9]+(\.[0-9]+)?")


class TooLarge(Exception):
    """An answer has more bytes than it may have."""


def read(response: Response, *, most: int, until: float) -> bytes:
    """The body.

    Raises:
        TooLarge: it has more than `most` bytes.
        Passing: it was cut short, or did not end before `until` on the monotonic clock.
    """
    body = bytearray()
    for piece in _pieces(response):
        body += piece
        if len(body) > most:
            raise TooLarge
        if time.monotonic() > until:
            raise Passing("the answer did not end in time")
    return bytes(body)


def parse(body: bytes, headers: Mapping[str, str]) -> Json:
    """The body as JSON; neither NaN nor Infinity is a number.

    Raises:
        Passing: it is none, and nothing said how long it should have been.
        ValueError: it is none.
    """
    import orjson

    try:
        return orjson.loads(body)
    except ValueError:
        broken = Passing("the answer was cut short")
    if "Content-Length" in headers or "Transfer-Encoding" in headers:
        raise ValueError
    raise broken


def complaint(response: Response) -> str:
    """What the body of an error says, as far as it can be had: its message, or its beginning."""
    import orjson

    body = bytearray()
    with suppress(Passing):
        for piece in _pieces(response):
            body += piece
            if len(body) >= _HEAD:
                break
    with suppress(ValueError):
        said = _message(orjson.loads(bytes(body)))
        if said:
            return said
    return body.decode("utf-8", "replace")


def retry_after(headers: Mapping[str, str]) -> float:
    """Seconds that a Retry-After header asks for (RFC 9110, 10.2.3): a number or a date; 0 where it is neither."""
    value = headers.get("Retry-After", "").strip()
    if _SECONDS.fullmatch(value):
        return float(value)
    try:
        date = parsedate_to_datetime(value)
    except (ValueError, OverflowError):
        return 0.0
    return max(0.0, (date.replace(tzinfo=date.tzinfo or UTC) - datetime.now(UTC)).total_seconds())


def reason(error: BaseException) -> str:
    """What happened at the bottom of a chain of errors; those above it spell out the address, secrets included."""
    chain = [error]
    for above in chain:
        inner = (getattr(above, "reason", None), *above.args, above.__cause__, above.__context__)
        chain += [part for part in inner if isinstance(part, BaseException) and part not in chain][:1]
    error = chain[-1]
    return printable(getattr(error, "strerror", None) or str(error) or type(error).__name__)


def _pieces(response: Response) -> Iterator[bytes]:
    from urllib3.exceptions import HTTPError

    while True:
        broken = None
        piece = b""
        try:
            # read1 returns with what is there: read would wait for a full piece from a server that drips.
            piece = response.raw.read1(_PIECE, decode_content=False)
        except (HTTPError, OSError) as error:
            broken = Passing(f"the answer was cut short ({reason(error)})")
        if broken:
            raise broken
        if not piece:
            return
        yield piece


def _message(answer: Json) -> str:
    """The message of an error, where servers are known to put it."""
    while isinstance(answer, dict):
        answer = next((answer[key] for key in ("error", "message", "detail") if answer.get(key)), None)
    return answer if isinstance(answer, str) else ""
