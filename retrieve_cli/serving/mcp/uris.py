"""Addresses of resources: `retrieve://g/<generation>/chunk/<id>`, ids percent-encoded."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import quote, unquote

SCHEME = "retrieve://"
INDEX = f"{SCHEME}index"
CHUNK = f"{SCHEME}g/{{generation}}/chunk/{{id}}"
RECORD = f"{SCHEME}record/{{id}}"
_LONGEST = 8192


class Address(NamedTuple):
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


def read_uri(uri: str) -> Address | None:
    """Return the record or chunk at an address; None if it is not such an address."""
    parts = uri[:_LONGEST].removeprefix(SCHEME).split("/") if uri.startswith(SCHEME) else []
    if len(parts) == 4 and (parts[0], parts[2]) == ("g", "chunk"):
        return Address(unquote(parts[3], errors="replace"), parts[1])
    if len(parts) == 2 and parts[0] == "record":
        return Address(unquote(parts[1], errors="replace"))
    return None
