"""Definitions of tools in files become records: found by their words, kept whole, no columns of a catalog."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings, strategies as st
from samples import Program, fails, succeeds

from retrieve_cli.contracts.tools import digest_of
from retrieve_cli.errors import UsageError
from retrieve_cli.sources.catalogs.tool_lists import items_in
from retrieve_cli.sources.catalogs.tools import is_definition, tool_item

SCHEMA = {"type": "object", "properties": {"repo_path": {"type": "string", "description": "Where the files are"}}}
API: dict[str, Any] = {
    "info": {"title": "Pets", "description": "A shop of animals"},
    "paths": {
        "/pets/{petId}": {
            "parameters": [{"$ref": "#/components/parameters/Id"}],
            "get": {"operationId": "getPet", "summary": "Shows one", "tags": ["animals"], "deprecated": True,
                    "responses": {"200": {"description": "It"}}},
            "put": {"summary": "Changes one",
                    "requestBody": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Pet"}}}}},
        }
    },
    "components": {
        "parameters": {"Id": {"name": "petId", "in": "path", "description": "Number of the animal"}},
        "schemas": {"Pet": {"properties": {"nickName": {"type": "string", "description": "What it listens to"},
                                           "friend": {"$ref": "#/components/schemas/Pet"}}}},
    },
}  # fmt: skip


def tool(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "description": f"Does the work of {name}.", "inputSchema": SCHEMA, **more}


def listed(server: str, *names: str) -> dict[str, Any]:
    return {"name": server, "description": f"All of {server}", "tools": [tool(name) for name in names]}


def function(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "description": "Does it", "parameters": SCHEMA}}


FILES: dict[str, tuple[Any, list[str]]] = {
    "bare": ({"tools": [tool("a_b"), {"name": "c", "description": "Without a schema"}]}, ["a_b", "c"]),
    "named": (listed("git", "a_b"), ["git/a_b"]),
    "server": ({"server": "git", "tools": [tool("a_b")]}, ["git/a_b"]),
    "info": ({"serverInfo": {"name": "git"}, "instructions": "All of git", "tools": [tool("a_b")]}, ["git/a_b"]),
    "answer": ({"jsonrpc": "2.0", "id": 1, "result": {"tools": [tool("a_b")]}}, ["a_b"]),
    "servers": ([listed("git", "a_b"), listed("time", "now")], ["git/a_b", "time/now"]),
    "inner": ([{"description": "All of git", "tools": {"git": {"tools": [tool("a_b")]}}}], ["git/a_b"]),
    "mapping": ({"git": listed("git", "a_b"), "time": {"tools": [tool("now")]}}, ["git/a_b", "time/now"]),
    "short": ({"git": [tool("a_b")], "time": [tool("now")]}, ["git/a_b", "time/now"]),
    "by-name": ({"servers": {"git": {"tools": {"a_b": {"inputSchema": SCHEMA}}}}}, ["git/a_b"]),
    "functions": ([function("a_b"), {"name": "c", "description": "No arguments", "parameters": {}}], ["a_b", "c"]),
    "anthropic": ({"tools": [{"name": "a_b", "description": "Does", "input_schema": SCHEMA}]}, ["a_b"]),
    "rows": ([tool("a_b", server="git"), tool("now", id="own", tenant="x")], ["git/a_b", "own"]),
    "api": ({"openapi": "3.1.0", **API}, ["Pets/getPet", "Pets/PUT /pets/{petId}"]),
    "registry": (
        {"servers": [{"server": {"name": "org/weather", "description": "Forecasts", "websiteUrl": "https://w.org",
                                 "packages": [{"identifier": "@org/weather"}]}}] * 2}, ["org/weather"]),
    "products": ([{"name": "Saw", "description": "Cuts wood", "parameters": "5 kg"},
                  {"name": "Pump", "description": "Moves water", "parameters": {"litres": 3}}], ["Saw", "Pump"]),
}  # fmt: skip
ORDINARY = ("registry", "products")


def records(retrieve: Program, path: str) -> list[dict[str, Any]]:
    succeeds(retrieve("build", path))
    found: list[dict[str, Any]] = retrieve("inspect", "records", "--json").json["records"]
    return found


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("indent", [None, 1])
def test_each_shape_of_a_list_becomes_the_records_of_its_tools(
    name: str, indent: int | None, retrieve: Program
) -> None:
    content, ids = FILES[name]
    Path("file.json").write_text(json.dumps(content, indent=indent))
    found = records(retrieve, "file.json")
    assert [record["id"] for record in found] == ids
    assert all(("definition" in record["metadata"]) == (name not in ORDINARY) for record in found)


def test_an_api_in_yaml_is_a_catalog_and_other_yaml_is_not(retrieve: Program) -> None:
    Path("api.yaml").write_text(yaml.safe_dump({"swagger": "2.0", **API}, sort_keys=False))
    get, put = records(retrieve, "api.yaml")
    assert get["texts"]["tool_arguments"] == "pet id: Number of the animal"
    assert (get["keywords"], get["metadata"]["deprecated"], get["metadata"]["operation"]) == (
        ["animals"], True, "GET /pets/{petId}")  # fmt: skip
    assert get["metadata"]["definition"] == API["paths"]["/pets/{petId}"]["get"]
    assert "nick name: What it listens to" in put["texts"]["tool_arguments"]
    Path("other.yaml").write_text("openapi_url: x\n")
    fails(retrieve("build", "other.yaml"), 2, "neither a catalog")


def test_a_definition_is_kept_and_is_no_column(retrieve: Program) -> None:
    sent = tool("gitStatus", annotations={"title": "State", "readOnlyHint": True, "x": [1]}, extra={"license": "no"})
    Path("git.json").write_text(json.dumps({**listed("git"), "tools": [sent, sent, {"description": "No name"}]}))
    answer = retrieve("build", "git.json", "--max-fail", "5")
    assert answer.code == 8
    (record,) = retrieve("inspect", "records", "--json").json["records"]
    assert record["name"] == "State"
    assert record["metadata"] == {
        "tool": "gitStatus", "server": "git", "server_description": "All of git", "readOnlyHint": True,
        "definition": sent, "definition_digest": digest_of("gitStatus", sent["description"], SCHEMA),
    }  # fmt: skip
    assert record["texts"] == {
        "name": "State (git status)", "description": sent["description"],
        "tool_arguments": "repo path: Where the files are", "tool_server": "git: All of git",
    }  # fmt: skip
    fields = retrieve("inspect", "status", "--json").json["filters"]["fields"]
    assert set(fields) == {
        "definition_digest", "id", "kind", "name", "path", "readOnlyHint", "server", "source", "tool",
    }  # fmt: skip
    reasons = [json.loads(line)["reason"] for line in Path("artifacts/quarantine.jsonl").read_text().splitlines()]
    assert any("git/gitStatus" in reason for reason in reasons)
    assert any("a tool of git has no name" in reason for reason in reasons)


def test_a_skill_has_the_name_of_its_front_matter(retrieve: Program) -> None:
    Path("skills/pdf").mkdir(parents=True)
    Path("skills/pdf/SKILL.md").write_text(
        "---\nname: pdf-forms\ndescription: Fills forms.\n---\n# Guide\n\nRead it.\n"
    )
    (record,) = records(retrieve, "skills")
    assert (record["name"], record["description"]) == ("pdf-forms", "Fills forms.")


KEYS = st.sampled_from(
    "type properties items $ref allOf anyOf description name $defs additionalProperties tools x".split()
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from(["#", "#/$defs/x", "object"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=30,
)


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(KEYS, VALUES), st.dictionaries(st.sampled_from(["title", "annotations", "description"]), VALUES))
def test_any_schema_becomes_a_bounded_text_and_the_definition_stays(schema: Any, more: dict[str, Any]) -> None:
    definition = {"name": "n", "inputSchema": schema, **more}
    before = json.dumps(definition)
    item = tool_item(definition, server="s", about="A" * 10_000)
    assert is_definition(definition)
    assert item["definition"] is definition
    assert json.dumps(definition) == before
    assert len(item.get("tool_arguments", "")) < 200 * 1010
    assert len(item["tool_server"]) < 800
    assert [found["id"] for found in items_in({"tools": [definition]}) or []] == ["n"]


def test_cycles_end_and_depth_is_named() -> None:
    knot = {"allOf": [{"$ref": "#"}] * 50, "properties": {str(n): {"$ref": "#"} for n in range(300)}}
    assert len(tool_item({"name": "n", "inputSchema": knot})["tool_arguments"].split("; ")) == 200
    deep: dict[str, Any] = {}
    for _ in range(5000):
        deep = {"properties": {"x": deep}}
    with pytest.raises(UsageError, match="the definition of s/n is nested deeper"):
        tool_item({"name": "n", "inputSchema": deep}, server="s")
    assert items_in({"name": "s", "tools": [{"name": "n", "inputSchema": deep}, tool("m")]}) == [
        "the definition of s/n is nested deeper than 61 levels",
        tool_item(tool("m"), server="s"),
    ]
