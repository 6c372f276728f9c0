"""The schema of a request and its reader say the same: what one allows, the other does."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given, strategies as st
from jsonschema import Draft202012Validator

from retrieve_cli.api.asked import read_asked
from retrieve_cli.api.choices import SEARCH
from retrieve_cli.api.requests import Choices
from retrieve_cli.api.table import PYTHON
from retrieve_cli.contracts import FileHead
from retrieve_cli.errors import UsageError

FIELDS, ALIASES, schema = SEARCH.of_json, SEARCH.aliases, SEARCH.schema
VALIDATOR = Draft202012Validator(schema())
HEAD = base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()

anything = st.recursive(
    st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)


def valid(fragment: Any) -> st.SearchStrategy[Any]:
    """Values that are meant to satisfy a fragment of the schema; patterns are left to chance."""
    if "enum" in fragment:
        return st.sampled_from(fragment["enum"])
    kinds = fragment["type"] if isinstance(fragment["type"], list) else [fragment["type"]]
    return st.one_of([_of_kind(kind, fragment) for kind in kinds])


def _of_kind(kind: str, fragment: Any) -> st.SearchStrategy[Any]:
    low, high = fragment.get("minimum"), fragment.get("maximum")
    if kind == "array":
        return st.lists(valid(fragment["items"]), min_size=fragment.get("minItems", 0), max_size=3)
    if kind == "object":
        return _objects(fragment)
    edges = st.sampled_from([edge + step for edge in (low, high) if edge is not None for step in (-1, 0, 1)] or [0])
    return {
        "string": st.text(max_size=6) | st.sampled_from(["scan.dcm", "..", "a/b", HEAD, HEAD[:-1]]),
        "integer": st.integers(low, high) | edges | edges.map(float),
        "number": st.floats(low, high, allow_nan=False, allow_infinity=False) | edges,
        "boolean": st.booleans(),
    }[kind]


def _objects(fragment: Any) -> st.SearchStrategy[Any]:
    known, others = fragment.get("properties", {}), fragment.get("additionalProperties")
    named = st.fixed_dictionaries(
        {key: valid(known[key]) for key in fragment.get("required", ())},
        optional={key: valid(inner) for key, inner in known.items() if key not in fragment.get("required", ())},
    )
    free = valid(others) if others else st.none()
    return named if not others else st.dictionaries(st.text(max_size=4), free, max_size=3)


items = st.one_of(
    st.fixed_dictionaries(
        {asked: valid(FIELDS[asked].schema)},
        optional={key: valid(field.schema) | anything for key, field in FIELDS.items() if key != asked},
    )
    for asked in ("query", "like")
) | st.dictionaries(st.sampled_from([*FIELDS, "limits", ""]), anything, max_size=3)


def accepted(item: dict[str, Any]) -> bool:
    try:
        read_asked(item)
    except UsageError:
        return False
    return True


@given(items)
def test_the_reader_accepts_what_the_schema_does(item: dict[str, Any]) -> None:
    reads, allows = accepted(item), VALIDATOR.is_valid(item)
    if isinstance(item.get("filters"), dict) or _same_names(item):  # the schema knows no language and compares no names
        assert allows or not reads
    else:
        assert reads == allows, item


def _same_names(item: dict[str, Any]) -> bool:
    heads = item.get("files")
    names = [head["name"] for head in heads if "name" in head] if _are_objects(heads) else []
    return len({json.dumps(name) for name in names}) < len(names)


def _are_objects(heads: Any) -> bool:
    return isinstance(heads, list) and all(isinstance(head, dict) for head in heads)


def test_the_schema_is_one() -> None:
    Draft202012Validator.check_schema(schema())
    assert set(schema()["properties"]) == {*FIELDS, *ALIASES}
    assert set(schema(["query", "limit"])["properties"]) == {"query", "limit"}
    assert schema(["query", "limit"])["required"] == ["query"]


def test_the_arguments_of_python_are_those_of_the_table() -> None:
    """Type checkers read the class, and the program reads the table."""
    rows = SEARCH.in_door(PYTHON).values()
    assert set(Choices.__annotations__) == {name for row in rows for name in (row.name, *row.aliases)}


@pytest.mark.parametrize(
    ("item", "message", "hint"),
    [
        ({}, "no query", '"query"'),
        ({"query": 5}, "`query` of the request must be a string, not 5", "The query"),
        ({"query": "a", "limt": 3}, "unknown key 'limt'", "did you mean `limit`?"),
        ({"query": "a", "limit": 0}, "`limit` of the request must be from 1 to 1,000, not 0", "Number of results"),
        ({"query": "a", "also": ["b", 1]}, "item 2 of `also`", ""),
        ({"query": "a", "mode": "hybird"}, "unknown value 'hybird' of `mode`", "did you mean `hybrid`?"),
        ({"query": "a", "min_score": float("nan")}, "must be a number", ""),
        ({"query": "a", "filters": {"license": {"nto": "MIT"}}}, "'nto'", "did you mean `not`?"),
    ],
    ids=str,
)
def test_an_error_names_the_key_and_what_it_takes(item: dict[str, Any], message: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_asked(item)
    assert message in caught.value.message
    assert hint in caught.value.hint


def test_a_key_that_is_null_is_absent() -> None:
    assert read_asked({"query": "a", **dict.fromkeys(FIELDS.keys() - {"query"})}) == read_asked({"query": "a"})


def test_a_credential_decides_on_the_tenant() -> None:
    assert read_asked({"query": "a"}, tenant="acme").request.tenant == "acme"
    assert read_asked({"query": "a", "tenant_id": "acme"}, tenant="acme").request.tenant == "acme"
    for key in ("tenant", "tenant_id"):
        with pytest.raises(UsageError, match="globex"):
            read_asked({"query": "a", key: "globex"}, tenant="acme")


# --------------------------------------------------------------------------------------------------- files


def test_beginnings_of_files_are_kept_by_their_names() -> None:
    read = read_asked({"query": "a", "files": [{"name": "scan.png", "head_base64": HEAD}]})
    assert read.request.heads == (FileHead("scan.png", b"\x89PNG\r\n\x1a\n"),)
    assert read.request.files == ()


@pytest.mark.parametrize(
    "files",
    [
        ["/etc/passwd"],
        [{"name": "a.png", "head_base64": HEAD}, "b.png"],
        "scan.png",
        [{"name": "scan.png"}],
        [{"name": "scan.png", "head_base64": HEAD, "path": "/etc/passwd"}],
        *([{"name": name, "head_base64": HEAD}] for name in ("../a.png", "a\\b", "/a", "", ".", "..", "a\0", "a\n")),
        [{"name": "x" * 256, "head_base64": HEAD}],
        [{"name": "a.png", "head_base64": HEAD}] * 2,
        [{"name": f"{number}.png", "head_base64": HEAD} for number in range(9)],
        [{"name": "a.png", "head_base64": "no Base64"}],
        [{"name": "a.png", "head_base64": base64.b64encode(b"a" * 1_000_001).decode()}],
    ],
    ids=lambda files: str(files)[:40],
)  # fmt: skip
def test_no_file_of_the_server_is_named(files: Any) -> None:
    with pytest.raises(UsageError, match=r"files|head_base64|name"):
        read_asked({"query": "a", "files": files})
