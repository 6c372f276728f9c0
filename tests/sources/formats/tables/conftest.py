"""Tables of generated PDF files, as the product reads them."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from pypdf import PdfWriter
from sources.formats.pdf.drawn import changed, read, tables_of as tables
from waiting import PATIENCE_S

Texts = list[list[str]]
"""Texts of the cells by row."""


def tables_of(content: bytes, *, turn: int = 0, crop: tuple[float, float, float, float] | None = None) -> list[Texts]:
    """Return the tables of all pages, each page turned by `turn` degrees and cropped first."""

    def change(writer: PdfWriter) -> None:
        for page in writer.pages:
            page.rotate(turn)
            if crop:
                page.cropbox.lower_left, page.cropbox.upper_right = crop[:2], crop[2:]

    return tables(read(changed(content, change) if turn or crop else content))


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
