"""Addresses of resources, and cursors: the place where the next call goes on.

A resource is at `retrieve://g/<generation>/chunk/<id>`, ids percent-encoded. A cursor names the generation, and goes
with the arguments of one call.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import NamedTuple
from urllib.parse import quote, unquote

from retrieve_cli.contracts import Json
from retrieve_cli.errors import UsageError, quoted

_DIGITS = 6
_MOST = 10**9


class CursorPlace(NamedTuple):
    """Start of a call."""

    generation: str | None = None
    offset: int = 0


def cursor_of(place: CursorPlace, arguments: Mapping[str, Json]) -> str:
    """Return a place as text that goes with these arguments only."""
    return f"{place.generation}.{place.offset}.{_digest(arguments)}"


def read_cursor(cursor: Json, arguments: Mapping[str, Json]) -> CursorPlace:
    """Return the place of a cursor; the beginning without one.

    Raises:
        UsageError: it is not a cursor, or was made for other arguments.
    """
    if cursor is None or cursor == "":
        return CursorPlace()
    parts = cursor.rsplit(".", 2) if isinstance(cursor, str) else []
    if len(parts) != 3 or not (parts[1].isascii() and parts[1].isdecimal()) or int(parts[1][:10]) > _MOST:
        raise UsageError(f"{quoted(cursor)} is not a cursor", hint="take it from the answer before, or omit it")
    if parts[2] != _digest(arguments):
        hint = "repeat the arguments of the call before, or omit the cursor"
        raise UsageError("the cursor belongs to other arguments", hint=hint)
    return CursorPlace(parts[0], int(parts[1][:10]))


def _digest(arguments: Mapping[str, Json]) -> str:
    text = json.dumps(arguments, sort_keys=True, default=str)
    return sha256(text.encode("utf-8", "replace")).hexdigest()[:_DIGITS]


SCHEME = "retrieve://"
INDEX = f"{SCHEME}index"
CHUNK = f"{SCHEME}g/{{generation}}/chunk/{{id}}"
RECORD = f"{SCHEME}record/{{id}}"
_LONGEST = 8192


class ResourceAddress(NamedTuple):
    """A record or chunk."""

    id: str
    generation: str | None = None
    """None: the current one."""


def quoted_id(name: str) -> str:
    """Return an id as part of an address."""
    return quote(name, safe="", errors="replace")


def chunk_uri(generation: str, chunk_id: str) -> str:
    """Return the address of a chunk."""
    return CHUNK.format(generation=generation, id=quoted_id(chunk_id))


def read_uri(uri: str) -> ResourceAddress | None:
    """Return the record or chunk at an address; None if it is not such an address."""
    parts = uri[:_LONGEST].removeprefix(SCHEME).split("/") if uri.startswith(SCHEME) else []
    if len(parts) == 4 and (parts[0], parts[2]) == ("g", "chunk"):
        return ResourceAddress(unquote(parts[3], errors="replace"), parts[1])
    if len(parts) == 2 and parts[0] == "record":
        return ResourceAddress(unquote(parts[1], errors="replace"))
    return None
