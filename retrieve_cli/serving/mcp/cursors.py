"""Cursors: the place where the next call goes on, in which generation, and for which arguments."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import NamedTuple

from retrieve_cli.contracts import Json
from retrieve_cli.errors import UsageError, quoted

_DIGITS = 6
_MOST = 10**9


class Place(NamedTuple):
    """Start of a call."""

    generation: str | None = None
    offset: int = 0


def cursor_of(place: Place, arguments: Mapping[str, Json]) -> str:
    """Return a place as text that goes with these arguments only."""
    return f"{place.generation}.{place.offset}.{_digest(arguments)}"


def read_cursor(cursor: Json, arguments: Mapping[str, Json]) -> Place:
    """Return the place of a cursor; the beginning without one.

    Raises:
        UsageError: it is not a cursor, or was made for other arguments.
    """
    if cursor is None or cursor == "":
        return Place()
    parts = cursor.rsplit(".", 2) if isinstance(cursor, str) else []
    if len(parts) != 3 or not (parts[1].isascii() and parts[1].isdecimal()) or int(parts[1][:10]) > _MOST:
        raise UsageError(f"{quoted(cursor)} is not a cursor", hint="take it from the answer before, or omit it")
    if parts[2] != _digest(arguments):
        hint = "repeat the arguments of the call before, or omit the cursor"
        raise UsageError("the cursor belongs to other arguments", hint=hint)
    return Place(parts[0], int(parts[1][:10]))


def _digest(arguments: Mapping[str, Json]) -> str:
    text = json.dumps(arguments, sort_keys=True, default=str)
    return sha256(text.encode("utf-8", "replace")).hexdigest()[:_DIGITS]
