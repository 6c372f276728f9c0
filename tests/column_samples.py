"""Rows of records as columns are built from them: by hand, and drawn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from retrieve_cli.storage.records.columns import Columns
from retrieve_cli.storage.records.columns_writer import ColumnsWriter
from retrieve_cli.storage.records.record_values import values_of
from retrieve_cli.storage.records.stored_columns import StoredColumns

Row = dict[str, Any]


def record(name: str, /, *, kind: str = "catalog", **said: Any) -> Row:
    """A row of records.jsonl."""
    supporting = {key: said.pop(key, []) for key in ("modalities", "dimensions", "formats")}
    place = {"id": name, "kind": kind, "source": "tools.jsonl" if kind == "catalog" else name}
    plain = {
        "name": name,
        "license": None,
        "group": None,
        "keywords": [],
        "metadata": {},
        "description": "",
        "url": None,
    }
    return {**plain, **place, "supporting_data": {**supporting, "demo_url": None}, **said}


def columns(rows: Sequence[Row], *more: Sequence[Row]) -> Columns:
    """The columns of one segment, or of several."""
    return Columns([StoredColumns(written(part)) for part in (rows, *more)])


def written(rows: Sequence[Row]) -> dict[str, Any]:
    """The content of the file of these rows."""
    writer = ColumnsWriter()
    for row in rows:
        writer.add(values_of(row))
    return writer.stored()


def row_values(opened: Columns, field: str, row: int) -> list[str]:
    """The values of a row; none of a field that no row has."""
    return opened.find(field).values_of(row)


texts = st.text("aAbBßs/*?. é1", min_size=1, max_size=6).map(str.strip).filter(bool)
dimensions = st.sampled_from(["2D", "3d", "4-D", "3", "2.5", "flat"])
values = texts | st.integers(-3, 3) | st.sampled_from([0.5, -2.0, 1e16]) | st.booleans() | st.none()
metadata = st.dictionaries(
    st.sampled_from(["x", "y", "y.z", "license", "Keywords", "é"]), values | st.lists(values, max_size=3)
)
rows = st.builds(
    lambda name, kind, terms, keywords, dims, extra: record(
        name, kind=kind, license=terms, keywords=keywords, dimensions=dims, metadata=extra
    ),
    texts,
    st.sampled_from(["catalog", "markdown"]),
    st.none() | texts,
    st.lists(texts, max_size=3),
    st.lists(dimensions, max_size=2),
    metadata | st.builds(lambda inner: {"y": inner}, metadata),
)
tables = st.lists(rows, max_size=8)
