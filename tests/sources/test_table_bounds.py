"""Tables from outside are within bounds in every format: a few bytes do not ask for hours or gigabytes."""

import gzip
import io
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Final, get_args

import pytest
from samples import Program, fails, succeeds

from retrieve_cli.sources.catalogs.table_bounds import TableBounds
from retrieve_cli.sources.catalogs.tables import TableKind

MANY = 300_000
"""Rows that are more than the bound of a small file, and cost seconds if they are read."""
BOUND = "raise the limit: catalog.max_cells"


def packed(head: bytes, row: bytes, end: bytes = b"") -> bytes:
    return gzip.compress(head + row * MANY + end, 9)


def stored(kind: str, rows: int, columns: int = 1) -> bytes:
    """A table whose columns hold nothing but their length."""
    import pyarrow as pa
    from pyarrow import parquet

    schema = pa.schema([(f"c{number}", pa.null()) for number in range(columns)])
    content = io.BytesIO()
    if kind == "parquet":
        parquet.write_table(pa.table([pa.nulls(rows)] * columns, schema=schema), content, compression="zstd")
    else:
        with pa.ipc.new_file(content, schema) as writer:
            writer.write_batch(pa.record_batch([pa.nulls(rows)] * columns, schema=schema))
    return content.getvalue()


def ods(rows: int, cell: str = "") -> bytes:
    """A sheet of two rows with text, and one that is repeated."""
    text = '<table:table-cell office:value-type="string"><text:p>{}</text:p></table:table-cell>'
    names = "".join(
        f' xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"' for name in ("office", "table", "text")
    )
    last = (
        f'<table:table-row table:number-rows-repeated="{rows}">{text.format(cell) if cell else "<table:table-cell/>"}'
    )
    above = "".join(f"<table:table-row>{text.format(word)}</table:table-row>" for word in ("name", "pump"))
    body = f'<table:table table:name="S">{above}{last}</table:table-row></table:table>'
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("mimetype", "application/vnd.oasis.opendocument.spreadsheet")
        archive.writestr(
            "META-INF/manifest.xml", '<m:manifest xmlns:m="urn:oasis:names:tc:opendocument:xmlns:manifest:1.0"/>'
        )
        archive.writestr(
            "content.xml",
            f"<office:document-content{names}><office:body><office:spreadsheet>{body}</office:spreadsheet></office:body>"
            "</office:document-content>",
        )
    return content.getvalue()


BOMBS: Final[dict[str, tuple[str, Callable[[], bytes]]]] = {
    "csv rows": ("t.csv.gz", lambda: packed(b"name\n", b"a\n")),
    "csv blank": ("t.csv.gz", lambda: packed(b"name\na\n", b"\n")),
    "csv cells": ("t.csv.gz", lambda: gzip.compress(b"n" + b",c" * 99 + b"\n" + (b"," * 99 + b"\n") * 20_000)),
    "csv columns": ("t.csv", lambda: b",".join(b"c%d" % number for number in range(17_000)) + b"\na\n"),
    "json rows": ("t.json.gz", lambda: packed(b"[0", b",0", b"]")),
    "json objects": ("t.json.gz", lambda: packed(b'{\n"name": "A"}\n', b'{"name": "A"}\n')),
    "lines rows": ("t.jsonl.gz", lambda: packed(b'{"name": "A"}\n', b'{"name": "A"}\n')),
    "lines blank": ("t.jsonl.gz", lambda: packed(b'{"name": "A"}\n{"name": "B"}\n', b"\n")),
    "lines bytes": ("t.jsonl.gz", lambda: gzip.compress(b'{"name": "' + b"A" * 20_000_000 + b'"}')),
    "workbook rows": ("t.ods", lambda: ods(1_048_574, "x")),
    "parquet rows": ("t.parquet", lambda: stored("parquet", MANY)),
    "parquet cells": ("t.parquet", lambda: stored("parquet", 90_000, 40)),
    "arrow rows": ("t.arrow", lambda: stored("arrow", 2_000_000_000)),
    "arrow columns": ("t.feather", lambda: stored("arrow", 1, 17_000)),
}
"""Small files that ask for much: kind of the table and what is too much of it, name, and content."""


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_small_file_with_too_much_in_it_is_an_error_that_names_the_key(bomb: str, retrieve: Program) -> None:
    name, content = BOMBS[bomb]
    Path(name).write_bytes(content())
    what = {"blank": "rows", "objects": "rows"}.get(bomb.split()[1], bomb.split()[1])
    error = fails(retrieve("build", name), 2, BOUND).err
    assert re.search(rf"has more than [0-9,]+ {what}", error), error


def test_every_kind_of_table_has_a_bound() -> None:
    assert {bomb.split()[0] for bomb in BOMBS} | {"api"} == set(get_args(TableKind))


def test_an_api_in_yaml_has_bounds_of_its_values_and_its_depth(retrieve: Program) -> None:
    aliases = "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12))
    for body in (f"a0: &a0 [1, 2]\n{aliases}", f"a: {'[' * 500}{']' * 500}\n"):
        Path("api.yaml").write_text(f"openapi: 3.1.0\ninfo: {{title: A}}\npaths: {{}}\n{body}")
        assert "api.yaml cannot be read" in fails(retrieve("build", "api.yaml"), 2, "save it as JSON").err


def test_the_key_raises_every_bound(retrieve: Program) -> None:
    Path("config.yaml").write_text("catalog: {max_cells: 4000000}")
    Path("t.arrow").write_bytes(stored("arrow", MANY))
    assert "more than" not in retrieve("build", "t.arrow").err
    small, large = TableBounds.of(1000, 10), TableBounds.of(1_000_000, 10)
    assert all(more > less for more, less in zip(large[:4], small[:4], strict=True))


def test_text_that_is_not_compressed_is_never_above_the_bounds_of_rows_and_cells() -> None:
    for size in (1, 10**6, 10**9):
        bounds = TableBounds.of(1000, size)
        bounds.check(rows=size, cells=size, unpacked=size)


def test_empty_rows_at_the_end_cost_nothing(retrieve: Program) -> None:
    Path("t.ods").write_bytes(ods(1_048_574))
    succeeds(retrieve("build", "t.ods"))
    assert [row["name"] for row in retrieve("inspect", "records", "--json").json["records"]] == ["pump"]


def test_a_table_larger_than_a_document_may_be_is_an_error_that_names_the_key(retrieve: Program) -> None:
    Path("config.yaml").write_text("parsing: {max_mb: 0.001}")
    Path("t.parquet").write_bytes(stored("parquet", 2, 200))
    assert "parsing.max_mb sets the limit" in fails(retrieve("build", "t.parquet"), 2, "cannot read t.parquet").err


def test_a_text_that_breaks_off_within_a_character_is_an_error(retrieve: Program) -> None:
    whole = "name,text\nA,b\nB,other\n".encode("utf-16")
    for size in range(len(whole) - 9, len(whole), 2):
        Path("t.csv").write_bytes(whole[:size])
        fails(retrieve("build", "t.csv"), 2, "t.csv breaks off within a character of UTF-16")


def test_a_table_of_many_columns_keeps_their_values(retrieve: Program) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    rows = [{"name": "pump", **{f"c{number}": f"v{number}" for number in range(8000)}}]
    parquet.write_table(pa.Table.from_pylist(rows), "t.parquet")
    succeeds(retrieve("build", "t.parquet"))
    found = retrieve("query", "pump", "--filter", "c150=v150", "--json").json["results"]
    assert [hit["name"] for hit in found] == ["pump"]
