"""A folder of 200 documents in every format: one build, one changed file, answers that name pages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import docx
import pytest
from samples import Program
from sources.formats.truth.typesetting import Sheet, Speech

from retrieve_cli.sources.formats import formats
from retrieve_cli.sources.formats.reader import SandboxedReader

KINDS = ("pdf", "html", "docx", "md", "rst", "ipynb", "txt", "json")
NOT_DOCUMENTS = ("png", "css")


def write_pdf(path: Path, number: int, last: str) -> None:
    speech, sheet = Speech(number), Sheet(path.stem)
    for page in sheet.numbers(3):
        y = sheet.heading(["Chapter", str(page + 1)], 56, 770)
        y = sheet.paragraph(speech.words(60), 56, y, 480)
        sheet.paragraph([last if page == 2 else f"Nothing{'abc'[page]}", "is", "here."], 56, y, 480)
    sheet.canvas.addPageLabel(0, style="ROMAN_LOWER", start=7)
    path.write_bytes(sheet.finish().content)


def write(path: Path, number: int) -> None:
    """Write a document of the format that the suffix names, with a word of its own: `unique` and the number."""
    kind, own = path.suffix[1:], f"unique{number}"
    text = " ".join(Speech(number).words(40))
    if kind == "pdf":
        write_pdf(path, number, own)
    elif kind == "html":
        part = f"<h2 id='part'>Part</h2><p>{own} {text}</p>"
        path.write_text(f"<!doctype html><title>T</title><main>{part}</main>", "utf-8")
    elif kind == "docx":
        file = docx.Document()
        file.add_heading("Part", 1)
        file.add_paragraph(f"{own} {text}")
        file.save(str(path))
    elif kind == "ipynb":
        cells = [{"cell_type": "markdown", "metadata": {}, "source": [f"# Part\n\n{own} {text}"]}]
        path.write_text(json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells}), "utf-8")
    elif kind in NOT_DOCUMENTS:
        path.write_bytes(b"\x89PNG nothing to read")
    elif kind == "json":
        path.write_text(json.dumps({"part": f"{own} {text}"}), "utf-8")
    else:
        path.write_text(f"Part\n====\n\n{own} {text}\n", "utf-8")


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
def folder(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """180 documents and 40 other files in 10 folders, or as many as a test asks for."""
    for number in range(getattr(request, "param", 220)):
        kind = (*KINDS, *NOT_DOCUMENTS)[number % 10] if number < 200 else KINDS[number % 8]
        path = tmp_path / "library" / f"shelf{number % 10}" / f"file{number}.{kind}"
        path.parent.mkdir(parents=True, exist_ok=True)
        write(path, number)
    return tmp_path / "library"


def test_a_mixed_folder_is_built_synced_by_one_file_and_answers_with_pages(
    folder: Path, begun: list[str], retrieve: Program
) -> None:
    done = retrieve("build", "--docs-dir", folder)
    assert done.code == 0, done.err
    documents = [path for path in folder.rglob("*.*") if path.suffix[1:] in KINDS]
    assert retrieve("inspect", "status", "--json").json["records"] == len(documents) == 180
    assert "skipped 40 files that are not documents (" in done.err
    parsed = [path for path in documents if path.suffix not in (".md", ".txt")]
    assert sorted(begun) == sorted(str(path.relative_to(folder)) for path in parsed)

    result = retrieve("query", "unique10", "--mode", "bm25", "--json").json["results"][0]
    assert (result["doc_id"], result["page"], result["page_label"]) == ("shelf0/file10.pdf", 3, "ix")
    assert retrieve("query", "unique11", "--mode", "bm25", "--json").json["results"][0]["anchor"] == "part"

    begun.clear()
    write_pdf(folder / "shelf0" / "file10.pdf", 10, "replacement")
    done = retrieve("sync", "--json")
    assert done.code == 0, done.err
    assert begun == ["shelf0/file10.pdf"]
    counts = {key: done.json[key] for key in ("added", "changed", "removed", "kept")}
    assert counts == {"added": 0, "changed": 1, "removed": 0, "kept": 179}
    result = retrieve("query", "replacement", "--mode", "bm25", "--json").json["results"][0]
    assert (result["doc_id"], result["page"]) == ("shelf0/file10.pdf", 3)
    begun.clear()
    assert retrieve("sync", "--json").json["status"] == "unchanged"
    assert begun == []


@pytest.mark.parametrize("folder", [20], indirect=True)
def test_a_new_version_of_a_parser_reads_only_files_of_its_format(
    folder: Path, begun: list[str], retrieve: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert retrieve("build", "--docs-dir", folder).code == 0
    begun.clear()
    newer = {**formats.FORMATS, "docx": formats.FORMATS["docx"]._replace(rules=1000)}
    monkeypatch.setattr(formats, "FORMATS", newer)
    hit = retrieve("query", "unique12", "--mode", "bm25", "--json").json["results"][0]
    assert (hit["doc_id"], hit["freshness"]) == ("shelf2/file12.docx", "fresh")
    done = retrieve("sync", "--json")
    assert done.json["status"] == "published"
    assert begun
    assert {Path(name).suffix for name in begun} == {".docx"}


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
        write(tmp_path / "data" / f"file{number}.json", number)
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
