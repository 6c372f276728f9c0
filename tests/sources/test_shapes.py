"""JSON as other programs write it: lists within objects, objects over several lines, records within envelopes."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from samples import Program, fails, succeeds

TOOLS: list[dict[str, Any]] = [
    {"name": f"tool{number}", "description": f"Does the work number {number} of many."} for number in range(3)
]
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}}
PAGE = "The text of a page about kettles."


def frame(orient: Any) -> str:
    import pandas as pd

    buffer = io.StringIO()
    pd.DataFrame(TOOLS).to_json(buffer, orient=orient)
    return buffer.getvalue()


FILES: dict[str, Any] = {
    "tools.json": {"tools": TOOLS},
    "results.json": json.dumps({"count": 3, "next": None, "results": TOOLS}, indent=2),
    "nested.json": {"jsonrpc": "2.0", "id": 1, "result": {"items": TOOLS, "nextCursor": "x"}},
    "pretty.json": "\n".join(json.dumps(tool, indent=2) for tool in TOOLS),
    "commas.json": ",\n".join(json.dumps(tool, indent=4) for tool in TOOLS),
    "pages.jsonl": "\n".join(json.dumps({"page": number, "results": [tool]}) for number, tool in enumerate(TOOLS)),
    "functions.json": [{"type": "function", "function": tool} for tool in TOOLS],
    "functions.jsonl": "\n".join(json.dumps({"type": "function", "function": tool}) for tool in TOOLS),
    "mapping.json": {f"m{number}": tool for number, tool in enumerate(TOOLS)},
    "columns.json": frame("columns"),
    "index.json": frame("index"),
    "split.json": frame("split"),
    "table.json": frame("table"),
}


def records(retrieve: Program, name: str, content: object) -> list[dict[str, Any]]:
    Path(name).write_text(content if isinstance(content, str) else json.dumps(content))
    succeeds(retrieve("build", name))
    found: list[dict[str, Any]] = retrieve("inspect", "records", "--json").json["records"]
    return found


@pytest.mark.parametrize("name", FILES)
def test_a_list_in_an_object_and_objects_over_several_lines_are_records(name: str, retrieve: Program) -> None:
    found = records(retrieve, name, FILES[name])
    assert [{key: record[key] for key in ("name", "description")} for record in found] == TOOLS
    assert name == "mapping.json" or [record["id"] for record in found] == [tool["name"] for tool in TOOLS]


@pytest.mark.parametrize(
    ("content", "wanted"),
    [
        ([{"type": "function", "function": {**TOOLS[0], "parameters": SCHEMA}}],
         {"id": "tool0", "name": "tool0", "description": TOOLS[0]["description"], "tool": "tool0",
          "definition": {"type": "function", "function": {**TOOLS[0], "parameters": SCHEMA}}}),
        ({"tools": [{**TOOLS[0], "inputSchema": SCHEMA}]},
         {"id": "tool0", "definition": {**TOOLS[0], "inputSchema": SCHEMA}}),
        ([{"id": "d1", "metadata": {"source": "a.md"}, "page_content": PAGE, "type": "Document"}],
         {"id": "d1", "description": PAGE, "source": "a.md"}),
        ([{"lc": 1, "type": "constructor", "id": ["langchain", "Document"],
           "kwargs": {"id": "d1", "metadata": {"source": "a.md"}, "page_content": PAGE}}],
         {"id": "d1", "description": PAGE, "source": "a.md"}),
        ({"docstore/data": {"n1": {"__data__": {"id_": "n1", "text": PAGE, "metadata": {"source": "a.md"}}}},
          "docstore/metadata": {"n1": {"doc_hash": "x"}}}, {"id": "n1", "description": PAGE, "source": "a.md"}),
        ([{"id_": "n1", "text_resource": {"text": PAGE}, "metadata": {}}], {"id": "n1", "description": PAGE}),
        ({"title": "Bug", "labels": [{"name": "bug", "description": "Something is wrong"}], "body": None},
         {"id": "Bug", "name": "Bug"}),
    ],
)  # fmt: skip
def test_a_record_keeps_id_name_description_and_parameters(
    content: Any, wanted: dict[str, Any], retrieve: Program
) -> None:
    (record,) = records(retrieve, "one.json", json.dumps(content, indent=1))
    assert {key: (record | record["metadata"]).get(key) for key in wanted} == wanted
    (record,) = records(retrieve, "line.json", content)
    assert {key: (record | record["metadata"]).get(key) for key in wanted} == wanted


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"tools": TOOLS, "prompts": TOOLS}, "several lists of records: `.tools` (3), `.prompts` (3)"),
        ({"data": {"rows": [["a", "b"]]}}, "a list of lists, not of objects: `.data.rows` (1)"),
    ],
)
def test_an_unknown_shape_is_one_sentence_that_names_the_list(content: Any, message: str, retrieve: Program) -> None:
    for indent in (None, 2):
        Path("odd.json").write_text(json.dumps(content, indent=indent))
        done = fails(retrieve("build", "odd.json"), 2, message)
        assert "jq '.tools'" in done.err or "jq '.data.rows'" in done.err


@pytest.mark.parametrize(
    "row",
    [
        {"id": "a", "keywords": ["kettles"], "requires": [{"name": "b"}]},
        {"title": "A", "authors": [{"name": "x"}]},
        {"Summary": "Boils water", "labels": [{"name": "y", "description": "of a label"}]},
    ],
)
def test_records_with_lists_of_objects_stay_records(row: dict[str, Any], retrieve: Program) -> None:
    assert len(records(retrieve, "one.jsonl", row)) == 1
    assert len(records(retrieve, "two.jsonl", f"{json.dumps(row)}\n{json.dumps({**row, 'id': 'z'})}\n")) == 2


@pytest.mark.parametrize(
    "content",
    [
        '{"__data__":' * 900 + '{"name": "x"}' + "}" * 900,
        '{"id": null, "name": "a", "x":' + '{"a":' * 400 + "1" + "}" * 401,
        '{\n"name": "x", "n": 12345678901234567890123456789, "s": "\\ud800"}',
        '{\n"name": "x",\n"n": 1',
        "{\n}",
        '{"data": {"0": {}}}',
    ],
)
def test_odd_json_is_rejected_with_a_reason(content: str, retrieve: Program) -> None:
    Path("odd.json").write_text(content)
    done = retrieve("build", "odd.json")
    assert done.code in (2, 8), done.err
    assert "this is a bug" not in done.err
