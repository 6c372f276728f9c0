"""Papers made with reportlab: two columns of text, headings, tables with ruled lines, charts."""

from __future__ import annotations

import random
from pathlib import Path

VOWELS, CONSONANTS = "aeiou", "bcdfglmnprstv"


def write_papers(folder: Path, count: int, *, pages: int = 8) -> list[Path]:
    """Write papers of about this many pages, the same on every run; return their files."""
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for number in range(count):
        path = folder / f"paper-{number:04}.pdf"
        if not path.exists():
            _write_paper(path, random.Random(number), pages)
        files.append(path)
    return files


def _write_paper(path: Path, chance: random.Random, pages: int) -> None:
    from reportlab.lib.pagesizes import A4
    from reportlab.lib.styles import getSampleStyleSheet
    from reportlab.platypus import BaseDocTemplate, Frame, PageTemplate, Paragraph, Spacer

    styles = getSampleStyleSheet()
    width, height = (A4[0] - 120) / 2, A4[1] - 130
    frames = [Frame(50 + column * (width + 20), 60, width, height) for column in range(2)]
    words = [
        "".join(chance.choice(CONSONANTS) + chance.choice(VOWELS) for _ in range(n)) for n in (1, 2, 2, 3, 3, 4) * 80
    ]
    story = [Paragraph(_sentence(chance, words, 9), styles["Title"])]
    for section in range(pages):
        story.append(Paragraph(f"{section + 1} {_sentence(chance, words, 3)}", styles["Heading2"]))
        texts = [" ".join(_sentence(chance, words, 14) for _ in range(4)) for _ in range(11)]
        story += [Paragraph(text, styles["BodyText"]) for text in texts]
        story += [Spacer(1, 8), _table(chance, words), Spacer(1, 8), _chart(chance), Spacer(1, 8)]
    document = BaseDocTemplate(str(path), pagesize=A4, invariant=1)
    document.addPageTemplates(PageTemplate(frames=frames, onPage=_draw_head))
    document.build(story)


def _sentence(chance: random.Random, words: list[str], count: int) -> str:
    return " ".join(chance.choices(words, k=count)).capitalize() + "."


def _table(chance: random.Random, words: list[str]) -> object:
    from reportlab.platypus import Table, TableStyle

    rows = [[chance.choice(words), *(f"{chance.uniform(0, 100):.1f}" for _ in range(3))] for _ in range(8)]
    lines = [("GRID", (0, 0), (-1, -1), 0.5, (0, 0, 0))]
    if chance.random() < 0.5:
        lines = [(name, *cells, 0.7, (0, 0, 0)) for name, cells in _BOOK_RULES]
    return Table([["name", "x", "y", "z"], *rows], style=TableStyle(lines))


_BOOK_RULES = (
    ("LINEABOVE", ((0, 0), (-1, 0))),
    ("LINEBELOW", ((0, 0), (-1, 0))),
    ("LINEBELOW", ((0, -1), (-1, -1))),
)


def _chart(chance: random.Random) -> object:
    from reportlab.graphics.charts.barcharts import VerticalBarChart
    from reportlab.graphics.shapes import Drawing

    drawing, chart = Drawing(220, 120), VerticalBarChart()
    chart.x, chart.y, chart.width, chart.height = 25, 15, 180, 95
    chart.data = [[chance.randint(1, 50) for _ in range(6)] for _ in range(2)]
    drawing.add(chart)
    return drawing


def _draw_head(canvas: object, document: object) -> None:
    canvas.setFont("Helvetica", 8)  # type: ignore[attr-defined]
    canvas.drawString(56, 810, "Journal of Generated Papers")  # type: ignore[attr-defined]
    canvas.drawRightString(540, 30, str(document.page))  # type: ignore[attr-defined]
