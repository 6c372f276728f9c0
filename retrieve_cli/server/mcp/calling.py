"""The tool `call_tool`: passes a call on to the server of an indexed tool.

A call is passed on if the operator allows the tool (`mcp.allow`), the user approved its definition, its arguments fit
the schema, and the server still has that definition. The answer is passed on unchanged within a bound, errors too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

import mcp_types as types

from retrieve_cli.api.live import LiveIndex
from retrieve_cli.api.tool_records import ToolRecords
from retrieve_cli.assemble import approvals
from retrieve_cli.assemble.sources import call_tool
from retrieve_cli.config.trust import COMMAND
from retrieve_cli.contracts import Json
from retrieve_cli.contracts.tools import DEFINITION, SERVER, TOOL
from retrieve_cli.errors import Forbidden, SourceFailed, printable, quoted
from retrieve_cli.operations.unapproved import place_of
from retrieve_cli.server.mcp.arguments import check_arguments
from retrieve_cli.server.mcp.tools import read_arguments

MOST_BYTES = 1 << 20
"""Bytes of the JSON of an answer that is passed on."""


class ToolCaller:
    """Passes on calls of the tools of an index."""

    def __init__(self, live: LiveIndex) -> None:
        self._live = live

    def call_tool(self, given: Mapping[str, Json], *, tenant: str | None) -> types.CallToolResult:
        """Return the answer of the server of a tool.

        Raises:
            RetrieveError: the tool does not exist or may not be called, its arguments do not fit, or its server does
                not answer.
        """
        values = read_arguments(given, "call_tool")
        with self._live.index.reading() as generation:
            tools = ToolRecords(generation, tenant)
            record, manifest = generation.records[tools.one(str(values["key"]))], generation.manifest
        metadata, key = record["metadata"], printable(str(record["id"]))
        name, server, definition = str(metadata[TOOL]), str(metadata.get(SERVER) or ""), metadata[DEFINITION]
        self._expect_allowed(server, name)
        expect_approved = partial(_expect_approved, key, place_of(record, manifest), name)
        expect_approved(definition)
        arguments = values.get("arguments") or {}
        check_arguments(key, definition.get("inputSchema"), arguments)
        settings, store = self._live.settings, self._live.store
        answer = call_tool(record, manifest, settings, store, arguments, check=expect_approved)
        if (size := len(json.dumps(answer).encode("utf-8", "replace"))) > MOST_BYTES:
            message = f"the answer of {key} has {size:,} bytes; at most {MOST_BYTES:,} are passed on"
            raise SourceFailed(message, hint="call it with arguments that ask for less")
        return types.CallToolResult.model_validate(answer)

    def _expect_allowed(self, server: str, tool: str) -> None:
        """Raise Forbidden if the configuration does not allow a tool."""
        allowed, names = self._live.settings.mcp.allow, (server, f"{server}/{tool}")
        if not any(fnmatchcase(name, pattern) for pattern in allowed for name in names):
            message = f"{quoted(f'{server}/{tool}')} is not in `mcp.allow`"
            raise Forbidden(message, hint="ask the operator to allow it in config.yaml, by server or by server/tool")


def _expect_approved(key: str, place: str, name: str, definition: Mapping[str, Any]) -> None:
    """Raise Forbidden if a definition is not the one that the user approved."""
    before = (approvals.approved(place) or {}).get(name)
    if before is None or approvals.is_changed(before, definition):
        what = "is new on its server" if before is None else "has changed since it was approved"
        raise Forbidden(f"the definition of {key} {what}", hint=f"the operator looks at it and agrees: {COMMAND}")
