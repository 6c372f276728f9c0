"""Typesetting of PDF files whose words, pages, labels, tables and headings are known."""

from __future__ import annotations

import io
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from reportlab.lib.pagesizes import A4
from reportlab.pdfbase import pdfmetrics
from reportlab.pdfbase.ttfonts import TTFont
from reportlab.pdfgen.canvas import Canvas

BODY, BOLD, MONO = "Times-Roman", "Times-Bold", "Courier"
_SYLLABLES = [first + vowel for first in "b c d f g k l m n p r s t v z br st tr pl gr".split() for vowel in "aeiou"]


def wide_font() -> str | None:
    """Register a font with Hebrew, Arabic and ligature glyphs; return its name, None if there is none here."""
    import matplotlib as mpl

    path = Path(mpl.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"
    if not path.exists():
        return None
    pdfmetrics.registerFont(TTFont("Wide", str(path)))
    return "Wide"


@dataclass
class Made:
    """A document and all that a reader of it should find."""

    name: str
    content: bytes = b""
    pages: list[list[str]] = field(default_factory=list)
    """By page, its words in the order of reading, without running heads and feet."""
    labels: list[str] = field(default_factory=list)
    tables: list[list[list[str]]] = field(default_factory=list)
    headings: list[tuple[int, str]] = field(default_factory=list)
    """Level and words of each."""
    captions: list[str] = field(default_factory=list)
    code: list[str] = field(default_factory=list)
    """Lines of programs."""


class Speech:
    """Source of words that no dictionary has; the same seed says the same. Words repeat, as in any text."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        pick = self._random.choice
        self._words = sorted({"".join(pick(_SYLLABLES) for _ in range(self._random.randint(1, 4))) for _ in range(300)})

    def words(self, count: int) -> list[str]:
        """Return words of a paragraph, in sentences."""
        words = [self._random.choice(self._words) for _ in range(count)]
        starts = {0}
        for place in range(7, count - 4, 9):
            words[place] += "."
            starts.add(place + 1)
        words[-1] += "."
        return [word.capitalize() if place in starts else word for place, word in enumerate(words)]

    def title(self, count: int = 3) -> list[str]:
        """Return words of a heading."""
        return [self._random.choice(self._words).capitalize() for _ in range(count)]

    def number(self, most: int) -> int:
        return self._random.randint(1, most)


class Sheet:
    """Pages under the pen: every word that is set is noted in the truth, in the order in which it is set."""

    def __init__(self, name: str, *, size: tuple[float, float] = A4, font: str = BODY) -> None:
        self._file = io.BytesIO()
        self.canvas = Canvas(self._file, pagesize=size, invariant=1)
        self.made = Made(name, pages=[[]])
        self.width, self.height = size
        self.font = font

    def note(self, words: Sequence[str]) -> None:
        """Note words of the current page."""
        self.made.pages[-1] += words

    def numbers(self, count: int) -> Iterator[int]:
        """Yield the numbers of pages from 0, each when its page has begun."""
        for number in range(count):
            if number:
                self.canvas.showPage()
                self.made.pages.append([])
            yield number

    def finish(self) -> Made:
        """Return the document."""
        self.canvas.save()
        self.made.content = self._file.getvalue()
        return self.made

    def line(self, text: str, x: float, y: float, *, font: str = "", size: float = 10) -> None:
        """Draw a line that the truth does not note."""
        self.canvas.setFont(font or self.font, size)
        self.canvas.drawString(x, y, text)

    def head(self, text: str, foot: str = "") -> None:
        """Draw a running head and foot; they are not part of the text."""
        self.line(text, 56, self.height - 36, size=9)
        if foot:
            self.line(foot, self.width / 2, 30, size=9)

    def heading(self, words: Sequence[str], x: float, y: float, *, level: int = 1) -> float:
        """Set a heading; return the baseline below it."""
        size = {1: 16, 2: 13}.get(level, 11)
        self.line(" ".join(words), x, y, font=BOLD, size=size)
        self.note(words)
        self.made.headings.append((level, " ".join(words)))
        return y - size - 8

    def paragraph(
        self, words: Sequence[str], x: float, y: float, width: float, *, size: float = 10, hyphens: bool = False
    ) -> float:
        """Set a paragraph, with words divided at line ends if `hyphens`; return the baseline of the next one."""
        for text in self._lines(words, width, size, hyphens=hyphens):
            self.line(text, x, y, size=size)
            y -= 1.25 * size
        self.note(words)
        return y - 0.75 * size

    def _lines(self, words: Sequence[str], width: float, size: float, *, hyphens: bool) -> Iterator[str]:
        line = ""
        for word in words:
            longer = f"{line} {word}".strip()
            if pdfmetrics.stringWidth(longer, self.font, size) <= width:
                line = longer
                continue
            half = len(word) // 2
            divided = f"{line} {word[:half]}-".strip()
            if hyphens and half >= 2 and word.isalpha() and pdfmetrics.stringWidth(divided, self.font, size) <= width:
                yield divided
                line = word[half:]
            else:
                yield line
                line = word
        yield line

    def table(self, rows: Sequence[Sequence[str]], x: float, y: float, widths: Sequence[float]) -> float:
        """Set a table with ruled lines; return the baseline below it."""
        height = 16.0
        self.canvas.setLineWidth(0.5)
        edges = [x + sum(widths[:number]) for number in range(len(widths) + 1)]
        for number, row in enumerate(rows):
            top = y - number * height
            for edge, text in zip(edges, row, strict=False):
                self.line(text, edge + 4, top - 11, size=9, font=BOLD if number == 0 else BODY)
                self.note(text.split())
        self.canvas.grid(edges, [y - number * height for number in range(len(rows) + 1)])
        self.made.tables.append([list(row) for row in rows])
        return y - len(rows) * height - 14

    def program(self, lines: Sequence[str], x: float, y: float) -> float:
        """Set lines of a program; return the baseline below it."""
        for text in lines:
            self.line(text, x, y, font=MONO, size=9)
            self.note(text.split())
            y -= 11
        self.made.code += [text.strip() for text in lines]
        return y - 8

    def caption(self, words: Sequence[str], x: float, y: float) -> float:
        """Set the caption of a figure; return the baseline below it."""
        self.line(" ".join(words), x, y, size=9)
        self.note(words)
        self.made.captions.append(" ".join(words))
        return y - 22
