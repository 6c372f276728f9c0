"""Fields of records in the answers of MCP: an agent learns a version, a price, the schema of a tool."""

import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp_clients import called, connected, text_of
from servers import built

SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}, "depth": {"type": "integer"}}}
TOOLS: list[dict[str, Any]] = [
    {"id": "1", "name": "gzip", "description": "compresses files", "version": "1.12", "price": 9.5,
     "arguments": SCHEMA, "maker": {"name": "GNU", "city": "Boston"}, "license": "GPL-3.0"},
    {"id": "2", "name": "tar", "description": "archives files", "notes": "long " * 4000, "version": "1.35"},
]  # fmt: skip


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    return built(tmp_path, TOOLS)


def fields_of(answer: Any) -> list[dict[str, Any]]:
    """The fields of each result, by id."""
    found = sorted(answer.structured_content["results"], key=lambda result: result["id"])
    return [result["fields"] for result in found]


@pytest.mark.parametrize("texts", ["content", "structured"])
def test_a_search_returns_the_fields_of_each_record_within_bounds(tools: Path, texts: str) -> None:
    answer = called(tools, "search", {"query": "files"}, texts=texts)
    gzip, tar = fields_of(answer)
    assert (gzip["version"], gzip["price"], gzip["license"], gzip["arguments"]) == ("1.12", 9.5, "GPL-3.0", SCHEMA)
    assert tar["version"] == "1.35"
    assert len(json.dumps(tar)) < 400
    if texts == "content":
        assert "price: 9.5; version: 1.12" in text_of(answer)


@pytest.mark.parametrize("fields", [["version", "maker.city", "nothing"], "version, maker.city"])
def test_fields_that_are_chosen_are_returned_and_no_others(tools: Path, fields: Any) -> None:
    wanted = {"version": "1.12", "maker.city": "Boston"}
    assert fields_of(called(tools, "search", {"query": "files", "fields": fields}))[0] == wanted
    assert called(tools, "fetch", {"id": "1", "fields": fields}).structured_content["metadata"] == {
        **wanted,
        "source": "tools.jsonl",
    }


def test_a_record_is_read_with_its_fields_by_its_name(tools: Path) -> None:
    answer = called(tools, "fetch", {"id": "gzip"}, texts="content")
    assert answer.structured_content["metadata"]["arguments"] == SCHEMA
    assert "price: 9.5" in text_of(answer)
    assert called(tools, "fetch", {"id": "tar", "max_tokens": 200}).structured_content["metadata"]["version"] == "1.35"

    async def read() -> str:
        async with connected(tools) as client:
            return str((await client.read_resource("retrieve://record/1")).contents[0].text)

    text = anyio.run(read)
    assert "price: 9.5\nversion: 1.12\n" in text
    assert text.endswith("\n\ngzip: compresses files")
