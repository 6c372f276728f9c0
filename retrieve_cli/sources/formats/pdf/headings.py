"""Headings by the outline (bookmarks) of the file, else by size and weight of their font.

The usual style of a document's text, relative to which headings and footnotes are known.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from ctypes import addressof, create_string_buffer
from typing import TYPE_CHECKING, Any, NamedTuple

import pypdfium2.raw as pdfium

from retrieve_cli.sources.formats.pdf.lines import Line
from retrieve_cli.sources.formats.pdf.page import PageText

if TYPE_CHECKING:
    from pypdfium2 import PdfDocument


_MOST_ENTRIES = 20_000
_DEEPEST = 12
_LONGEST_TITLE = 1000
"""Bytes of a title in UTF-16 that are read."""


class OutlineEntry(NamedTuple):
    level: int
    """From 1, the outermost."""
    title: str
    page: int
    """Number of the page, from 1."""


def outline_of(document: PdfDocument) -> list[OutlineEntry]:
    """Return the entries that lead to a page, in order; a loop ends at its second visit."""
    entries: list[OutlineEntry] = []
    seen: set[int] = set()
    waiting = [(pdfium.FPDFBookmark_GetFirstChild(document, None), 1)]
    while waiting and len(seen) < _MOST_ENTRIES:
        bookmark, level = waiting.pop()
        if not bookmark or (place := addressof(bookmark.contents)) in seen:
            continue
        seen.add(place)
        waiting.append((pdfium.FPDFBookmark_GetNextSibling(document, bookmark), level))
        if level < _DEEPEST:
            waiting.append((pdfium.FPDFBookmark_GetFirstChild(document, bookmark), level + 1))
        target = pdfium.FPDFBookmark_GetDest(document, bookmark)
        if not target and (action := pdfium.FPDFBookmark_GetAction(bookmark)):
            target = pdfium.FPDFAction_GetDest(document, action)
        index = pdfium.FPDFDest_GetDestPageIndex(document, target) if target else -1
        title = _title(bookmark)
        if 0 <= index < len(document) and title:
            entries.append(OutlineEntry(level, title, index + 1))
    return entries


def _title(bookmark: Any) -> str:
    size = min(pdfium.FPDFBookmark_GetTitle(bookmark, None, 0), 2**20)
    if size <= 2:
        return ""
    buffer = create_string_buffer(size)
    pdfium.FPDFBookmark_GetTitle(bookmark, buffer, size)
    return " ".join(buffer.raw[: min(size - 2, _LONGEST_TITLE)].decode("utf-16-le", "replace").split())


DEEPEST = 6
_LARGER = 1.12
"""Size of a heading, relative to the body, that needs no bold font."""
_SMALLER = 0.95
"""Size of a bold heading, at least."""
_MOST_LINES = 4
_LONGEST, _LONGEST_BOLD = 250, 150
_SAME = 0.03
"""Relative difference between the font sizes of one style."""
_FEWEST_MATCHED = 0.3
"""Share of the outline whose headings must be on their pages; else the headings are found by their style."""
_MOST_OF_PAGE = 200
"""Headings of one page that are looked for."""
_NUMBERED = re.compile(r"(?:\d{1,3}|[A-Z])((?:\.\d{1,3}){0,5})\.?(?=\s)")
_BULLET = re.compile(r"[•‣▪●○◦·■□➢➤❖✓]")
_NAME = re.compile(r"[\W_]+")


class Heading(NamedTuple):
    """Lines `first` to `last - 1` of a page."""

    first: int
    last: int
    level: int


Headings = Mapping[int, Sequence[Heading]]
"""Headings of each page, by its number and in order."""


def headings_of(flow: Sequence[PageLines], body: FontStyle, outline: Sequence[OutlineEntry]) -> Headings:
    """Return the headings of a document."""
    matched = _by_outline(flow, outline)
    count = sum(map(len, matched.values()))
    if count and count >= _FEWEST_MATCHED * len(outline):
        return matched
    return _by_style(flow, body)


def _by_outline(flow: Sequence[PageLines], outline: Sequence[OutlineEntry]) -> Headings:
    pages = {item.page.index: item for item in flow}
    names: dict[int, list[str]] = {}
    headings: dict[int, list[Heading]] = {}
    for entry in outline:
        item = pages.get(entry.page)
        name = _NAME.sub("", entry.title.casefold())
        if item is None or not name:
            continue
        if entry.page not in names:
            names[entry.page] = [_NAME.sub("", item.text(line).casefold()) for line in item.lines]
        taken = headings.setdefault(entry.page, [])
        if len(taken) >= _MOST_OF_PAGE:
            continue
        place = _matched(item.lines, names[entry.page], name, taken)
        if place is not None:
            taken.append(Heading(*place, min(entry.level, DEEPEST)))
    return {page: sorted(taken) for page, taken in headings.items() if taken}


def _matched(
    lines: Sequence[Line], names: Sequence[str], name: str, taken: Sequence[Heading]
) -> tuple[int, int] | None:
    """Return the lines of a page that are the heading with a name: the largest of them, and no running head."""
    places: list[tuple[int, bool, int, int, int]] = []
    for first, begin in enumerate(names):
        if not begin or lines[first].table >= 0:
            continue
        joined = ""
        for last in range(first, min(first + _MOST_LINES, len(lines))):
            joined += names[last]
            # The outline may lack the number of a heading, or the page may.
            rest = joined.removesuffix(name) if joined.endswith(name) else None
            if rest is None and len(joined) > 3 and name.endswith(joined):
                rest = name.removesuffix(joined)
            if rest is not None and len(rest) <= 12 and (not rest or _numeral(rest)):
                line = lines[first]
                places.append((-round(2 * line.size), not line.bold, len(rest), first, last + 1))
            if len(joined) > len(name) + 12:
                break
    free = (
        (first, last)
        for *_, first, last in sorted(places)
        if all(last <= heading.first or first >= heading.last for heading in taken)
    )
    return next(free, None)


def _numeral(text: str) -> bool:
    """Return True for the number of a heading without its stops: `21`, `a3`, `chapter4`, `iv`."""
    return any(char.isdigit() for char in text) or len(text) == 1 or not text.strip("ivxlc")


def _by_style(flow: Sequence[PageLines], body: FontStyle) -> Headings:
    runs: list[tuple[int, int, int, tuple[float, bool], str]] = []
    for item in flow:
        for first, last in _runs(item, body):
            text = " ".join(item.text(line) for line in item.lines[first:last])
            line = item.lines[first]
            if _is_title(text, line, last - first, body):
                runs.append((item.page.index, first, last, (round(2 * line.size) / 2, line.bold), text))
    levels = _levels([(style, text) for *_, style, text in runs])
    headings: dict[int, list[Heading]] = {}
    for (page, first, last, _, _), level in zip(runs, levels, strict=True):
        headings.setdefault(page, []).append(Heading(first, last, level))
    return headings


def _runs(item: PageLines, body: FontStyle) -> Iterator[tuple[int, int]]:
    """Yield the runs of emphasised lines, each of one style."""
    lines = item.lines
    number = 0
    while number < len(lines):
        first = number
        number += 1
        if not _stands_out(lines[first], body, item.page.turn):
            continue
        while number < len(lines) and _continues(lines[number - 1], lines[number]):
            number += 1
        yield first, number


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
    numbers = [_NUMBERED.match(text) for _, text in titles]
    bases = [ranks[style] for (style, _), match in zip(titles, numbers, strict=True) if match and not match[1]]
    levels = []
    for (style, _), match in zip(titles, numbers, strict=True):
        rank = ranks[style]
        if match and bases and rank >= min(bases):
            rank = min(bases) + match[1].count(".")
        levels.append(min(rank, DEEPEST))
    return levels


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
    sizes: Counter[float] = Counter()
    bold = fixed = 0
    for _, lines in flow:
        for line in lines:
            if line.table < 0:
                sizes[round(2 * line.size) / 2] += line.chars
                bold += line.chars * line.bold
                fixed += line.chars * line.fixed
    total = sizes.total()
    size = min(sizes, key=lambda size: (-sizes[size], size), default=10.0)
    return FontStyle(size, bold=2 * bold > total, fixed=2 * fixed > total)
