"""The key of records without an id: what decides it, and that an edit of any other cell never changes it."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from samples import Program, fails, succeeds

import retrieve_cli as retrieve_package
from retrieve_cli.sources.catalogs.keys import CatalogKey, find_key, sentences, with_key
from retrieve_cli.sources.fields import FieldMap

KNOWN = FieldMap.of({})
TOOLS: list[dict[str, Any]] = [
    {"name": f"Tool {number}", "sku": f"s-{number}", "description": f"Does the work number {number} of many."}
    for number in range(1, 6)
]


def ids(rows: list[dict[str, Any]]) -> list[str]:
    """The keys of rows; empty where the whole row is the key."""
    key = find_key(rows, KNOWN)
    return [str(row.get("id", "")) if key is None else str(with_key(row, KNOWN, key).get("id", "")) for row in rows]


@pytest.mark.parametrize(
    ("rows", "column"),
    [
        ([{"name": "a", "url": "u", "slug": "s", "key": "k", "package": "p", "sku": "x"}], "sku"),
        ([{"name": "a", "url": "u", "key": "k", "slug": "s", "Package": "p"}], "Package"),
        ([{"name": "a", "key": "k", "slug": "s"}], "slug"),
        ([{"name": "a", "url": "u", "tool_id": 7}], "tool_id"),
        ([{"name": "a", "url": "u", "author_id": 7}], "url"),
        ([{"sku": "x", "ID": 7, "name": "a"}, {"sku": "y", "ID": 7, "name": "b"}], "ID"),
        ([{"sku": "x", "name": "a"}, {"sku": "x", "name": "b"}], "name"),  # not unique
        ([{"sku": "x", "name": "a"}, {"name": "b"}], "name"),  # not in every row
        ([{"sku": "x" * 201, "title": "a"}], "title"),  # not short
        ([{"sku": ["x"], "title": "a"}, {"sku": ["y"], "title": "b"}], "title"),
        ([{"sku": "x", "name": "a"}, {"sku": "x", "name": "a"}], "sku"),  # the same record twice
        ([{"name": "a", "text": "b"}, {"name": "a", "text": "c"}], ""),
        ([{"id": "1", "sku": "x"}, {"sku": "y"}], ""),
    ],
)
def test_the_key_is_the_best_column_that_is_unique_present_and_short(rows: list[dict[str, Any]], column: str) -> None:
    key = find_key(rows, KNOWN)
    assert key is not None
    assert key.column == column


def test_records_that_share_title_and_url_are_known_by_their_whole_row_and_that_is_said() -> None:
    rows = [{"name": "a", "text": text} for text in "xy"] + [{"name": "b", "text": "z"}, {"text": "no title"}]
    assert [bool(text) for text in ids(rows)] == [False, False, True, False]
    key = find_key(rows, KNOWN)
    assert isinstance(key, CatalogKey)
    told, both = sentences(rows, KNOWN, key)
    assert "the whole row for 3 records: an edit will look like a new record" in told
    assert both == "title: name, body: text"


CELL = st.sampled_from(["", "a", "b", "a long text of some words"]) | st.integers(0, 3)
ROWS = st.lists(st.fixed_dictionaries(dict.fromkeys(("slug", "name", "note", "price"), CELL)), min_size=1, max_size=6)


@given(ROWS, st.integers(0, 5), st.sampled_from(["note", "price", "new column"]), CELL)
@settings(max_examples=300)
def test_editing_a_cell_that_is_not_in_the_key_changes_no_id(
    rows: list[dict[str, Any]], place: int, column: str, value: Any
) -> None:
    rows = [{**row, "description": str(number)} for number, row in enumerate(rows)]
    edited = [dict(row) for row in rows]
    edited[place % len(rows)][column] = value
    assert ids(edited) == ids(rows)


def test_a_sync_of_an_edited_table_changes_its_record_and_of_an_added_column_no_id(retrieve: Program) -> None:
    def write(rows: list[dict[str, Any]]) -> None:
        Path("t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    write(TOOLS)
    built = succeeds(retrieve("build", "t.jsonl"))
    assert "t.jsonl: key: sku\nt.jsonl: title: name, body: description\n" in built.err
    write([{**TOOLS[0], "description": "Boils water now.", "name": "Kettle"}, *TOOLS[1:]])
    (hit,) = retrieve("query", "tool 1", "-k", "1", "--json").json["results"]
    assert (hit["doc_id"], hit["freshness"]) == ("s-1", "changed")
    assert retrieve("query", "tool 2", "-k", "1", "--json").json["results"][0]["freshness"] == "fresh"
    done = retrieve("sync", "--json").json
    assert (done["added"], done["changed"], done["removed"]) == (0, 1, 0)
    write([{**row, "color": "red"} for row in TOOLS])
    done = retrieve("sync", "--json").json
    assert (done["added"], done["changed"], done["removed"]) == (0, 5, 0)
    for rows in (TOOLS[:2], [{"name": row["name"], "url": "u", "text": row["description"]} for row in TOOLS]):
        write(rows)
        succeeds(retrieve("sync", "--max-shrink", "1"))
        succeeds(retrieve("sync", "--verify"))
    assert retrieve("query", "tool 2", "-k", "1", "--json").json["results"][0]["freshness"] == "fresh"


def test_a_record_that_is_added_again_under_its_key_replaces_the_first() -> None:
    index = retrieve_package.build([{key: row[key] for key in ("name", "description")} for row in TOOLS])
    index.add({"name": "Tool 1", "description": "Boils water now.", "sku": "another column"})
    index.add({"name": "Kettle", "description": "Boils water."})
    index.add({"name": "Kettle", "description": "Boils water for tea."})
    assert len(index) == len(TOOLS) + 1
    assert index.record("Kettle")["description"] == "Boils water for tea."


def test_each_source_has_its_own_id_and_fields(retrieve: Program) -> None:
    Path("a.csv").write_text("code,what,words\nx1,Kettle,boils water for tea\nx2,Pot,makes coffee\n")
    Path("b.csv").write_text("id,Artikel,title\n1,Pfanne,brät Eier\n2,Topf,kocht Suppe\n")
    entries = [
        {"kind": "catalog", "path": "a.csv", "id": "code", "fields": {"what": "name", "words": "description"}},
        {"kind": "catalog", "path": "b.csv", "id": "Artikel", "fields": {"Artikel": "name", "title": "remarks"}},
    ]
    Path("config.yaml").write_text(json.dumps({"sources": entries}))
    succeeds(retrieve("build"))
    found = retrieve("inspect", "records", "--json").json["records"]
    assert [(record["id"], record["name"]) for record in found] == [
        ("x1", "Kettle"),
        ("x2", "Pot"),
        ("Pfanne", "Pfanne"),
        ("Topf", "Topf"),
    ]
    assert [record["texts"].get("remarks") for record in found] == [None, None, "brät Eier", "kocht Suppe"]
    Path("b.csv").write_text("id,Artikel,title\n1,Pfanne,brät Fisch\n2,Topf,kocht Suppe\n")
    hits = retrieve("query", "Pfanne Topf", "-k", "2", "--json").json["results"]
    assert {hit["doc_id"]: hit["freshness"] for hit in hits} == {"Pfanne": "changed", "Topf": "fresh"}
    Path("config.yaml").write_text("")  # the index names its sources with their id and fields
    done = retrieve("sync", "--json").json
    assert (done["added"], done["changed"], done["removed"]) == (0, 1, 0)
    entries[0]["id"] = "kode"
    Path("config.yaml").write_text(json.dumps({"sources": entries}))
    fails(retrieve("build"), 2, "a.csv has no column 'kode', which is its id")
    Path("config.yaml").write_text(json.dumps({"sources": [{"kind": "docs", "path": ".", "id": "code"}]}))
    fails(retrieve("build"), 2, "has `id` or `fields`, and is of kind docs")
