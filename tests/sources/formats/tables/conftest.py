"""Tables of generated PDF files, as the product reads them."""

from __future__ import annotations

import io
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from waiting import PATIENCE_S

pdfium = pytest.importorskip("pypdfium2")

from retrieve_cli.sources.formats.pdf import raw  # noqa: E402  after the check that pdfium is there
from retrieve_cli.sources.formats.pdf.page_words import read_words  # noqa: E402
from retrieve_cli.sources.formats.pdf.tables import find_tables  # noqa: E402

Texts = list[list[str]]
"""Texts of the cells by row."""


def tables_of(content: bytes, *, turn: int = 0, crop: tuple[float, float, float, float] | None = None) -> list[Texts]:
    """Return the tables of all pages, each page turned by `turn` degrees and cropped first."""
    document = pdfium.PdfDocument(content)
    if turn or crop:
        for page in document:
            page.set_rotation(turn)
            if crop:
                page.set_cropbox(*crop)
        changed = io.BytesIO()
        document.save(changed)
        document = pdfium.PdfDocument(changed.getvalue())
    tables: list[Texts] = []
    for page in document:
        address = raw.address(page.raw)
        words = read_words(address)
        texts = words.texts
        found = find_tables(address, list(words), (words.width, words.height))
        tables += [[[" ".join(texts[n] for n in cell) for cell in row] for row in table.rows] for table in found]
    return tables


def right_cells(tables: Sequence[Texts], truth: Sequence[Texts]) -> tuple[int, int]:
    """Return how many cells of the truth have the right text at the right place, and how many it has."""
    right = 0
    for number, expected in enumerate(truth):
        table = tables[number] if number < len(tables) else []
        if len(table) == len(expected):
            right += sum(
                left == text
                for row, texts in zip(table, expected, strict=True)
                if len(row) == len(texts)
                for left, text in zip(row, texts, strict=True)
            )
    return right, sum(len(row) for table in truth for row in table)


@pytest.fixture(scope="session")
def typeset(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], bytes]:
    """Return the PDF that LaTeX makes of the body of a document."""
    if shutil.which("pdflatex") is None:
        pytest.skip("pdflatex is not installed (Debian: texlive-latex-base)")
    folder: Path = tmp_path_factory.mktemp("tex")

    def typeset(body: str) -> bytes:
        (folder / "a.tex").write_text(f"{_PREAMBLE}\\begin{{document}}\n{body}\n\\end{{document}}\n", "utf-8")
        command = ["pdflatex", "-interaction=batchmode", "-no-shell-escape", "a.tex"]
        subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, check=True, timeout=PATIENCE_S)
        return (folder / "a.pdf").read_bytes()

    return typeset


_PREAMBLE = r"""\documentclass{article}\pagestyle{empty}\parindent0pt
\def\rulewith#1{\noalign{\vskip 1.7pt\hrule height #1\vskip 2.8pt}}
\def\toprule{\rulewith{.8pt}}\def\midrule{\rulewith{.5pt}}\def\bottomrule{\rulewith{.8pt}}
"""
