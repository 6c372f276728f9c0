"""Tables: rows of JSON written as a stream and fetched by number."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from retrieve_cli.errors import IndexCorrupt
from retrieve_cli.storage.mapped import MappedFile
from retrieve_cli.storage.tables import JsonlTable, TableWriter

texts = st.text(st.characters(exclude_categories=["Cs"]))
scalars = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
rows = st.dictionaries(texts, scalars | texts | st.lists(texts, max_size=3), max_size=4)


def written(path: Path, content: list[dict[str, Any]]) -> np.ndarray:
    writer = TableWriter(path)
    for row in content:
        writer.extend([row])
    writer.close()
    return np.array(writer.offsets, np.int64)


def table_of(path: Path, offsets: np.ndarray, *, keys: Collection[str] = ()) -> JsonlTable:
    return JsonlTable(MappedFile(path), offsets, keys=keys)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.lists(rows, max_size=6))
def test_every_row_is_read_back_by_its_number_and_in_order(content: list[dict[str, Any]], tmp_path: Path) -> None:
    table = table_of(tmp_path / "rows.jsonl", written(tmp_path / "rows.jsonl", content))

    assert len(table) == len(content)
    assert list(table) == content
    assert [table[row] for row in reversed(range(len(content)))] == content[::-1]


@pytest.mark.parametrize("change", [lambda raw: raw[:-1], lambda raw: raw + b"\n", lambda raw: b""])
def test_a_file_of_another_length_than_its_offsets_say_is_refused(change: Any, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    offsets = written(path, [{"a": 1}, {"a": 2}])
    path.write_bytes(change(path.read_bytes()))

    with pytest.raises(IndexCorrupt, match="length"):
        table_of(path, offsets)


def test_a_table_that_has_no_offsets_is_refused(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").touch()
    with pytest.raises(IndexCorrupt):
        table_of(tmp_path / "rows.jsonl", np.zeros(0, np.int64))


@pytest.mark.parametrize(("damage", "said"), [(b"{", "damaged"), (b"\xff", "damaged"), (b"[", "damaged")])
def test_a_damaged_row_is_named_and_the_others_are_still_read(damage: bytes, said: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    offsets = written(path, [{"a": 1}, {"a": 2}])
    raw = path.read_bytes()
    path.write_bytes(raw[:8] + damage * 7 + b"\n")

    table = table_of(path, offsets)

    assert table[0] == {"a": 1}
    with pytest.raises(IndexCorrupt, match=f"row 1 .* {said}"):
        table[1]


@pytest.mark.parametrize(("first", "end"), [(-1, 1), (1, 0), (0, 3)])
def test_rows_that_are_not_there_are_no_empty_answer(first: int, end: int, tmp_path: Path) -> None:
    table = table_of(tmp_path / "rows.jsonl", written(tmp_path / "rows.jsonl", [{"a": 1}, {"a": 2}]))

    with pytest.raises(IndexError):
        table.rows(first, end)
