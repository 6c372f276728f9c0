"""MCP: search_tools, describe_tool and list_servers; an index says what it has."""

import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from mcp_clients import called, connected, text_of
from servers import built

from retrieve_cli.assemble.tokenizers import most_tokens
from retrieve_cli.cli.main import main
from retrieve_cli.search.tool_records import arguments_line
from retrieve_cli.sources.catalogs.tools import tool_item

_SCHEMA = {
    "type": "object",
    "properties": {
        "max_count": {"type": "integer", "default": 10},
        "since": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
        "order": {"enum": ["date", "topo"]},
        "repo_path": {"type": "string"},
    },
    "required": ["repo_path"],
}
_LOG = {"name": "git_log", "description": "Shows the commit logs", "inputSchema": _SCHEMA}


def _item(name: str, description: str, server: str, **marks: str) -> dict[str, Any]:
    definition = {**_LOG, "name": name, "description": description}
    return {**tool_item(definition, server=server, about=f"Server of {server}."), **marks}


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """An index of thirty tools of three servers."""
    records = [_item("git_log", "Shows the commit logs", "git"), _item("git_add", "Adds files", "git")]
    records += [_item(f"read_{number}", f"Reads file {number} from the disk", "files") for number in range(27)]
    records.append(_item("read_0", "Reads a note", "notes", approval="changed", stale="2026-11-01T10:00:00Z"))
    return built(tmp_path, records)


def names_of(artifacts: Path) -> list[str]:
    """Return the names of the tools that a client lists."""

    async def read() -> list[str]:
        async with connected(artifacts) as client:
            return [tool.name for tool in (await client.list_tools()).tools]

    return anyio.run(read)


def test_the_tools_that_are_listed_go_with_the_records(tools: Path, tmp_path: Path) -> None:
    finding = ["search_tools", "describe_tool", "list_servers"]
    reading = ["search", "fetch", "list_fields", "explain"]
    assert names_of(tools) == finding
    folders = [tmp_path / "records", tmp_path / "mixed"]
    for folder in folders:
        folder.mkdir()
    assert names_of(built(folders[0])) == reading
    record = {"id": "a", "name": "Logs of trees", "description": "Wood"}
    both = built(folders[1], [_item("git_log", "Logs", "git"), record])
    assert names_of(both) == [*reading, *finding]
    found = called(both, "search_tools", {"task": "logs"}).structured_content
    assert [tool["key"] for tool in found["tools"]] == ["git/git_log"]
    assert found["total"] == 1


def test_an_answer_has_key_line_and_arguments_of_each_tool_and_how_many_there_are(tools: Path) -> None:
    answer = called(tools, "search_tools", {"task": "show commits", "limit": 1})
    arguments = "repo_path, max_count?: integer = 10, since?, order?: date|topo"
    assert text_of(answer) == f"1 of 30 tools\n1. git/git_log: Shows the commit logs\n   {arguments}"
    (tool,) = answer.structured_content["tools"]
    assert tool == {
        "key": "git/git_log",
        "server": "git",
        "description": "Shows the commit logs",
        "arguments": arguments,
    }


def test_an_answer_equals_that_of_a_query(tools: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = called(tools, "search_tools", {"task": "read the disk", "server": "files", "exclude": ["files/read_3"]})
    flags = ["--filter", "server=files", "--filter", "!id=files/read_3", "-k", "5", "-l"]
    capsys.readouterr()
    assert main(["query", "read the disk", *flags, "--artifacts", str(tools)]) == 0
    keys = [tool["key"] for tool in found.structured_content["tools"]]
    assert keys == capsys.readouterr().out.split()
    assert text_of(found).startswith("5 of 26 tools\n")


def test_all_tools_that_a_task_names_are_in_its_answer(tools: Path) -> None:
    keys = [f"files/read_{number}" for number in range(9)]
    answer = called(tools, "search_tools", {"task": f"call {', then '.join(keys)}", "exclude": [keys[0]]})
    assert [tool["key"] for tool in answer.structured_content["tools"]] == keys[1:]


def test_a_tool_is_excluded_by_key_or_by_name_and_resembles_another(tools: Path) -> None:
    answer = called(tools, "search_tools", {"task": "read", "exclude": ["read_0", "files/read_1"], "limit": 50})
    keys = [tool["key"] for tool in answer.structured_content["tools"]]
    assert not {"files/read_0", "notes/read_0", "files/read_1"} & {*keys}
    assert answer.structured_content["total"] == 27
    alike = called(tools, "search_tools", {"task": "read", "like": "git_log"}).structured_content
    assert "git/git_log" not in [tool["key"] for tool in alike["tools"]]


def test_marks_are_in_words(tools: Path) -> None:
    marks = "changed since approval, no answer since 2026-11-01T10:00:00Z"
    assert f"notes/read_0 ({marks})" in text_of(called(tools, "search_tools", {"task": "note"}))
    answer = called(tools, "describe_tool", {"key": "notes/read_0"})
    assert "`retrieve trust` shows the difference" in text_of(answer)
    assert answer.structured_content["approval"] == "changed"
    assert text_of(called(tools, "list_servers", {})).splitlines() == [
        "3 of 3 servers, 30 tools in all",
        "files: 27 tools - Server of files.",
        "git: 2 tools - Server of git.",
        "notes: 1 tool (1 changed, no answer since 2026-11-01T10:00:00Z) - Server of notes.",
    ]


def test_a_definition_is_the_same_value_that_the_server_sent(tools: Path) -> None:
    answer = called(tools, "describe_tool", {"key": "git_log"})
    assert json.dumps(answer.structured_content["definition"]) == json.dumps(_LOG)
    assert json.loads(text_of(answer).splitlines()[2]) == _LOG


def test_errors_name_the_nearest_tool_and_server(tools: Path) -> None:
    for tool, arguments, message in (
        ("describe_tool", {"key": "git_lag"}, "did you mean git/git_log?"),
        ("describe_tool", {"key": "read_0"}, "give the key of one: files/read_0, notes/read_0"),
        ("search_tools", {"task": "x", "server": "gti"}, "there is no server 'gti'; did you mean git?"),
        ("search_tools", {"task": "x", "exclude": ["git_lo"]}, "did you mean git/git_log?"),
        ("search_tools", {"task": "x", "limit": 51}, "limit is a whole number from 1 to 50"),
        ("search_tools", {"server": "git"}, "search_tools needs task"),
    ):
        answer = called(tools, tool, arguments)
        assert answer.is_error
        assert message in text_of(answer)


_HOSTILE = st.text(st.sampled_from("a語\x1b\u202e😀 ไ\n\u2028_`Я"), min_size=1, max_size=300)
_ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | _HOSTILE,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_HOSTILE, inner, max_size=4),
    max_leaves=8,
)
_SCHEMAS = st.fixed_dictionaries(
    {
        "properties": st.dictionaries(_HOSTILE, _ANY, max_size=9) | _ANY,
        "required": st.lists(_HOSTILE, max_size=3) | _ANY,
    }
)


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(_HOSTILE, _HOSTILE, _SCHEMAS), min_size=5, max_size=7), st.integers(60, 400))
def test_answers_are_bounded_whatever_the_definitions_are(
    tmp_path_factory: pytest.TempPathFactory, given_tools: list[tuple[str, str, Any]], most: int
) -> None:
    definitions = [
        {"name": f"{name.strip() or 'x'}{number}", "description": f"note {about}", "inputSchema": schema}
        for number, (name, about, schema) in enumerate(given_tools)
    ]
    names = [name.strip() or "s" for name, _, _ in given_tools]
    items = (tool_item(each, server=name, about=name) for each, name in zip(definitions, names, strict=True))
    records = [{**item, "id": f"s/{number}"} for number, item in enumerate(items)]
    artifacts = built(tmp_path_factory.mktemp("hostile"), records, "--max-fail", "1")
    count = most_tokens()
    for tool, arguments, limit in (
        ("search_tools", {"task": "note"}, 400),
        ("describe_tool", {"key": "s/0", "max_tokens": most}, most),
        ("list_servers", {"max_tokens": most}, most),
    ):
        answer = called(artifacts, tool, arguments, texts="both")
        text = text_of(answer)
        if answer.is_error:
            assert "raise max_tokens" in text
            continue
        assert count(text) <= limit
        assert count(json.dumps(answer.structured_content, ensure_ascii=False, separators=(",", ":"))) <= limit
        assert not {*text} & {*"\x1b\u202e\u2028"}
    assert len(called(artifacts, "search_tools", {"task": "note"}).structured_content["tools"]) == 5


def test_arguments_are_read_in_the_spellings_of_other_sources() -> None:
    schema = {"properties": {"city": {"type": "string"}, "days": {"type": "integer"}}, "required": ["city"]}
    assert (
        arguments_line({"type": "function", "function": {"name": "x", "parameters": schema}}) == "city, days?: integer"
    )
    assert arguments_line({"name": "x", "input_schema": schema}) == "city, days?: integer"
    operation = {
        "parameters": [{"name": "id", "in": "path", "required": True, "schema": {"type": "integer"}}],
        "requestBody": {"content": {"application/json": {"schema": schema}}},
    }
    assert arguments_line(operation) == "id: integer, city, days?: integer"


@given(_ANY | _SCHEMAS)
def test_arguments_are_one_line_of_any_schema(schema: Any) -> None:
    for key in ("inputSchema", "function", "parameters", "requestBody"):
        assert arguments_line({key: schema}).isprintable()


def test_a_schema_that_does_not_fit_is_cut_at_whole_arguments(tmp_path: Path) -> None:
    properties = {f"argument_{number}": {"type": "string", "description": "Long text."} for number in range(300)}
    definition = {"name": "wide", "description": "Wide", "inputSchema": {"type": "object", "properties": properties}}
    artifacts = built(tmp_path, [tool_item(definition, server="s")])
    answer = called(artifacts, "describe_tool", {"key": "wide", "max_tokens": 500})
    kept = answer.structured_content["definition"]["inputSchema"]["properties"]
    assert kept == dict([*properties.items()][: len(kept)])
    assert 5 < len(kept) < 300
    assert f"{len(kept)} of 300 arguments" in text_of(answer)
    assert most_tokens()(text_of(answer)) <= 500


def test_servers_are_paged(tmp_path: Path) -> None:
    artifacts = built(tmp_path, [_item("tool", f"Tool {number}", f"server {number:03}") for number in range(90)])
    names: list[str] = []
    arguments: dict[str, Any] = {"max_tokens": 400}
    while "cursor" not in arguments or arguments["cursor"]:
        answer = called(artifacts, "list_servers", arguments).structured_content
        names += [server["name"] for server in answer["servers"]]
        arguments["cursor"] = answer.get("next_cursor")
    assert names == [f"server {number:03}" for number in range(90)]


def test_an_index_says_what_it_is(tools: Path, tmp_path: Path) -> None:
    async def read(artifacts: Path) -> tuple[str, str, str]:
        async with connected(artifacts, mode="legacy") as client:
            first = (await client.list_tools()).tools[0]
            return str(client.instructions), str(first.description), str(client.server_info.title)

    instructions, description, title = anyio.run(read, tools)
    assert description.startswith("Search 30 tools of 3 servers: files, git, notes; ")
    assert instructions.startswith("This index has 30 tools of 3 servers: files, git, notes. Call `search_tools`")
    assert title == "retrieve"
    named = tmp_path / "named"
    named.mkdir()
    records = [_item("git_log", "Logs", "git")]
    artifacts = built(named, records, "--name", "Lab", "--describe", "Tools of our lab")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RETRIEVE_ENCODER__KIND", "hashed")
        assert main(["sync", "--artifacts", str(artifacts), "-q"]) == 0
    instructions, description, title = anyio.run(read, artifacts)
    assert (description.partition(";")[0], title) == ("Search Lab: Tools of our lab", "Lab")
    assert instructions.startswith("Lab: Tools of our lab. This index has 1 tool of 1 server: git.")


def test_a_tenant_is_told_nothing_of_the_tools_of_others(tmp_path: Path) -> None:
    records = [
        {**_item("git_log", "Logs", "git"), "tenant": "a"},
        {**_item("secret", "Other", "hidden"), "tenant": "b"},
    ]
    artifacts = built(tmp_path, records)

    async def read() -> str:
        async with connected(artifacts, tenant="a") as client:
            shown = [str(client.instructions), (await client.list_tools()).model_dump_json()]
            for name, arguments in (
                ("search_tools", {"task": "secret other"}),
                ("search_tools", {"task": "x", "server": "hiden"}),
                ("describe_tool", {"key": "secre"}),
                ("list_servers", {}),
            ):
                shown.append((await client.call_tool(name, arguments)).model_dump_json())
            return "\n".join(shown)

    text = anyio.run(read)
    assert "1 tool of 1 server: git" in text
    assert "hidden" not in text
    assert "secret" not in text.replace("secret other", "")


def test_records_of_a_catalog_with_a_column_of_that_name_are_no_tools(tmp_path: Path) -> None:
    records = [{"id": name, "name": name, "description": "hit a nail", "tool": "hammer"} for name in ("a", "b")]
    artifacts = built(tmp_path, [*records, _item("hit", "Hits a nail", "box")])
    answer = called(artifacts, "search_tools", {"task": "hit a nail"})
    assert [tool["key"] for tool in answer.structured_content["tools"]] == ["box/hit"]
    assert text_of(called(artifacts, "list_servers", {})).startswith("1 of 1 server, 1 tool in all")
    assert called(artifacts, "describe_tool", {"key": "a"}).is_error
    assert "definition_digest" not in text_of(called(artifacts, "list_fields", {}))
