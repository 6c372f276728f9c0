"""Tables: rows of JSON written as a stream and fetched by number."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from retrieve_cli.errors import IndexCorrupt
from retrieve_cli.storage.tables import JsonlTable, TableWriter

texts = st.text(st.characters(exclude_categories=["Cs"]))
scalars = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
rows = st.dictionaries(texts, scalars | texts | st.lists(texts, max_size=3), max_size=4)


def written(path: Path, content: list[dict[str, Any]]) -> np.ndarray:
    writer = TableWriter(path)
    for row in content:
        writer.append(row)
    writer.close()
    return np.array(writer.offsets, np.int64)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.lists(rows, max_size=6))
def test_every_row_is_read_back_by_its_number_and_in_order(content: list[dict[str, Any]], tmp_path: Path) -> None:
    table = JsonlTable(tmp_path / "rows.jsonl", written(tmp_path / "rows.jsonl", content))

    assert len(table) == len(content)
    assert list(table) == content
    assert [table[row] for row in reversed(range(len(content)))] == content[::-1]


def test_a_table_is_lines_of_utf8_json(tmp_path: Path) -> None:
    written(tmp_path / "rows.jsonl", [{"a": "é\n"}, {"b": [1]}])

    assert (tmp_path / "rows.jsonl").read_bytes() == '{"a":"é\\n"}\n{"b":[1]}\n'.encode()


@pytest.mark.parametrize("change", [lambda raw: raw[:-1], lambda raw: raw + b"\n", lambda raw: b""])
def test_a_file_of_another_length_than_its_offsets_say_is_refused(change: Any, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    offsets = written(path, [{"a": 1}, {"a": 2}])
    path.write_bytes(change(path.read_bytes()))

    with pytest.raises(IndexCorrupt, match="length"):
        JsonlTable(path, offsets)


def test_a_table_that_is_absent_or_has_no_offsets_is_refused(tmp_path: Path) -> None:
    with pytest.raises(IndexCorrupt, match="cannot read"):
        JsonlTable(tmp_path / "rows.jsonl", np.zeros(1, np.int64))
    (tmp_path / "rows.jsonl").touch()
    with pytest.raises(IndexCorrupt):
        JsonlTable(tmp_path / "rows.jsonl", np.zeros(0, np.int64))


@pytest.mark.parametrize(("damage", "said"), [(b"{", "damaged"), (b"\xff", "damaged"), (b"[", "damaged")])
def test_a_damaged_row_is_named_and_the_others_are_still_read(damage: bytes, said: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    offsets = written(path, [{"a": 1}, {"a": 2}])
    raw = path.read_bytes()
    path.write_bytes(raw[:8] + damage * 7 + b"\n")

    table = JsonlTable(path, offsets)

    assert table[0] == {"a": 1}
    with pytest.raises(IndexCorrupt, match=f"row 1 .* {said}"):
        table[1]


def test_a_row_that_is_no_object_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b"[1]\n")

    with pytest.raises(IndexCorrupt, match="not an object"):
        JsonlTable(path, np.array([0, 4]))[0]


class Counting(JsonlTable):
    """A table that tells what was read of its file."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.reads: list[bytes] = []

    def _bytes(self, first: int, end: int) -> bytes:
        self.reads.append(super()._bytes(first, end))
        return self.reads[-1]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.lists(rows, max_size=6), bounds=st.tuples(st.integers(0, 6), st.integers(0, 6)))
def test_consecutive_rows_are_one_read_of_their_own_lines(
    content: list[dict[str, Any]], bounds: tuple[int, int], tmp_path: Path
) -> None:
    first, end = sorted(min(bound, len(content)) for bound in bounds)
    table = Counting(tmp_path / "rows.jsonl", written(tmp_path / "rows.jsonl", content))

    assert table.rows(first, end) == content[first:end]
    assert table.reads == [b"".join((tmp_path / "rows.jsonl").read_bytes().splitlines(keepends=True)[first:end])]


@pytest.mark.parametrize(("first", "end"), [(-1, 1), (1, 0), (0, 3)])
def test_rows_that_are_not_there_are_no_empty_answer(first: int, end: int, tmp_path: Path) -> None:
    table = JsonlTable(tmp_path / "rows.jsonl", written(tmp_path / "rows.jsonl", [{"a": 1}, {"a": 2}]))

    with pytest.raises(IndexError):
        table.rows(first, end)


def test_a_damaged_row_among_consecutive_ones_is_named(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    offsets = written(path, [{"a": 1}, {"a": 2}, {"a": 3}])
    path.write_bytes(path.read_bytes().replace(b'{"a":2}', b"{{{{{{{"))

    with pytest.raises(IndexCorrupt, match=r"row 1 .* damaged"):
        JsonlTable(path, offsets).rows(0, 3)
