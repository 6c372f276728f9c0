"""MCP over HTTP with keys: the tenant and the scopes of a key hold for every tool."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from servers import Server, built, started
from waiting import PATIENCE_S

from retrieve_cli.server.auth.keys import KeyFile

_RECORDS = [
    {"id": "ours", "name": "Ours", "description": "lungs in CT", "tenant": "acme"},
    {"id": "xylophone", "name": "Xylophone", "description": "lungs of others", "tenant": "other", "colour": "violet"},
]


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("callers"), _RECORDS)


@pytest.fixture(scope="module")
def keys(artifacts: Path) -> dict[str, str]:
    """A key that reads for one tenant, and one that may do more for it."""
    file, scopes = KeyFile(artifacts), {"reads": ["search"], "writes": ["search", "documents:write"]}
    return {name: file.create(permitted, tenant="acme").text for name, permitted in scopes.items()}


@pytest.fixture(scope="module")
def server(artifacts: Path, keys: dict[str, str]) -> Iterator[Server]:
    assert keys
    with started(artifacts, "--allow-writes", cwd=artifacts.parent, RETRIEVE_ENCODER__KIND="hashed") as running:
        yield running


def asked(server: Server, key: str, method: str, **params: Any) -> Any:
    headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-11-25"}
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    answer = server.post("/mcp", message, Authorization=f"Bearer {key}", **headers)
    return answer.status, answer.json()


def test_without_a_key_nothing_is_answered(server: Server) -> None:
    status, answer = asked(server, "wrong", "tools/list")
    assert status == 401
    assert "result" not in answer


def test_the_scopes_of_a_key_decide_which_tools_there_are(server: Server, keys: dict[str, str]) -> None:
    names = {
        name: [tool["name"] for tool in asked(server, key, "tools/list")[1]["result"]["tools"]]
        for name, key in keys.items()
    }
    assert names["reads"] == ["search", "fetch", "list_fields", "explain"]
    assert names["writes"] == [*names["reads"], "add_documents"]
    _, refused = asked(server, keys["reads"], "tools/call", name="add_documents", arguments={"documents": [{}]})
    assert "there is no tool 'add_documents'" in refused["error"]["message"]


def test_the_tenant_of_a_key_is_all_that_exists(server: Server, keys: dict[str, str]) -> None:
    key = keys["reads"]
    _, answer = asked(server, key, "tools/call", name="search", arguments={"query": "lungs of others"})
    assert [result["id"] for result in answer["result"]["structuredContent"]["results"]] == ["ours#0"]
    assert answer["result"]["structuredContent"]["total_matches"] == 1
    _, fields = asked(server, key, "tools/call", name="list_fields", arguments={})
    assert "colour" not in json.dumps(fields)
    foreign, unknown = (
        asked(server, key, "tools/call", name="fetch", arguments={"id": name})[1] for name in ("xylophone", "qqqqqqqqq")
    )
    assert foreign["result"]["isError"]
    assert json.dumps(foreign).replace("xylophone", "qqqqqqqqq") == json.dumps(unknown)
    _, other = asked(server, key, "tools/call", name="search", arguments={"query": "lungs", "tenant": "other"})
    assert other["result"]["isError"]


def test_what_a_tenant_adds_is_its_own(server: Server, keys: dict[str, str]) -> None:
    document = {"id": "new", "title": "New", "text": "zebras of acme"}
    arguments = {"documents": [document]}
    _, answer = asked(server, keys["writes"], "tools/call", name="add_documents", arguments=arguments)
    added = answer["result"]["structuredContent"]
    assert added["documents"][0]["id"] == "acme:new"
    arguments = {"query": "zebras", "at_least": added["sequence"], "deadline_ms": 1000 * PATIENCE_S}
    _, answer = asked(server, keys["reads"], "tools/call", name="search", arguments=arguments)
    assert answer["result"]["structuredContent"]["results"][0]["id"] == "acme:new#0"
