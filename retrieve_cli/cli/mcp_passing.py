"""`retrieve mcp --server URL`: messages on standard input and output, answered by `/mcp` of a running `retrieve serve`.

line of stdin -> POST /mcp -> line of stdout

The server keeps no session, so that each request is a separate POST, and notifications have no effect.
https://modelcontextprotocol.io/specification/2026-07-28/basic/transports
"""

from __future__ import annotations

import json
from base64 import b64encode
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import IO, TYPE_CHECKING

from retrieve_cli.cli.failures import failure_of
from retrieve_cli.contracts import Json
from retrieve_cli.errors import Unavailable
from retrieve_cli.untrusted.foreign_json import foreign_json, foreign_object

if TYPE_CHECKING:
    from retrieve_cli.cli.server_client import ServerClient

THREADS = 4
"""Requests that are under way at once."""
_HINT = "is it `retrieve serve`, with the package mcp?"
_VERSION = "io.modelcontextprotocol/protocolVersion"
"""Key of the revision in `_meta` of a request, from 2026-07-28 on. Before, the answer to `initialize` has it."""
_NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
"""Methods whose header `Mcp-Name` has the value of a parameter."""
_INTERNAL, _UNREADABLE = -32603, -32700
"""Codes of JSON-RPC: an internal error, and a message that is not JSON."""


def pass_on(client: ServerClient, reader: IO[bytes], writer: IO[bytes]) -> None:
    """Pass on the requests of one MCP client, until its messages end."""
    passing = _Passing(client, writer)
    with ThreadPoolExecutor(THREADS, "passing") as threads:
        for line in reader:
            threads.submit(passing.answer, line)
    client.close()


class _Passing:
    """Messages between one client and the server."""

    def __init__(self, client: ServerClient, writer: IO[bytes]) -> None:
        self._client, self._writer = client, writer
        self._lock = Lock()
        self._revision = ""

    def answer(self, line: bytes) -> None:
        """Write the answer to a message, or an error in its place."""
        try:
            message = foreign_json(line)
        except ValueError as error:
            self._write(_failure(None, f"the message is not JSON: {error}", _UNREADABLE))
            return
        if not isinstance(message, dict):
            self._write(_failure(None, "the message is not an object", _UNREADABLE))
        elif "id" in message and "method" in message:
            try:
                answer = self._answered(message, line)
            except Exception as error:  # noqa: BLE001  a request without an answer would keep its client waiting
                failure = failure_of(error)
                answer = _failure(message["id"], f"{failure.message} ({failure.hint})")
            self._write(answer)

    def _answered(self, message: dict[str, Json], line: bytes) -> dict[str, Json]:
        """Return the answer of the server to a request. Raises: RetrieveError: there is no answer."""
        server = self._client.server
        answered = self._client.post("/mcp", line, self._headers(message))
        value = foreign_object(answered.body, server, f"status {answered.status}: {_HINT}")
        if "jsonrpc" not in value:
            error = value.get("error")
            reason = error.get("message") if isinstance(error, dict) else "no message"
            raise Unavailable(f"{server} answered with status {answered.status}: {reason}", hint=_HINT)
        result = value.get("result")
        if message["method"] == "initialize" and isinstance(result, dict):
            self._revision = str(result.get("protocolVersion", ""))
        return {**value, "id": message["id"]}

    def _headers(self, message: dict[str, Json]) -> dict[str, str]:
        params = message.get("params")
        params = params if isinstance(params, dict) else {}
        meta = params.get("_meta")
        revision = meta.get(_VERSION) if isinstance(meta, dict) else None
        headers = {"Accept": "application/json, text/event-stream"}
        if revision is None:
            return {**headers, "MCP-Protocol-Version": _encoded(self._revision)} if self._revision else headers
        method = str(message["method"])
        headers |= {"MCP-Protocol-Version": _encoded(str(revision)), "Mcp-Method": _encoded(method)}
        name = params.get(_NAMED.get(method, ""))
        return {**headers, "Mcp-Name": _encoded(name)} if isinstance(name, str) else headers

    def _write(self, value: dict[str, Json]) -> None:
        line = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace") + b"\n"
        with self._lock:
            self._writer.write(line)
            self._writer.flush()


def _failure(id_: Json, message: str, code: int = _INTERNAL) -> dict[str, Json]:
    return {"jsonrpc": "2.0", "id": id_, "error": {"code": code, "message": message}}


def _encoded(value: str) -> str:
    """Return the value of a header; as base64 if it is not printable ASCII without blanks around it."""
    if value.isascii() and value.isprintable() and value == value.strip() and not value.startswith("=?base64?"):
        return value
    return f"=?base64?{b64encode(value.encode('utf-8', 'replace')).decode()}?="
