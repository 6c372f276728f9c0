"""A folder with a document of every format: one build, one changed file, answers that name title, section and page."""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Callable, Mapping
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import docx
import pytest
from docutils.core import publish_string
from pptx import Presentation
from reportlab.lib.styles import getSampleStyleSheet
from reportlab.platypus import PageBreak, Paragraph, SimpleDocTemplate, Table
from samples import Program

from retrieve_cli.sources.formats import formats
from retrieve_cli.sources.formats.reader import SandboxedReader

HTML = """<title>Kettles</title><h1>Kettles</h1><p>All about kettles and how they are kept clean.</p>
<h2 id="lime">Descaling</h2><p>A dose removes the lime of a week.</p>
<table><tr><th>acid</th><th>g</th></tr><tr><td>WORD</td><td>20</td></tr></table>"""
MARKDOWN = "# Kettles\n\nAll about kettles.\n\n## Descaling\n\nA dose.\n\n| acid | g |\n|---|---|\n| WORD | 20 |\n"
GRID = "=========  ==\nacid       g\n=========  ==\nWORD  20\n=========  ==\n"
UNDERLINED = f"Kettles\n=======\n\nAll.\n\nDescaling\n---------\n\n{GRID}"
MANUAL = ".TH KETTLES 1\n.SH NAME\nkettles \\- boil water\n.SH DESCALING\nA dose: WORD 20\n"
BOOK = """<package xmlns="http://www.idpf.org/2007/opf"><metadata xmlns:dc="http://purl.org/dc/elements/1.1/">
<dc:title>Kettles</dc:title></metadata><manifest><item id="a" href="a.xhtml" media-type="application/xhtml+xml"/>
</manifest><spine><itemref idref="a"/></spine></package>"""
CONTAINER = """<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>
<rootfile full-path="b.opf" media-type="application/oebps-package+xml"/></rootfiles></container>"""


def pdf(word: str) -> bytes:
    target, style = io.BytesIO(), getSampleStyleSheet()
    story = [
        Paragraph("Kettles", style["Title"]), Paragraph("All about kettles. " * 20, style["Normal"]), PageBreak(),
        Paragraph("Descaling", style["Heading2"]), Paragraph("A dose removes the lime. " * 20, style["Normal"]),
        Table([["acid", "g"], [word, "20"]], style=[("GRID", (0, 0), (-1, -1), 1, "black")]),
    ]  # fmt: skip
    SimpleDocTemplate(target, title="Kettles").build(story)
    return target.getvalue()


def word_file(word: str) -> bytes:
    file, target = docx.Document(), io.BytesIO()
    file.add_heading("Kettles", 1)
    file.add_heading("Descaling", 2)
    for cell, text in zip(file.add_table(2, 2)._cells, ("acid", "g", word, "20"), strict=True):
        cell.text = text
    file.save(target)
    return target.getvalue()


def slides(word: str) -> bytes:
    deck, target = Presentation(), io.BytesIO()
    for layout, title in ((0, "Kettles"), (5, "Descaling")):
        slide = deck.slides.add_slide(deck.slide_layouts[layout])
        slide.shapes.title.text = title
    table = slide.shapes.add_table(2, 2, 0, 0, 9, 9).table
    for cell, text in zip(table.iter_cells(), ("acid", "g", word, "20"), strict=True):
        cell.text = text
    deck.save(target)
    return target.getvalue()


def mail(word: str) -> bytes:
    message = EmailMessage()
    message["Subject"], message["From"] = "Kettles", "ada@example.org"
    message.set_content(HTML.replace("WORD", word), subtype="html")
    return bytes(message)


def notebook(word: str) -> bytes:
    cells = [{"cell_type": "markdown", "metadata": {}, "source": MARKDOWN.replace("WORD", word)}]
    return json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells}).encode()


def book(word: str) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as file:
        file.writestr("mimetype", "application/epub+zip")
        file.writestr("META-INF/container.xml", CONTAINER)
        file.writestr("b.opf", BOOK)
        page = f'<html xmlns="http://www.w3.org/1999/xhtml"><body>{HTML.partition("</title>")[2]}</body></html>'
        file.writestr("a.xhtml", page.replace("WORD", word))
    return target.getvalue()


def text(content: str) -> Callable[[str], bytes]:
    return lambda word: content.replace("WORD", word).encode()


MADE: Mapping[str, Callable[[str], bytes]] = {
    "markdown": text(MARKDOWN), "text": text(MARKDOWN), "pdf": pdf, "html": text(f"<!doctype html>{HTML}"),
    "docx": word_file, "notebook": notebook, "rst": text(UNDERLINED), "json": text('{"dose": "WORD", "g": 20}'),
    "man": text(MANUAL), "pptx": slides, "eml": mail, "epub": book,
    "odt": lambda word: publish_string(UNDERLINED.replace("WORD", word), writer="odt"),
    "xml": text(f"<doc><title>Kettles</title><sec><title>Descaling</title>{HTML.partition('</h2>')[2]}</sec></doc>"),
}  # fmt: skip
"""A document of each format with a word of its own in a table below the heading Descaling."""
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
    for kind, made in formats.FORMATS.items():
        (folder / f"file-{kind}{made.suffixes[0]}").write_bytes(MADE[kind](f"unique{kind}"))
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
        expected = {"pdf": (2, None), "pptx": (2, None), "html": (None, "lime")}.get(kind)
        assert expected is None or (hit["page"], hit["anchor"]) == expected


def test_a_sync_parses_what_has_changed_and_formats_with_a_newer_parser(
    folder: Path, begun: list[str], retrieve: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert retrieve("build", "--docs-dir", folder).code == 0
    here = (".markdown", ".txt", ".css", ".png")
    assert sorted(begun) == sorted(path.name for path in folder.iterdir() if path.suffix not in here)
    begun.clear()
    (folder / "file-pdf.pdf").write_bytes(pdf("replacement"))
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


def test_a_folder_of_markdown_has_no_parsers_in_its_recipe(tmp_path: Path, retrieve: Program) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.md").write_text("# A\n\ntext")
    assert retrieve("build", "--docs-dir", tmp_path / "notes").code == 0
    [manifest] = Path("artifacts").glob("generations/*/manifest.json")
    recipe = json.loads(manifest.read_text())["recipe"]
    assert "documents" not in recipe
    (tmp_path / "notes" / "b.rst").write_text("B\n=\n\ntext")
    assert retrieve("sync").code == 0
    recipes = [json.loads(path.read_text())["recipe"] for path in Path("artifacts").glob("generations/*/manifest.json")]
    assert [list(recipe["documents"]) for recipe in recipes if "documents" in recipe] == [["rst"]]


def test_a_notice_that_many_files_have_is_shown_three_times_and_counted(tmp_path: Path, retrieve: Program) -> None:
    (tmp_path / "data").mkdir()
    for number in range(10):
        (tmp_path / "data" / f"file{number}.json").write_bytes(MADE["json"](f"unique{number}"))
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
