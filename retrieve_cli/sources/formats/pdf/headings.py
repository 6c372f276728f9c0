"""Headings by the outline (bookmarks) of the file, else by size and weight of their font."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from retrieve_cli.sources.formats.pdf.lines import Line
from retrieve_cli.sources.formats.pdf.page import PageText

if TYPE_CHECKING:
    from pypdfium2 import PdfDocument

_MOST_ENTRIES, _DEEPEST_ENTRY, _MOST_OF_PAGE = 20_000, 12, 200
_LONGEST_TITLE = 500
_DEEPEST = 6
_LARGER, _SMALLER = 1.12, 0.95
"""Size of a heading, relative to the body: without a bold font, and with one, at least."""
_MOST_LINES, _LONGEST, _LONGEST_BOLD = 4, 250, 150
_SAME = 0.03  # relative difference between the font sizes of one style
_FEWEST_MATCHED = 0.3
"""Share of the outline whose headings must be on their pages; else the headings are found by their style."""
_NUMBERED = re.compile(r"(?:\d{1,3}|[A-Z])((?:\.\d{1,3}){0,5})\.?(?=\s)")
_BULLET = re.compile(r"[•‣▪●○◦·■□➢➤❖✓]")
_NAME = re.compile(r"[\W_]+")
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
        """Return the words of a line."""
        texts = self.page.words.texts
        return [text for segment in line.segments for text in texts[segment.first : segment.last]]

    def text(self, line: Line) -> str:
        """Return the words of a line with single spaces."""
        return " ".join(self.words(line))


class FontStyle(NamedTuple):
    """Style of most characters."""

    size: float
    bold: bool
    fixed: bool


class Heading(NamedTuple):
    """Lines `first` to `last - 1` of a page."""

    first: int
    last: int
    level: int


Headings = Mapping[int, Sequence[Heading]]  # headings of each page, by its number and in order
OutlineEntry = tuple[int, str, int]  # level from 1, the outermost; title; number of the page, from 1


def body_style(flow: Iterable[PageLines]) -> FontStyle:
    """Return the style of most characters of the document, relative to which headings and footnotes are known."""
    sizes: Counter[float] = Counter()
    bold = fixed = 0
    for line in (line for _, lines in flow for line in lines if line.table < 0):
        sizes[round(2 * line.size) / 2] += line.chars
        bold += line.chars * line.bold
        fixed += line.chars * line.fixed
    size = min(sizes, key=lambda size: (-sizes[size], size), default=10.0)
    return FontStyle(size, bold=2 * bold > sizes.total(), fixed=2 * fixed > sizes.total())


def outline_of(document: PdfDocument) -> list[OutlineEntry]:
    """Return the entries that lead to a page, in order; a loop ends at its second visit."""
    entries: list[OutlineEntry] = []
    for bookmark in islice(document.get_toc(max_depth=_DEEPEST_ENTRY), _MOST_ENTRIES):
        target = bookmark.get_dest()
        index = target.get_index() if target else None
        try:
            title = " ".join(bookmark.get_title()[:_LONGEST_TITLE].split())
        except UnicodeDecodeError:
            continue
        if index is not None and index < len(document) and title:
            entries.append((bookmark.level + 1, title, index + 1))
    return entries


def headings_of(flow: Sequence[PageLines], body: FontStyle, outline: Sequence[OutlineEntry]) -> Headings:
    """Return the headings of a document."""
    pages = {item.page.index: item for item in flow}
    names: dict[int, list[str]] = {}
    headings: dict[int, list[Heading]] = {}
    for level, title, index in outline:
        item, name = pages[index], _NAME.sub("", title.casefold())
        if index not in names:
            names[index] = [_NAME.sub("", item.text(line).casefold()) for line in item.lines]
        taken = headings.setdefault(index, [])
        if name and len(taken) < _MOST_OF_PAGE:
            free = (
                (first, last)
                for *_, first, last in sorted(_matches(item.lines, names[index], name))
                if all(last <= heading.first or first >= heading.last for heading in taken)
            )
            taken += [Heading(*place, min(level, _DEEPEST)) for place in [next(free, None)] if place]
    count = sum(map(len, headings.values()))
    if count and count >= _FEWEST_MATCHED * len(outline):
        return {index: sorted(taken) for index, taken in headings.items()}
    return _by_style(flow, body)


def _matches(lines: Sequence[Line], names: Sequence[str], name: str) -> Iterator[tuple[float, bool, int, int, int]]:
    """Yield the lines of a page that have the name of a heading: size, weight, difference of the text, span.

    The outline may lack the number of a heading, or the page may. The largest of them is no running head.
    """
    for first, line in enumerate(lines):
        joined = ""
        for last in range(first, min(first + _MOST_LINES, len(lines)) if names[first] and line.table < 0 else first):
            joined += names[last]
            shorter, longer = sorted((joined, name), key=len)
            number = longer.removesuffix(shorter)  # without its stops: `21`, `a3`, `chapter4`, `iv`
            numeral = any(map(str.isdigit, number)) or len(number) < 2 or not number.strip("ivxlc")
            same = longer.endswith(shorter) and (shorter == name or len(shorter) > 3)
            if same and numeral and len(number) <= 12:
                yield -round(2 * line.size), not line.bold, len(number), first, last + 1
            if len(joined) > len(name) + 12:
                break


def _by_style(flow: Sequence[PageLines], body: FontStyle) -> Headings:
    headings: dict[int, list[Heading]] = {}
    titles: list[tuple[int, int, int, tuple[float, bool], str]] = []
    for item in flow:
        last = 0
        for first, line in enumerate(item.lines):
            if first < last or not _stands_out(line, body, item.page.turn):
                continue
            last = first + 1
            while last < len(item.lines) and _continues(item.lines[last - 1], item.lines[last]):
                last += 1
            text = " ".join(item.text(line) for line in item.lines[first:last])
            if _is_title(text, line, last - first, body):
                titles.append((item.page.index, first, last, (round(2 * line.size) / 2, line.bold), text))
    levels = _levels([title[-2:] for title in titles])
    for (page, first, last, *_), level in zip(titles, levels, strict=True):
        headings.setdefault(page, []).append(Heading(first, last, level))
    return headings


def _stands_out(line: Line, body: FontStyle, turn: int) -> bool:
    if line.table >= 0 or line.turn != turn or (line.fixed and not body.fixed and not line.bold):
        return False
    heavier = line.bold and not body.bold and line.size >= _SMALLER * body.size
    return line.size >= _LARGER * body.size or (heavier and len(line.segments) < 3)


def _continues(line: Line, following: Line) -> bool:
    """Return True if an emphasised line continues on the following one."""
    alike = abs(line.size - following.size) <= _SAME * line.size and line.bold == following.bold
    near = following.column == line.column and following.y0 - line.y1 < 0.6 * line.size
    return alike and near and following.table < 0 and following.turn == line.turn


def _is_title(text: str, line: Line, lines: int, body: FontStyle) -> bool:
    """Return True if emphasised text has the form of a heading."""
    letters = sum(char.isalpha() for char in text)
    large = line.size >= _LARGER * body.size
    if letters < 2 or lines > _MOST_LINES or len(text) > (_LONGEST if large else _LONGEST_BOLD):
        return False
    if _BULLET.match(text) or CAPTION.match(text) or 2 * letters < len(text.replace(" ", "")):
        return False
    ended = text.endswith((".", ",", ";", ":")) and not text.endswith("...")
    return large or _NUMBERED.match(text) is not None or (not ended and lines < 3)


def _levels(titles: Sequence[tuple[tuple[float, bool], str]]) -> list[int]:
    """Return the levels: the rank of the style, but below numbered headings the depth of the number."""
    ranks = {style: rank for rank, style in enumerate(sorted({style for style, _ in titles}, reverse=True), start=1)}
    numbers = [(ranks[style], _NUMBERED.match(text)) for style, text in titles]
    base = min((rank for rank, match in numbers if match and not match[1]), default=_DEEPEST)
    depths = [base + match[1].count(".") if match and rank >= base else rank for rank, match in numbers]
    return [min(depth, _DEEPEST) for depth in depths]
