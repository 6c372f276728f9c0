"""A PDF file from its bytes to the page that a hit names, through the program alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from samples import Program

PAGES = {
    "Cooling of kettles": ["A preface thanks the potters who lent their kettles to us for", "a whole winter."],
    "Method": ["A thermometer was read each minute until it was tepid. Each thermo-", "meter was of mercury."],
    "Results": ["Copper cooled within thirty-one minutes; porcelain took forty-seven."],
}


@pytest.fixture
def paper(tmp_path: Path, retrieve: Program, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A paper of three pages, printed i, ii and 1, indexed."""
    monkeypatch.setenv("RETRIEVE_CHUNKING__SIZE", "20")
    canvas = pytest.importorskip("reportlab.pdfgen.canvas")
    path = tmp_path / "docs" / "paper.pdf"
    path.parent.mkdir()
    page = canvas.Canvas(str(path), invariant=1)
    page.setTitle("Cooling of kettles")
    page.setAuthor("Ada Potter")
    page.addPageLabel(0, style="ROMAN_LOWER", start=1)
    page.addPageLabel(2, style="ARABIC", start=1)
    for heading, lines in PAGES.items():
        page.setFont("Helvetica-Bold", 16)
        page.drawString(72, 760, heading)
        text = page.beginText(72, 720)
        text.setFont("Helvetica", 11)
        for line in lines:
            text.textLine(line)
        page.drawText(text)
        page.showPage()
    page.save()
    assert retrieve("build", "--docs-dir", "docs").code == 0
    return path


def test_a_pdf_answers_with_its_pages_and_printed_labels(paper: Path, retrieve: Program) -> None:
    found = {
        query: retrieve("query", query, "--chunks", "-k", "1", "--json", "--mode", "bm25").json["results"][0]
        for query in ("potters winter", "mercury", "porcelain")
    }
    places = [(result["page"], result["page_label"]) for result in found.values()]
    assert places == [(1, "i"), (2, "ii"), (3, "1")]
    head = retrieve("query", "porcelain", "--chunks", "-k", "1", "--mode", "bm25").out.splitlines()[0]
    assert head.startswith(" 1  paper.pdf p. 1 [3]")


def test_a_quote_is_found_although_the_file_divides_a_word_of_it(paper: Path, retrieve: Program) -> None:
    quote = "Each thermometer was of mercury."
    Path("gold.jsonl").write_text(json.dumps({"query": "mercury", "relevant": ["paper.pdf"], "quote": quote}) + "\n")
    done = retrieve("eval", "--gold", "gold.jsonl", "--json", "--metrics", "RR@10", "--mode", "bm25")
    assert done.json["metrics"]["chunk RR@10"] == 1.0
