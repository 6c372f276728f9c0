"""PDF files drawn with reportlab, and what the parser reads of them."""

from __future__ import annotations

import io
import random
import re
from collections.abc import Callable
from pathlib import Path

from pypdf import PdfWriter
from reportlab.pdfbase import pdfmetrics
from reportlab.pdfbase.ttfonts import TTFont
from reportlab.pdfgen.canvas import Canvas
from sources.formats.layouts import blocks, layout_of

from retrieve_cli.contracts import Parsed
from retrieve_cli.sources.formats.formats import ParsingLimits
from retrieve_cli.sources.formats.pdf.pdf_reading import parse

WORDS = (
    "alder birch cedar dogwood elm fir gorse hazel iris juniper larch maple nettle oak poplar quince rowan spruce "
    "thyme umbel vetch willow yarrow zelkova"
).split()


def wide_font() -> str | None:
    """Register a font with Hebrew, Arabic and ligature glyphs; return its name, None if there is none here."""
    import matplotlib as mpl

    path = Path(mpl.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"
    if not path.exists():
        return None
    pdfmetrics.registerFont(TTFont("Wide", str(path)))
    return "Wide"


class Speech:
    """Source of words that no dictionary has; the same seed says the same. Words repeat, as in any text."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        syllables = [first + vowel for first in "bcdfgklmnprstvz" for vowel in "aeiou"]
        self._words = ["".join(self._random.choices(syllables, k=1 + number % 4)) for number in range(300)]

    def words(self, count: int) -> list[str]:
        """Return words."""
        return self._random.choices(self._words, k=count)


def draw(*pages: Callable[[Canvas], None], size: tuple[float, float] = (595, 842)) -> bytes:
    """Return a file whose pages the functions draw."""
    file = io.BytesIO()
    canvas = Canvas(file, pagesize=size, invariant=1)
    for page in pages:
        page(canvas)
        canvas.showPage()
    canvas.save()
    return file.getvalue()


def changed(content: bytes, change: Callable[[PdfWriter], object]) -> bytes:
    """Return a file after a change by pypdf."""
    writer = PdfWriter(clone_from=io.BytesIO(content))
    change(writer)
    written = io.BytesIO()
    writer.write(written)
    return written.getvalue()


def read(
    content: bytes, *, name: str = "paper.pdf", limits: ParsingLimits | None = None, sidecar: bytes | None = None
) -> Parsed:
    return parse(content, name=name, limits=limits or ParsingLimits(), on_page=lambda _: None, sidecar=sidecar)


def text(canvas: Canvas, x: float, y: float, content: str, *, font: str = "Times-Roman", size: float = 10) -> None:
    """Draw a line."""
    canvas.setFont(font, size)
    canvas.drawString(x, y, content)


def prose(seed: int, count: int) -> list[str]:
    """Return words in an order that the seed decides."""
    return [WORDS[(seed * 7 + place * place + place * (seed + 3)) % len(WORDS)] for place in range(count)]


def column(
    canvas: Canvas, x: float, y: float, words: list[str], *, width: float = 230, size: float = 10, leading: float = 12.5
) -> float:
    """Draw words as a paragraph; return the baseline below it."""
    line = ""
    for word in [*words, ""]:
        longer = f"{line} {word}".strip()
        if word and pdfmetrics.stringWidth(longer, "Times-Roman", size) <= width:
            line = longer
        else:
            text(canvas, x, y, line, size=size)
            y -= leading
            line = word
    return y


def rows_of(parsed: Parsed) -> list[list[str]]:
    """Return the rows of all tables, each with the texts of its cells."""
    return [row for table in tables_of(parsed) for row in table]


def tables_of(parsed: Parsed) -> list[list[list[str]]]:
    """Return the tables, each with the texts of the cells of its rows."""
    tables = [content.split("\n") for kind, content in blocks(parsed) if kind == "table"]
    return [[_cells(line) for line in lines if line.strip("|-")] for lines in tables]


def _cells(line: str) -> list[str]:
    return [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def labels(parsed: Parsed) -> list[str]:
    return [page.label for page in layout_of(parsed).pages]
