"""Tools that agents call: the server that offers them, and the keys of their records.

Model Context Protocol, https://modelcontextprotocol.io/specification/2026-07-28.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from retrieve_cli.contracts.values import Json
from retrieve_cli.frozen import Frozen

TOOL, SERVER, ABOUT_SERVER = "tool", "server", "server_description"
"""Metadata of a tool's record: its name and its server's, as the server has them, and the server's description."""
DEFINITION, DIGEST = "definition", "definition_digest"
"""The definition as the server sent it, an object that is no field to filter by; and the digest of its name,
description and input schema."""
APPROVAL, STALE = "approval", "stale"
"""`changed` or `new` until the user approves the definition; the time since when the server has not answered."""


class ToolServer(Frozen):
    """A server of tools as a client's configuration has it, with variables that are not resolved yet: `${NAME}`,
    `${NAME:-default}`; `$$` is a dollar sign."""

    name: str
    command: tuple[str, ...] = ()
    """The program and its arguments; empty for a server with a `url`."""
    environment: Mapping[str, str] = {}
    folder: str | None = None
    url: str = ""
    headers: Mapping[str, str] = {}
    transport: Literal["http", "sse"] = "http"
    """Protocol of a server with a `url`."""
    description: str = ""
    only: tuple[str, ...] = ()
    """Tools that are read; empty for all."""
    without: tuple[str, ...] = ()
    """Tools that are not read."""
    problem: str = ""
    """Why it can be neither started nor contacted, as a sentence; empty if it can."""


_TIME = 25
"""Characters of a time."""
_NO_FIELDS = frozenset({DEFINITION, DIGEST, ABOUT_SERVER})


def fields_in(metadata: Mapping[str, Json]) -> Mapping[str, Json]:
    """Return metadata without the keys of a tool's record that are no fields to filter by or to show."""
    if not is_tool(metadata):
        return metadata
    return {key: value for key, value in metadata.items() if key not in _NO_FIELDS}


def columns_in(metadata: Mapping[str, Json]) -> Mapping[str, Json]:
    """Return metadata that records are filtered by: the digest marks a tool, as no column of another catalog does."""
    return {**fields_in(metadata), DIGEST: metadata.get(DIGEST)} if is_tool(metadata) else metadata


def is_tool(metadata: Mapping[str, Json]) -> bool:
    """Return True if metadata belong to the record of a tool."""
    return TOOL in metadata and isinstance(metadata.get(DEFINITION), Mapping)


def tool_marks(metadata: Mapping[str, Json]) -> str:
    """Return marks in words that go before the use of a tool: `changed since approval`; empty without any."""
    if not is_tool(metadata):
        return ""
    words = {"changed": "changed since approval", "new": "new, not approved"}
    since = f"no answer since {str(metadata[STALE])[:_TIME]}" if metadata.get(STALE) else ""
    return ", ".join(filter(None, (words.get(str(metadata.get(APPROVAL))), since)))


def digest_of(name: str, description: str, schema: Json) -> str:
    """Return the SHA-256 of a definition, 64 hexadecimal digits: of its canonical JSON, so that the order of keys does
    not count."""
    import json
    from hashlib import sha256

    text = json.dumps([name, description, schema], sort_keys=True, separators=(",", ":"))
    return sha256(text.encode()).hexdigest()
