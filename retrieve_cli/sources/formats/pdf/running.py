"""Running heads and feet, and the labels that their page numbers give to pages.

A text at the edge of a page is one if the same text, or the same but for one page number that counts the pages, stands
at the same place on more than half of all pages. A line is left out if it is made of such texts alone, and no other
text stands further out. The same place may be counted from the outer edge of odd and even pages.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

from retrieve_cli.sources.formats.pdf.lines import Segment
from retrieve_cli.sources.formats.pdf.page import PageText

_FEWEST_PAGES = 3
_ROWS = 4
"""Rows at the top and at the bottom of a page that may be running."""
_LONGEST = 200
_NEAR = 4.0
"""Points by which the same place may differ."""
_MOST_PLACES = 50
"""Places of one text that are told apart."""
_LARGE = 1.2
"""Ratio to the usual size of type above which a line is a title and no running head, even if each page has the same."""
_NUMBER = re.compile(r"(?<![\w.,])\d{1,5}(?![\w.,])")
_ROMAN = re.compile(r"(?=.)(?:c{0,3})(?:xc|xl|l?x{0,3})(?:ix|iv|v?i{0,3})", re.IGNORECASE)
_DIGITS = {"i": 1, "v": 5, "x": 10, "l": 50, "c": 100}


class _Entry(NamedTuple):
    """A text of a page, as a candidate."""

    page: int
    segment: Segment
    y: float
    """Distance from the edge of the page as its reader sees it."""
    edges: tuple[float, ...]
    """Left, middle, right, and the distances from the outer and the inner edge: one of them is kept."""
    series: tuple[str, int] | None = None
    """Kind of its page number, and the difference to the number of the page in the file."""


def remove_running(pages: Sequence[PageText]) -> tuple[list[tuple[int, str]], list[str]]:
    """Remove the running heads and feet from the segments of all pages.

    Returns:
        The removed texts with the numbers of their pages, and the label of each page by its printed number.
    """
    rows = {(page.index, low): list(_outer_rows(page, low=low)) for page in pages for low in (False, True)}
    sizes = np.concatenate([page.words.sizes for page in pages]) if pages else np.zeros(0)
    large = _LARGE * (float(np.median(sizes)) if len(sizes) else 0.0)
    places: dict[tuple[object, ...], list[_Entry]] = defaultdict(list)
    for page in pages if len(pages) >= _FEWEST_PAGES else ():
        for low in (False, True):
            for segment in chain.from_iterable(rows[page.index, low]):
                if segment.table < 0 and segment.size <= large:
                    for key, entry in _entries(page, segment, low=low):
                        places[low, *key].append(entry)
    running: dict[int, set[Segment]] = defaultdict(set)
    for entries in places.values():
        for entry in _repeated(entries, len(pages)):
            running[entry.page].add(entry.segment)
    removed: list[tuple[int, str]] = []
    for page in pages if running else ():
        outer = {segment for low in (False, True) for segment in _outermost(rows[page.index, low], running[page.index])}
        kept = [segment for segment in page.segments.get(page.turn, ()) if segment not in outer]
        if kept:  # never all the text of a page
            removed += [(page.index, page.text(one)) for one in sorted(outer, key=lambda one: (one.y0, one.x0))]
            page.segments[page.turn] = kept
    return removed, _labels(rows, pages)


def _outer_rows(page: PageText, *, low: bool) -> Iterator[list[Segment]]:
    """Yield the first rows of a page; with `low`, the last ones, from the bottom upward."""
    sign = -1 if low else 1
    row: list[Segment] = []
    count = 0
    for segment in sorted(page.segments.get(page.turn, ()), key=lambda one: (sign * (one.y0 + one.y1), one.x0)):
        if row and min(segment.y1, row[0].y1) - max(segment.y0, row[0].y0) <= 0.5 * min(segment.height, row[0].height):
            yield row
            count += 1
            if count == _ROWS:
                return
            row = []
        row.append(segment)
    if row:
        yield row


def _entries(page: PageText, segment: Segment, *, low: bool) -> Iterator[tuple[tuple[object, ...], _Entry]]:
    """Yield a text as it is, and without each of its numbers; with what has to be the same on other pages."""
    text = page.text(segment)[:_LONGEST]
    wide, tall = page.words.width, page.words.height
    right, down, width, height = {
        90: (0.0, wide, tall, wide),
        180: (wide, tall, wide, tall),
        270: (tall, 0.0, tall, wide),
    }.get(page.turn, (0.0, 0.0, wide, tall))
    y = height - segment.y1 - down if low else segment.y0 + down
    x0, x1 = segment.x0 + right, segment.x1 + right
    outer, inner = (x0, width - x1) if page.index % 2 else (width - x1, x0)
    entry = _Entry(page.index, segment, y, (x0, (x0 + x1) / 2, x1, outer, inner))
    yield (text,), entry
    for match in _NUMBER.finditer(text):
        key = text[: match.start()], text[match.end() :]
        yield key, entry._replace(series=("1", int(match[0]) - page.index))
    if _ROMAN.fullmatch(text):
        yield ("", ""), entry._replace(series=_series(text, page.index))


def _series(number: str, page: int) -> tuple[str, int] | None:
    """Return the kind of a number, and its difference to the number of the page in the file; None for other texts."""
    if _NUMBER.fullmatch(number):
        return "1", int(number) - page
    if _ROMAN.fullmatch(number):
        return ("i" if number.islower() else "I"), _value(number.lower()) - page
    return None


def _labels(rows: Mapping[tuple[int, bool], Sequence[Sequence[Segment]]], pages: Sequence[PageText]) -> list[str]:
    """Return the label of each page by the number at an end of its first or last row, if the numbers count the pages;
    empty without."""
    numbers: dict[tuple[str, int], dict[int, str]] = defaultdict(dict)
    for page in pages:
        for low in (False, True):
            for row in rows[page.index, low][:1]:
                ends = page.words.texts[row[0].first], page.words.texts[row[-1].last - 1]
                for text in ends if all(segment.table < 0 for segment in row) else ():
                    if (series := _series(text, page.index)) is not None:
                        numbers[series][page.index] = text
    labels = [""] * len(pages)
    for (kind, offset), texts in sorted(numbers.items(), key=lambda item: -len(item[1])):
        span = range(min(texts), max(texts) + 1)
        if len(texts) < 2 or 2 * len(texts) <= len(span):
            continue  # by chance: a sequence has a number on more than every second page
        for index in span:
            between = str(index + offset) if kind == "1" else ""
            labels[index - 1] = labels[index - 1] or texts.get(index, between)
    return labels


def _value(roman: str) -> int:
    digits = [_DIGITS[char] for char in roman]
    return sum(-digit if digit < max(digits[place:]) else digit for place, digit in enumerate(digits))


def _repeated(entries: Sequence[_Entry], pages: int) -> Iterator[_Entry]:
    """Yield the entries of one text that are at the same place on more than half of all pages."""
    counts = Counter(entry.series for entry in entries)
    places: list[list[_Entry]] = []
    for entry in entries:
        if entry.series is None or counts[entry.series] > 1:
            place = next((place for place in places if _near(place[0], entry)), None)
            if place is not None:
                place.append(entry)
            elif len(places) < _MOST_PLACES:
                places.append([entry])
    for place in places:
        if 2 * len({entry.page for entry in place}) > pages:
            yield from place


def _near(one: _Entry, other: _Entry) -> bool:
    edges = zip(one.edges, other.edges, strict=True)
    return abs(one.y - other.y) <= _NEAR and any(abs(edge - same) <= _NEAR for edge, same in edges)


def _outermost(rows: Sequence[Sequence[Segment]], running: set[Segment]) -> Iterator[Segment]:
    """Yield the running segments of a page that have no other text further out."""
    for row in rows:
        if not all(segment in running for segment in row):
            return
        yield from row
