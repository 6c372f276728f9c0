"""A folder with a document of every format: one build, one changed file, answers that name title, section and page."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from samples import Program

from benchmarks.truth_corpus import WRITERS, Made, Node
from retrieve_cli.sources.formats import formats
from retrieve_cli.sources.formats.reader import SandboxedReader

MANUAL = ".TH KETTLES 1\n.SH NAME\nkettles \\- boil water\n.SH DESCALING\nA dose: WORD 20\n"
ROW = "<table><tr><td>WORD</td><td>20</td></tr></table>"
ARTICLE = f"<doc><title>Kettles</title><sec><title>Descaling</title>{ROW}</sec></doc>"


def made(kind: str, word: str) -> bytes:
    """Return a document with a word in a table below the heading Descaling."""
    texts = {"json": '{"dose": "WORD", "g": 20}', "man": MANUAL, "xml": ARTICLE}
    if kind in texts:
        return texts[kind].replace("WORD", word).encode()
    nodes = [
        Node("heading", "Kettles", 1), Node("paragraph", "All about kettles and how they are kept clean."),
        Node("heading", "Descaling", 2), Node("paragraph", "A dose removes the lime of a week."),
        Node("table", rows=(("acid", "g"), (word, "20")), ruled=True),
    ]  # fmt: skip
    return WRITERS[{"text": "markdown", "pdf": "pdf-fpdf"}.get(kind, kind)][1](Made(1, nodes))


TITLES = {"json": "file-json", "man": "kettles(1)"}


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that parsers were given."""
    names: list[str] = []
    begin = SandboxedReader.begin

    def noted(self: SandboxedReader, file: Any, kind: str, *, name: str) -> Any:
        names.append(name)
        return begin(self, file, kind, name=name)

    monkeypatch.setattr(SandboxedReader, "begin", noted)
    return names


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A file of each format, and two that are not documents."""
    folder = tmp_path / "library"
    folder.mkdir()
    for kind, form in formats.FORMATS.items():
        (folder / f"file-{kind}{form.suffixes[0]}").write_bytes(made(kind, f"unique{kind}"))
    (folder / "a.css").write_text("body {}")
    (folder / "b.png").write_bytes(b"\x89PNG")
    return folder


def test_a_document_of_every_format_is_found_by_a_row_below_its_title_and_heading(
    folder: Path, retrieve: Program
) -> None:
    done = retrieve("build", "--docs-dir", folder)
    assert done.code == 0, done.err
    assert "skipped 2 files that are not documents (" in done.err
    for kind in formats.FORMATS:
        hit = retrieve("query", f"unique{kind}", "--mode", "bm25", "--json").json["results"][0]
        assert hit["doc_id"] == f"file-{kind}{formats.FORMATS[kind].suffixes[0]}"
        assert hit["name"] == TITLES.get(kind, "Kettles"), kind
        if kind != "json":
            assert "descaling" in str(hit["section"]).casefold(), kind
        assert re.search(rf"unique{kind}\W+(?:g\W+)?20", hit["content"]), hit["content"]
        expected = {"pdf": (1, None), "pptx": (2, None), "html": (None, "part-2")}.get(kind)
        assert expected is None or (hit["page"], hit["anchor"]) == expected


def test_a_sync_parses_what_has_changed_and_formats_with_a_newer_parser(
    folder: Path, begun: list[str], retrieve: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert retrieve("build", "--docs-dir", folder).code == 0
    others = (".css", ".png")
    assert sorted(begun) == sorted(path.name for path in folder.iterdir() if path.suffix not in others)
    begun.clear()
    (folder / "file-pdf.pdf").write_bytes(made("pdf", "replacement"))
    counts = retrieve("sync", "--json").json
    assert begun == ["file-pdf.pdf"]
    assert [counts[key] for key in ("added", "changed", "removed", "kept")] == [0, 1, 0, len(formats.FORMATS) - 1]
    begun.clear()
    assert retrieve("sync", "--json").json["status"] == "unchanged"
    monkeypatch.setattr(formats, "FORMATS", {**formats.FORMATS, "docx": formats.FORMATS["docx"]._replace(rules=1000)})
    hit = retrieve("query", "uniquedocx", "--mode", "bm25", "--json").json["results"][0]
    assert hit["freshness"] == "fresh"
    assert retrieve("sync", "--json").json["status"] == "published"
    assert begun == [Path(hit["doc_id"]).name]


MAIL = b"Return-Path: <a>\r\nReceived: from b\r\n\tby c\r\nFrom: d\r\nDate: e\r\n\r\ntext"


@pytest.mark.parametrize(
    ("name", "head", "kind"),
    [
        ("zebra.1", MANUAL.encode(), "man"), ("zebra.txt", MANUAL.encode(), "text"), ("libz.so.1", b"\x7fELF", None),
        ("syslog.1", b"May 1 zebra started\n", None), ("a.eml", b"anything", "eml"), ("cur/1", MAIL, "eml"),
        ("inbox", b"From a@b Mon\nFrom: ada\nDate: then\nSubject: us\n\ntext", "text"), ("a.txt", MAIL, "text"),
        ("notes", b"From: the start\nwe wrote words as they came along, day by day.\n", "text"),
        ("a.pptx", b"nothing", "pptx"), ("a.ods", b"PK\3\4" + bytes(4000), None),
        *((name, made(kind, "x")[:4096], kind) for kind in ("docx", "pptx", "odt") for name in ("a", "a.bin", "a.pdf")),
    ],
)  # fmt: skip
def test_a_format_is_known_by_its_content_or_suffix(name: str, head: bytes, kind: str | None) -> None:
    assert formats.format_of(name, head) == kind


def test_a_notice_that_many_files_have_is_shown_three_times_and_counted(tmp_path: Path, retrieve: Program) -> None:
    (tmp_path / "data").mkdir()
    for number in range(10):
        (tmp_path / "data" / f"file{number}.json").write_bytes(made("json", f"unique{number}"))
    done = retrieve("build", "--docs-dir", tmp_path / "data")
    assert done.err.count("JSON is indexed as plain text") == 4
    assert "data: 7 more files: JSON is indexed as plain text" in done.err


def test_files_without_a_text_of_their_own_are_skipped_with_the_reason(tmp_path: Path, retrieve: Program) -> None:
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "a.md").write_text("# A\n\ntext")
    (folder / "tools.jsonl").write_text('{"id": "x", "name": "X", "description": "Segments lungs."}\n')
    (folder / "old.html").write_text("<!doctype html><meta http-equiv=refresh content='0; url=new.html'>")
    (folder / "app.html").write_text("<!doctype html><div id=app></div><script>start()</script>")
    (folder / "empty.json").write_text("{}")
    done = retrieve("build", "--docs-dir", folder)
    assert done.code == 0
    assert "tools.jsonl: skipped: it looks like a catalog of records" in done.err
    assert "old.html: skipped: it only leads to another page" in done.err
    assert "app.html: skipped: its content is made by scripts" in done.err
    assert "empty.json: skipped: it has no text" in done.err
    assert retrieve("inspect", "status", "--json").json["records"] == 1
