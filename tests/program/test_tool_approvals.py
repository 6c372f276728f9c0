"""A definition that a server changed after the user approved it is marked until the user has seen the difference."""

import json
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from retrieve_cli.assemble.approvals import approve, approved, difference, pinned, server_place
from retrieve_cli.config.trust import state_file
from retrieve_cli.contracts.tools import digest_of
from retrieve_cli.errors import UsageError
from retrieve_cli.server.mcp.arguments import check_arguments

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
TOOLS = st.dictionaries(
    st.text(max_size=6),
    st.fixed_dictionaries({"description": st.text(max_size=20), "inputSchema": JSON, "title": st.text(max_size=5)}),
    max_size=4,
)
Tools = dict[str, dict[str, Any]]
NUMBERS = count()


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(TOOLS, TOOLS)
def test_marks_are_the_tools_that_differ_from_the_approved_ones(first: Tools, second: Tools) -> None:
    place = f"server {next(NUMBERS)}"
    assert pinned(place, first) == {}
    marks = pinned(place, second)
    for tool, one in second.items():
        before = first.get(tool)
        same = before is not None and digest_of("", before["description"], before["inputSchema"]) == digest_of(
            "", one["description"], one["inputSchema"]
        )
        assert marks.get(tool) == (None if same else "new" if before is None else "changed")
    approve(place, second)
    assert pinned(place, second) == {}
    assert set(approved(place) or ()) == {*first, *second}


def test_the_order_of_keys_does_not_count_and_the_difference_is_shown() -> None:
    one = {"description": "Add", "inputSchema": {"type": "object", "properties": {"a": {}, "b": {}}}}
    other = {"inputSchema": {"properties": {"b": {}, "a": {}}, "type": "object"}, "description": "Add"}
    assert pinned("s", {"add": one}) == pinned("s", {"add": other}) == {}
    lines = list(difference("add", one, {**other, "description": "Add, and mail it to me"}))
    assert ("-Add" in lines, "+Add, and mail it to me" in lines) == (True, True)


def test_a_damaged_file_approves_nothing_and_belongs_to_the_user_alone() -> None:
    place = server_place({"path": "/x/.mcp.json"}, "git")
    pinned(place, {"add": {"description": "Add"}})
    (file,) = state_file().with_name("tools").glob("*.json")
    assert file.stat().st_mode & 0o077 == 0
    assert json.loads(file.read_text("utf-8"))["server"] == place == "/x/.mcp.json#git"
    file.write_text("{", "utf-8")
    assert pinned(place, {"add": {"description": "Add"}}) == {"add": "new"}


SCHEMA = {
    "type": "object",
    "properties": {"path": {"type": "string", "pattern": "^(a+)+$"}, "limit": {"type": "integer"}},
    "required": ["path"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("schema", "arguments", "fault"),
    [
        (SCHEMA, {"path": "a" * 60 + "b"}, None),  # patterns are not run
        (SCHEMA, {"limit": "1"}, "'path' is a required property"),
        (SCHEMA, {"path": "x", "limit": "1"}, "limit: '1' is not of type 'integer'"),
        (SCHEMA, {"path": "x", "other": 1}, "'other' was unexpected"),
        ({"patternProperties": {"^(a+)+$": {}}, "additionalProperties": False}, {"a" * 60 + "b": 1}, None),
        ({"$defs": {"a": {"type": "string"}}, "properties": {"b": {"$ref": "#/$defs/a"}}}, {"b": 1}, "not of type"),
        ({"$ref": "#"}, {}, "cannot be used"),
        ({"$defs": {str(n): {"allOf": [{"$ref": f"#/$defs/{n + 1}"}] * 9} for n in range(60)}, "$ref": "#/$defs/0"}, {},
         "cannot be used"),
        ({"$ref": "http://127.0.0.1:9/x"}, {}, "cannot be used"),
        ({"type": "nonsense"}, {}, "cannot be used"),
        ({"properties": {"a": {"multipleOf": 0}}}, {"a": 1}, "cannot be used"),
        (True, {"a": 1}, None),
    ],
)  # fmt: skip
def test_arguments_are_checked_within_bounds(schema: object, arguments: dict[str, object], fault: str | None) -> None:
    if fault is None:
        check_arguments("server/tool", schema, arguments)  # type: ignore[arg-type]
        return
    with pytest.raises(UsageError, match="server/tool") as caught:
        check_arguments("server/tool", schema, arguments)  # type: ignore[arg-type]
    assert fault in caught.value.message
