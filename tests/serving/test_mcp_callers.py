"""MCP over HTTP with keys: the tenant and the scopes of a key hold for every tool."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from samples import write_catalog
from servers import Server, started

_RECORDS = [
    {"id": "ours", "name": "Ours", "description": "lungs in CT", "tenant": "acme"},
    {"id": "xylophone", "name": "Xylophone", "description": "lungs of others", "tenant": "other", "colour": "violet"},
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("callers")


def program(folder: Path, *words: str) -> str:
    command = [sys.executable, "-m", "retrieve_cli", *words, "--artifacts", "index"]
    environment = {**os.environ, "RETRIEVE_ENCODER__KIND": "hashed"}
    return subprocess.run(command, check=True, capture_output=True, text=True, cwd=folder, env=environment).stdout


@pytest.fixture(scope="module")
def keys(folder: Path) -> dict[str, str]:
    """A key that reads for one tenant, and one that may do more for it."""
    program(folder, "build", "--catalog", str(write_catalog(folder / "two.jsonl", _RECORDS)))
    scopes = {"reads": "search", "writes": "search,documents:write"}
    return {
        name: json.loads(program(folder, "keys", "create", "--scope", scope, "--tenant", "acme", "--json"))["key"]
        for name, scope in scopes.items()
    }


@pytest.fixture(scope="module")
def server(folder: Path, keys: dict[str, str]) -> Iterator[Server]:
    assert keys
    with started(folder / "index", "--allow-writes", cwd=folder, RETRIEVE_ENCODER__KIND="hashed") as running:
        yield running


def asked(server: Server, key: str, method: str, **params: Any) -> Any:
    headers = {
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2025-11-25",
        "Authorization": f"Bearer {key}",
    }
    answer = server.post("/mcp", {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}, **headers)
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
    arguments = {"query": "zebras", "at_least": added["sequence"]}
    _, answer = asked(server, keys["reads"], "tools/call", name="search", arguments=arguments)
    assert answer["result"]["structuredContent"]["results"][0]["id"] == "acme:new#0"
