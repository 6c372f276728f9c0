"""The usual style of a document's text, relative to which headings and footnotes are known."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from retrieve_cli.sources.formats.pdf.lines import Line
from retrieve_cli.sources.formats.pdf.page_text import PageText

CAPTION = re.compile(
    r"(?:fig(?:ure|\.)?|tab(?:le|\.)|scheme|chart|plate|listing|algorithm|abbildung|abb\.|tabelle|figura|tableau|tabla"
    r"|рис\.|таблица|图|表|図)[ \xa0]?[a-z]?\d{1,3}(?:[.-]\d{1,3}){0,3}[a-z]?(?P<stop>[.:|)]|[ \xa0][–—|-])?(?=\s|$)",
    re.IGNORECASE,
)
"""Beginning of a caption; `stop` tells it from a sentence that begins with `Figure 3 shows`."""


class PageLines(NamedTuple):
    """A page with its lines in reading order."""

    page: PageText
    lines: list[Line]

    def words(self, line: Line) -> list[str]:
        """Return the words of a line; parts of one word together."""
        texts = self.page.words.texts
        if len(line.segments) == 1:
            return texts[line.segments[0].first : line.segments[0].last]
        return ["".join(texts[number] for number in token) for token in line.tokens()]

    def text(self, line: Line) -> str:
        """Return the words of a line with single spaces."""
        return " ".join(self.words(line))


class FontStyle(NamedTuple):
    """Style of most characters."""

    size: float
    bold: bool
    fixed: bool


def body_style(flow: Iterable[PageLines]) -> FontStyle:
    """Return the style of most characters of the document."""
    counts: Counter[tuple[float, bool, bool]] = Counter()
    for _, lines in flow:
        for line in lines:
            if line.table < 0:
                counts[round(2 * line.size) / 2, line.bold, line.fixed] += line.chars
    sizes: Counter[float] = Counter()
    for (size, _, _), count in counts.items():
        sizes[size] += count
    total = counts.total()
    size = min(sizes, key=lambda size: (-sizes[size], size), default=10.0)
    bold = sum(count for (_, heavy, _), count in counts.items() if heavy)
    fixed = sum(count for (_, _, mono), count in counts.items() if mono)
    return FontStyle(size, bold=2 * bold > total, fixed=2 * fixed > total)
