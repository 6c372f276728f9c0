"""Tables as catalogs: each format gives the same records, hostile and broken ones say where and why."""

import csv
import gzip
import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from samples import Program, fails, pieces, succeeds

from retrieve_cli.assemble.sources import layout_of
from retrieve_cli.config.settings import Settings
from retrieve_cli.contracts import Notice, Record, Refused
from retrieve_cli.errors import UsageError
from retrieve_cli.frozen import replace
from retrieve_cli.sources.catalogs.catalog import CatalogSource
from retrieve_cli.sources.fields import FieldMap

ROWS: list[dict[str, Any]] = [
    {
        "id": f"t{number}",
        "name": f"Tool {number}",
        "description": f'It does "number" {number},\nand é; 漢\t| too.',
        "keywords": ["a", f"k{number}"],
        "stars": number,
        "score": number / 8,
        "zip": f"{number:05}",
    }
    for number in range(1, 60)
]
ROWS[3].pop("description")


def cells(row: dict[str, Any]) -> dict[str, Any]:
    return {key: json.dumps(value) if isinstance(value, list) else value for key, value in row.items()}


def as_csv(delimiter: str, encoding: str = "utf-8") -> Callable[[Path], object]:
    def write(path: Path) -> None:
        with path.open("w", newline="", encoding=encoding, errors="replace") as file:
            table = csv.DictWriter(file, list(ROWS[0]), delimiter=delimiter)
            table.writeheader()
            table.writerows(map(cells, ROWS))

    return write


def as_lines(path: Path) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))


def as_parquet(path: Path) -> None:
    import pyarrow as pa
    from pyarrow import feather, parquet

    table = pa.Table.from_pylist(ROWS)
    parquet.write_table(table, path) if path.suffix == ".parquet" else feather.write_feather(table, str(path))


def as_workbook(path: Path) -> None:
    import openpyxl

    book = openpyxl.Workbook()
    for row in (list(ROWS[0]), *(list({**dict.fromkeys(ROWS[0]), **cells(row)}.values()) for row in ROWS)):
        book.active.append(row)
    book.create_sheet("empty")
    book.save(path)


FORMATS: dict[str, tuple[Callable[[Path], object], int]] = {
    "t.json": (lambda path: path.write_text(json.dumps(ROWS, indent=2)), 0),
    "t.csv": (as_csv(","), 1),
    "semicolon.csv": (as_csv(";"), 1),
    "bar.csv": (as_csv("|"), 1),
    "t.tsv": (as_csv("\t"), 1),
    "wide.csv": (as_csv("\t", "utf-16"), 1),
    "marked.csv": (as_csv(",", "utf-8-sig"), 1),
    "t.parquet": (as_parquet, 0),
    "t.feather": (as_parquet, 0),
    "t.xlsx": (as_workbook, 1),
}
"""Writers of the same records by the name of a file, and the rows above the first one."""


def read(path: Path, fields: FieldMap | None = None) -> list[Record | Refused | Notice]:
    return list(pieces(CatalogSource(path, fields or FieldMap.of({}), name="c", layout=layout_of(Settings()))))


@pytest.mark.parametrize("name", [*FORMATS, "t.json.gz", "t.csv.gz", "t.tsv.gz", "wide.csv.gz"])
def test_every_format_gives_the_same_records(tmp_path: Path, name: str) -> None:
    plain = name.removesuffix(".gz")
    write, above = FORMATS[plain]
    write(tmp_path / plain)
    path = tmp_path / name
    if plain != name:
        path.write_bytes(gzip.compress((tmp_path / plain).read_bytes()))
    as_lines(tmp_path / "t.jsonl")
    wanted = read(tmp_path / "t.jsonl")
    found = [piece for piece in read(path) if not isinstance(piece, Notice)]
    assert [replace(piece, line=0) for piece in found] == [replace(piece, line=0) for piece in wanted]
    assert above == 0 or "csv" in path.name or "tsv" in path.name or found[0].line == above + 1


def test_numbers_are_the_physical_lines_where_rows_begin(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text('name,text\n\nA,"one\ntwo"\nB,c,d\n,\n"C"x,d\nD,e\n')
    a, b, c, d = read(path)
    assert [piece.line for piece in (a, b, c, d)] == [3, 5, 7, 8]
    assert b.reason == "it has 3 cells and the header has 2"
    assert "it is not CSV" in c.reason


def test_delimiter_and_encoding_are_said_if_they_are_not_the_usual_ones(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes("name;text\nÄpfel;Größe, süß und schön\n".encode("cp1252"))
    *said, record = read(path)
    assert record.text == "Äpfel: Größe, süß und schön"
    assert said[0].message.startswith("it is read as cp125")
    assert said[1].message == "its columns are separated by a semicolon"


@pytest.mark.parametrize(
    ("cell", "value"),
    [
        ("7", 7),
        ("-7", -7),
        ("1.5", 1.5),
        ("1e-07", 1e-07),
        ("01234", "01234"),
        ("1.10", "1.10"),
        ("+1", "+1"),
        ("1_000", "1_000"),
        ("nan", "nan"),
        ("1e999", "1e999"),
        ("9" * 30, "9" * 30),
        ("true", "true"),
        ('["a", 1]', ["a", 1]),
        ('{"a": 1}', {"a": 1}),
        ("[a]", "[a]"),
    ],
)
def test_a_cell_is_the_value_that_json_would_write_so_and_otherwise_text(
    tmp_path: Path, cell: str, value: object
) -> None:
    path = tmp_path / "t.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([["name", "x"], ["N", cell]])
    (record,) = read(path)
    assert record.metadata == {"x": value}


def test_a_column_has_numbers_only_if_all_of_its_cells_are_numbers(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text('name,version,stars\nA,1.2,7\nB,1.2.3,\nC,"",0.5\n')
    assert [record.metadata for record in read(path)] == [
        {"version": "1.2", "stars": 7},
        {"version": "1.2.3"},
        {"stars": 0.5},
    ]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.csv", b"", "is empty"),
        ("t.csv", b"name,a,name\n1,2,3\n", "t.csv:1: columns 1 and 3 are both called 'name'"),
        ("t.csv", b"1,2,3\n4,5,6\n", "t.csv:1 is not a header: '1' is a value"),
        ("t.csv", b"bwa,https://x.org/a\nx,y\n", "is not a header"),
        ("t.csv", b'name,text\nA,"never closed\nB,c\n', "t.csv:2: a quotation mark is opened and never closed"),
        ("t.csv", b"name\n\0\0\1", "is a binary file"),
        ("t.csv", b"," * 20_000 + b"a\nb", "more than 16,666 columns"),
        ("t.json", b'[{"name": "A"},', "is cut off"),
        ("t.json", b'[{"name": "A"}] {"name": "B"}', "goes on after its array"),
        ("t.jsonl.gz", gzip.compress(b'{"name": "A"}\n' * 99)[:-9], "is damaged"),
        ("t.jsonl.gz", gzip.compress(b" " * 200_000_000, 9), "more than 38,884,400 bytes when unpacked"),
        ("t.parquet", b"PAR1" + b"x" * 99, "cannot read"),
        ("t.arrow", b"ARROW1" + b"x" * 99, "cannot read"),
        ("t.xls", b"\xd0\xcf\x11\xe0" + b"x" * 999, "cannot read"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_damaged_table_is_an_error_that_names_the_place(
    tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(UsageError) as caught:
        read(path)
    assert message in caught.value.message
    assert caught.value.hint


def workbook(sheet: str, padding: int = 0) -> bytes:
    """A workbook with the XML of one sheet."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        kind = "application/vnd.openxmlformats-officedocument.spreadsheetml"
        archive.writestr(
            "[Content_Types].xml",
            f'<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"><Override PartName='
            f'"/xl/workbook.xml" ContentType="{kind}.sheet.main+xml"/></Types>',
        )
        relation = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
        archive.writestr(
            "xl/_rels/workbook.xml.rels",
            '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="r"'
            f' Type="{relation}/worksheet" Target="worksheets/s.xml"/></Relationships>',
        )
        main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
        archive.writestr(
            "xl/workbook.xml",
            f'<workbook xmlns="{main}" xmlns:r="{relation}"><sheets><sheet name="S" sheetId="1" r:id="r"/></sheets>'
            "</workbook>",
        )
        archive.writestr("xl/worksheets/s.xml", f'<worksheet xmlns="{main}"><sheetData>{sheet}</sheetData></worksheet>')
        if padding:
            archive.writestr("xl/media/x", bytes(padding))
    return content.getvalue()


def test_a_workbook_that_asks_for_far_too_much_memory_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "t.xlsx"
    cell = '<row r="{0}"><c r="{1}{0}" t="inlineStr"><is><t>name</t></is></c></row>'
    path.write_bytes(workbook(cell.format(1, "A") + cell.format(1_048_576, "XFD")))
    with pytest.raises(UsageError, match="cannot read"):
        read(path)
    path.write_bytes(workbook(cell.format(1, "A"), 100_000_000))
    with pytest.raises(UsageError, match=r"has more than [0-9,]+ bytes when unpacked"):
        read(path)


def test_rows_of_a_workbook_have_the_numbers_that_its_program_shows(tmp_path: Path) -> None:
    import openpyxl

    book = openpyxl.Workbook()
    for place, value in {"A3": "name", "B3": "on", "A5": "A", "B5": True, "A6": "N", "D6": "x"}.items():
        book.active[place] = value
    book.create_sheet("other")["A1"] = "text"
    book.save(tmp_path / "t.xlsx")
    first, second, notice = read(tmp_path / "t.xlsx")
    assert (first.line, first.metadata) == (5, {"on": True})
    assert (second.line, second.reason) == (6, "it has a value in column 4, which has no name")
    assert (
        notice.message
        == "its sheet other is not read: a catalog is one sheet, here Sheet (catalog.sheet names another)"
    )


def test_a_missing_package_is_said_with_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from retrieve_cli.errors import Unavailable
    from retrieve_cli.sources.catalogs import tables

    monkeypatch.setattr(tables, "find_spec", lambda _: None)
    (tmp_path / "t.parquet").write_bytes(b"PAR1")
    with pytest.raises(Unavailable, match="pyarrow") as caught:
        read(tmp_path / "t.parquet")
    assert "retrieve-cli[tables]" in caught.value.hint


# ------------------------------------------------------------------------- as pandas and people write them


BODY = "id,name,price\na,Alpha pump,3\nb,Beta pump,4\n"


def built(retrieve: Program, path: Path | str, **catalog: object) -> dict[str, dict[str, Any]]:
    """Build a table under these settings; return its records by id, name and description with the metadata."""
    Path("config.yaml").write_text(json.dumps({"catalog": catalog}))
    succeeds(retrieve("build", path))
    found = retrieve("inspect", "records", "--json").json["records"]
    return {record["id"]: record | record["metadata"] for record in found}


@pytest.mark.parametrize(
    "above", ["Price list 2024,,\n", "Price list 2024\nPrinted 2024-05-01\n\n", "Inventory,,\n,,\n"]
)
def test_titles_above_the_header_are_not_read_and_that_is_said(above: str, retrieve: Program) -> None:
    Path("t.csv").write_text(above + BODY)
    records = built(retrieve, "t.csv")
    assert [(record["name"], record["price"]) for record in records.values()] == [("Alpha pump", 3), ("Beta pump", 4)]
    assert "t.csv: its row 1 is above the header and not read" in retrieve("build", "t.csv").err


def test_a_header_that_is_not_certain_is_one_sentence_with_the_row_and_the_key(retrieve: Program) -> None:
    Path("t.csv").write_text("Messwerte\nOrt,Höhe\nAlm,hoch\nTal,tief\n")
    assert "catalog: {header: 2}" in fails(retrieve("build", "t.csv"), 2, "t.csv:1 is not a header").err
    assert [record["Höhe"] for record in built(retrieve, "t.csv", header=2).values()] == ["hoch", "tief"]
    Path("u.csv").write_text("a,pump one,3\nb,pump two,4\nc,pump three,5\n")
    Path("config.yaml").write_text("")
    assert "0 if none does" in fails(retrieve("build", "u.csv"), 2, "'3' is a value").err
    records = built(retrieve, "u.csv", header=0)
    assert [record["description"] for record in records.values()] == ["pump one", "pump two", "pump three"]
    Path("w.csv").write_text("Zeitpunkt,What is the one tool that you use on each day of the week?\nheute,a\n")
    assert len(built(retrieve, "w.csv")) == 1
    Path("v.csv").write_text("city,2019,2020\nBonn,1,2\nKiel,3,4\n")  # years are names
    assert [record["2019"] for record in built(retrieve, "v.csv").values()] == [1, 3]


def test_an_index_without_a_name_is_dropped_in_every_format_and_that_is_said(retrieve: Program) -> None:
    import pandas as pd

    frame = pd.DataFrame({"id": ["a", "b"], "text": ["pump one", "pump two"]})
    frame.to_csv("t.csv")
    frame.to_excel("t.xlsx")
    pd.read_csv("t.csv").to_parquet("t.parquet")
    for name in ("t.csv", "t.xlsx", "t.parquet"):
        assert {key: record["metadata"] for key, record in built(retrieve, name).items()} == {"a": {}, "b": {}}
        assert f"{name}: its first column is not read" in retrieve("build", name).err
    frame.set_index(pd.Index(["Mazda", "Fiat"])).to_csv("named.csv")
    assert [record["index"] for record in built(retrieve, "named.csv").values()] == ["Mazda", "Fiat"]


def test_a_cover_sheet_is_skipped_and_merged_cells_repeat_their_value(retrieve: Program) -> None:
    import openpyxl

    book = openpyxl.Workbook()
    book.active.append(["Rates of 2024"])
    sheet = book.create_sheet("Data")
    sheet.append(["Table 1"])
    for row in (["id", "maker", "name"], ["r1", "Acme", "Pump A"], ["r2", None, "Pump B"], ["r3", "Globex", "Valve"]):
        sheet.append(row)
    sheet.merge_cells("A1:C1")
    sheet.merge_cells("B3:B4")
    book.save("t.xlsx")
    assert [record["maker"] for record in built(retrieve, "t.xlsx").values()] == ["Acme", "Acme", "Globex"]
    assert "its sheet Sheet is not read: a catalog is one sheet, here Data" in retrieve("build", "t.xlsx").err
    assert "Rates of 2024" in str(built(retrieve, "t.xlsx", sheet=1, header=0))
    Path("config.yaml").write_text("catalog: {sheet: Nothing}")
    fails(retrieve("build", "t.xlsx"), 2, "it has no sheet Nothing (catalog.sheet); its sheets are Sheet, Data")


def test_lists_in_cells_are_suggested_and_split(retrieve: Program) -> None:
    Path("t.csv").write_text(
        "id,name,colors,note\na,A,x;y,one; and a long sentence on other subjects of it\nb,B,y; z,\n"
    )
    Path("config.yaml").write_text("")
    said = retrieve("build", "t.csv").err
    assert 'its column colors looks like lists in cells; to split them: catalog: {split: {"colors": ";"}}' in said
    assert "column note" not in said
    assert built(retrieve, "t.csv", split={"colors": ";"})["b"]["colors"] == ["y", "z"]
    found = retrieve("query", "A B", "--filter", "colors=y", "--json").json["results"]
    assert sorted((hit["doc_id"], hit["freshness"]) for hit in found) == [("a", "fresh"), ("b", "fresh")]
    Path("t.csv").write_text(Path("t.csv").read_text() + "c,C,x,\n")
    assert retrieve("query", "A B", "-k", "1", "--json").json["results"][0]["freshness"] == "fresh"
