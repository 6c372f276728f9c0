"""The tool `call_tool`: passes a call on to the server of an indexed tool.

A call is passed on if the operator allows the tool (`mcp.allow`), the user approved its definition, its arguments fit
the schema, and the server still has that definition. The answer is passed on unchanged within a bound, errors too.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, TypeVar

import anyio
import anyio.to_thread
import mcp_types as types

from retrieve_cli.api.live import LiveIndex
from retrieve_cli.assemble import approvals
from retrieve_cli.assemble.sources import call_tool as pass_on
from retrieve_cli.config.trust import COMMAND
from retrieve_cli.contracts import Json
from retrieve_cli.contracts.tools import DEFINITION, SERVER, TOOL
from retrieve_cli.errors import Forbidden, NotFound, SourceFailed, printable, quoted
from retrieve_cli.ingest.sync import entries
from retrieve_cli.operations.unapproved import place_of
from retrieve_cli.search.tool_records import ToolRecords
from retrieve_cli.server.mcp.arguments import check_arguments
from retrieve_cli.server.mcp.tools import read_arguments

_log = logging.getLogger(__name__)
T = TypeVar("T")

MOST_BYTES = 1 << 20
"""Bytes of the JSON of an answer that is passed on."""


_AT_ONCE = 8
"""Calls that are passed on at the same time."""
_limiter = anyio.CapacityLimiter(_AT_ONCE)


async def in_own_thread(_: Any, function: Callable[[], T]) -> T:
    """Return the value of a function, in a thread that no search waits for."""
    return await anyio.to_thread.run_sync(function, limiter=_limiter, abandon_on_cancel=True)


def call_tool(live: LiveIndex, given: Mapping[str, Json], *, tenant: str | None) -> types.CallToolResult:
    """Return the answer of the server of a tool.

    Raises:
        RetrieveError: the tool does not exist or may not be called, its arguments do not fit, or its server does not
            answer.
    """
    values = read_arguments(given, "call_tool")
    with live.index.reading() as generation:
        tools = ToolRecords(generation, tenant)
        record, manifest = generation.records[tools.one(str(values["key"]))], generation.manifest
    metadata, key = record["metadata"], printable(str(record["id"]))
    name, server, definition = str(metadata[TOOL]), str(metadata.get(SERVER) or ""), metadata[DEFINITION]
    _expect_allowed(live.settings.mcp.allow, server, name)
    entry = next(
        (one for one in entries(live.settings, live.store, _log.warning) if one.name == record["source"]), None
    )
    if entry is None or entry.kind != "mcp":
        raise NotFound(f"{key} has no server that could be called", hint="describe_tool has its definition")
    expect_approved = partial(_expect_approved, key, place_of(record, manifest), name)
    expect_approved(definition)
    arguments = values.get("arguments") or {}
    check_arguments(key, definition.get("inputSchema"), arguments)
    answer = pass_on(entry, server, name, arguments, check=expect_approved)
    if (size := len(json.dumps(answer).encode("utf-8", "replace"))) > MOST_BYTES:
        message = f"the answer of {key} has {size:,} bytes; at most {MOST_BYTES:,} are passed on"
        raise SourceFailed(message, hint="call it with arguments that ask for less")
    try:
        return types.CallToolResult.model_validate(answer)
    except ValueError as error:
        raise SourceFailed(f"the answer of {key} is not a result of a tool", hint="report it to its author") from error


def _expect_allowed(allowed: Sequence[str], server: str, tool: str) -> None:
    """Raise Forbidden if the configuration does not allow a tool."""
    names = (server, f"{server}/{tool}")
    if not any(fnmatchcase(name, pattern) for pattern in allowed for name in names):
        message = f"{quoted(names[1])} is not in `mcp.allow`"
        raise Forbidden(message, hint="ask the operator to allow it in config.yaml, by server or by server/tool")


def _expect_approved(key: str, place: str, name: str, definition: Mapping[str, Any]) -> None:
    """Raise Forbidden if a definition is not the one that the user approved."""
    before = (approvals.approved(place) or {}).get(name)
    if before is None or approvals.is_changed(before, definition):
        what = "is new on its server" if before is None else "has changed since it was approved"
        raise Forbidden(f"the definition of {key} {what}", hint=f"the operator looks at it and agrees: {COMMAND}")
