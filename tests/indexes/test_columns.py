"""Columns of metadata: conditions by example, limits, kept records against a fresh build, damage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from column_samples import Row, columns, record, row_values, tables, written
from hypothesis import given, strategies as st

from retrieve_cli.errors import IndexCorrupt, UsageError
from retrieve_cli.storage.records.columns import Columns
from retrieve_cli.storage.records.columns_writer import ColumnsWriter
from retrieve_cli.storage.records.stored_columns import StoredColumns
from retrieve_cli.storage.records.suggestions import common_values, offered, record_near, value_near


def selected(rows: Sequence[Row], field: str, operator: str, *values: str, globs: Sequence[str] = ()) -> list[str]:
    found = columns(rows).select(field, operator, values, globs=globs)
    return [row["id"] for row, yes in zip(rows, found, strict=True) if yes]


CATALOG = [
    record("totalsegmentator", license="Apache-2.0", modalities=["CT", "MRI"], dimensions=["3D"], formats=["DICOM"]),
    record("cellpose", license="BSD-3-Clause", modalities=["Microscopy"], dimensions=["2D", "3D"], keywords=["Cells"]),
    record("cellprofiler", modalities=["microscopy"], metadata={"license": "MIT", "year": 2006, "org": {"at": "MIT"}}),
    record("guides/install.md", kind="markdown", group="guides", metadata={"draft": True, "authors": ["Ada", "Bo"]}),
    record("guides/ct/lungs.md", kind="markdown", group="guides", metadata={"draft": False, "year": "2021"}),
    record("index.md", kind="markdown"),
]  # fmt: skip


def test_a_glob_of_many_stars_is_answered_although_it_could_be_tried_in_countless_ways() -> None:
    table = [record("a" * 200 + "/" + "a" * 200)]
    for glob in ("*a" * 40 + "b", "**/" * 40 + "b", "**/" + "*a" * 40 + "/b", "?*" * 60 + "b/**/c"):
        assert selected(table, "path", "=", glob, globs=[glob]) == []
        assert selected(table, "id", "=", glob, globs=[glob]) == []


def test_a_fields_own_value_wins_over_metadata_of_the_same_name() -> None:
    table = [record("a", license="MIT", metadata={"license": "GPL-3.0"})]
    opened = columns(table)
    assert opened.stored("license").values_of(0) == ["MIT"]
    assert opened.stored("metadata.license").values_of(0) == ["GPL-3.0"]


def test_an_unknown_field_is_named_with_the_nearest_and_the_ones_there_are() -> None:
    with pytest.raises(UsageError, match="no record has a field 'licence'") as raised:
        columns(CATALOG).select("licence", "=", ["MIT"])
    assert raised.value.hint.startswith("did you mean `license`? fields: authors, dimension, draft")


@pytest.mark.parametrize(("field", "value"), [("license", "3"), ("group", "3"), ("year", "new"), ("year", "3D")])
def test_a_comparison_without_numbers_is_refused(field: str, value: str) -> None:
    with pytest.raises(UsageError, match="number"):
        columns(CATALOG[:3]).select(field, ">", [value])


# ------------------------------------------------------------------------------------------------ limits


@pytest.mark.parametrize(
    ("metadata", "left", "omitted"),
    [
        ({"note": "x" * 201, "tag": "y"}, ["tag"], {"note": 1}),
        ({"vector": [n / 7 for n in range(101)]}, [], {"vector": 1}),
        ({"parts": [{"name": "x"}, "y"]}, ["parts", "parts.name"], {}),
        ({"x" * 101: 1}, [], {"x" * 100: 1}),
        ({f"k{n:03}": 1 for n in range(202)}, [f"k{n:03}" for n in range(200)], {"k200": 1, "k201": 1}),
        ({"a": {"b": {"c": {"d": {"e": {"f": {"g": {"h": {"i": 1}}}}}}}}}, [], {"a.b.c.d.e.f.g.h": 1}),
        ({"empty": "  ", "none": None, "nothing": [], "": 1}, ["metadata."], {}),
    ],
)
def test_what_is_no_value_to_filter_by_is_left_out_and_said(
    metadata: Row, left: list[str], omitted: dict[str, int]
) -> None:
    opened = columns([record("a", metadata=metadata), record("b")])
    assert [field for field in opened.fields if field not in columns([record("a")]).fields] == left
    assert opened.omitted == omitted


# ------------------------------------------------------------------------------------------------ damage


@pytest.mark.parametrize("name", [name for name in written(CATALOG) if name != "length"])
def test_an_array_that_is_missing_or_cut_short_is_noticed(name: str) -> None:
    whole = written(CATALOG)
    with pytest.raises(IndexCorrupt):
        StoredColumns({key: value for key, value in whole.items() if key != name})
    with pytest.raises(IndexCorrupt):
        StoredColumns({**whole, name: whole[name][:-1]})
    with pytest.raises(IndexCorrupt):
        StoredColumns({**whole, name: [1] if name == "names" else whole[name].astype(np.float32)})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("rows", 99),
        ("rows", -1),
        ("row_starts", 9999),
        ("row_starts", -1),
        ("values", 9999),
        ("values", -1),
        ("text", 0xFF),
        ("ends", 2**40),
        ("numbered", -9),
    ],
)
def test_a_damaged_entry_is_noticed_when_its_field_is_asked_for(name: str, value: int) -> None:
    content = written(CATALOG)
    content[name][len(content[name]) // 2] = value
    with pytest.raises(IndexCorrupt):  # noqa: PT012  which field holds the middle is not the point
        opened = Columns([StoredColumns(content)])
        for field in opened.fields:
            opened.find(field).counts()
            opened.select(field, "=", ["1"])
            column = opened.stored(field)
            column.groups()
            assert len(column.rows)
            _ = column.numbers


# ------------------------------------------------------------------------------------------------- segments

QUESTIONS = [
    ("=", ["1"], ()),
    ("=", ["a", "SS"], ()),
    ("=", ["a*"], ["a*"]),
    ("=", ["0..2"], ()),
    ("!=", ["2D"], ()),
    (">=", ["1"], ()),
    ("<", ["3"], ()),
]


def answer(make: Any) -> object:
    """What a call returns, or the error that it ends with."""
    try:
        return make()
    except UsageError as error:
        return error.message, error.hint


def answers(opened: Columns, field: str, rows: Any) -> dict[str, object]:
    """Everything that columns tell about a field, of these rows in this order."""

    def groups() -> list[str | None]:
        places, names = opened.find(field).groups()
        return [names[place] if place >= 0 else None for place in places[rows]]

    def places(*, descending: bool) -> list[int]:
        order = opened.find(field).places(descending=descending)[rows]
        return np.unique(order, return_inverse=True)[1].tolist()

    found: dict[str, object] = {
        f"{operator}{values}": answer(
            lambda case=(operator, values, globs): opened.select(field, *case[:2], globs=case[2])[rows].tolist()
        )
        for operator, values, globs in QUESTIONS
    }
    found |= {
        "counts": answer(lambda: list(opened.find(field).counts().items())),
        "values": answer(lambda: [row_values(opened, field, row) for row in rows]),
        "groups": answer(groups),
        "up": answer(lambda: places(descending=False)),
        "down": answer(lambda: places(descending=True)),
    }
    if (column := opened.column(field)) is not None:
        found |= {
            "texts": list(column.texts()),
            "back": list(column.texts(descending=True)),
            "around": column.texts_around("b", 2),
            "numbers": sorted({*column.numbers.tolist()}),
            "kind": (column.is_numeric, column.is_ordered, column.name),
            "common": [common_values(column, most) for most in (1, 3)],
            "near": [value_near(column, text) for text in ("a", "bA", "xyz")],
        }
    return found


@given(st.lists(tables, min_size=1, max_size=4), st.data())
def test_segments_with_dead_rows_answer_as_one_segment_of_the_live_rows(
    parts: list[list[Row]], data: st.DataObject
) -> None:
    rows = [row for part in parts for row in part]
    live = np.array([data.draw(st.booleans()) for _ in rows], np.bool_)
    left = [row for row, is_live in zip(rows, live, strict=True) if is_live]
    several, single = columns(*parts).within(live), columns(left)

    assert several.fields == single.fields
    assert several.omitted == single.omitted
    assert offered(several) == offered(single)
    for field in [*single.fields, "Y", "z", "nothing", "group", "metadata.license"]:
        assert answers(several, field, np.flatnonzero(live)) == answers(single, field, np.arange(len(left))), field
    for text in ("a", "é1", "tools"):
        near = record_near(several, text), record_near(single, text)
        ids = [None if row is None else table[row]["id"] for row, table in zip(near, (rows, left), strict=True)]
        assert ids[0] == ids[1]


@given(st.lists(tables, min_size=1, max_size=3), st.randoms())
def test_rows_taken_from_segments_give_the_file_that_new_rows_give(parts: list[list[Row]], random: Any) -> None:
    every = [(number, row) for number, part in enumerate(parts) for row in range(len(part))]
    random.shuffle(every)
    kept = every[: random.randint(0, len(every))]
    merged = ColumnsWriter()
    for number, part in enumerate(parts):
        rows = np.full(len(part), -1, np.int64)
        for new, (other, row) in enumerate(kept):
            if other == number:
                rows[row] = new
        merged.take(StoredColumns(written(part)), rows)

    fresh = written([parts[number][row] for number, row in kept])
    taken = merged.stored()
    assert taken.keys() == fresh.keys()
    assert all(np.array_equal(taken[name], fresh[name]) for name in fresh)


def test_a_value_in_many_rows_of_several_segments_is_counted_once() -> None:
    parts = [[record(f"{part}-{row}", metadata={"team": f"t{row % 3}"}) for row in range(40)] for part in range(3)]
    column = columns(*parts).find("team")
    assert column is not None
    assert common_values(column, 2) == ([("t0", 42), ("t1", 39)], 1)
    assert column.rows_of("t2").tolist() == [row for row in range(120) if row % 40 % 3 == 2]


def test_a_field_puts_each_record_in_the_group_of_its_first_value() -> None:
    said = [["b", "a"], [], ["a"], "c"]
    opened = columns([record(f"r{at}", metadata={"team": value}) for at, value in enumerate(said)])
    places, names = opened.stored("team").groups()
    assert [names[place] if place >= 0 else None for place in places] == ["b", None, "a", "c"]
