"""Running heads and feet, and the labels that printed numbers give to pages.

A text at the edge of a page is running if the same text, or the same but for one page number that counts the pages, is
at the same place on more than half of all pages. A line is dropped if it is made of such texts alone, and no other text
is further out. The same place may be counted from the outer edge of odd and even pages.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

from retrieve_cli.sources.formats.pdf.lines import LinePart
from retrieve_cli.sources.formats.pdf.page import PageText

_FEWEST_PAGES = 3
_ROWS = 4  # rows at the top and at the bottom of a page that may be running
_LONGEST, _MOST_PLACES = 200, 50  # characters of a text, and distinct places of one text
_NEAR = 4.0  # points by which the same place may differ
_LARGE = 1.2
"""Ratio to the usual size of type above which a line is a title and no running head, even if each page has the same."""
_NUMBER = re.compile(r"(?<![\w.,])\d{1,5}(?![\w.,])")

Rows = Mapping[tuple[int, bool], Sequence[Sequence[LinePart]]]
"""The outer rows of each page by its number, from its top or (True) from its bottom."""


class _Entry(NamedTuple):
    """A text at a place of a page; one of its edges is kept: left, middle, right, outer, inner."""

    page: int
    segment: LinePart
    y: float
    edges: tuple[float, ...]
    series: int | None = None
    """Difference of its page number to the number of the page in the file."""


def remove_running(pages: Sequence[PageText]) -> tuple[list[tuple[int, str]], list[str]]:
    """Remove the running heads and feet from the segments of all pages.

    Returns:
        The removed texts with the numbers of their pages, and the label of each page by its printed number.
    """
    rows = {(page.index, low): list(_outer_rows(page, low=low)) for page in pages for low in (False, True)}
    sizes = np.concatenate([page.words.sizes for page in pages]) if pages else np.zeros(0)
    large = _LARGE * (float(np.median(sizes)) if len(sizes) else 0.0)
    texts: dict[tuple[object, ...], list[_Entry]] = defaultdict(list)
    for page in pages if len(pages) >= _FEWEST_PAGES else ():
        for low in (False, True):
            for segment in chain.from_iterable(rows[page.index, low]):
                if segment.table < 0 and segment.size <= large:
                    for key, entry in _entries(page, segment, low=low):
                        texts[low, *key].append(entry)
    running: dict[int, set[LinePart]] = defaultdict(set)
    for entry in chain.from_iterable(_repeated(entries, len(pages)) for entries in texts.values()):
        running[entry.page].add(entry.segment)
    removed: list[tuple[int, str]] = []
    for page in pages if running else ():
        outer = {segment for low in (False, True) for segment in _outermost(rows[page.index, low], running[page.index])}
        kept = [segment for segment in page.segments.get(page.turn, ()) if segment not in outer]
        if kept:  # never all the text of a page
            removed += [(page.index, page.text(one)) for one in sorted(outer, key=lambda one: (one.y0, one.x0))]
            page.segments[page.turn] = kept
    return removed, _labels(rows, pages)


def _outer_rows(page: PageText, *, low: bool) -> Iterator[list[LinePart]]:
    """Yield the first rows of a page; with `low`, the last ones, from the bottom upward."""
    sign = -1 if low else 1
    rows: list[list[LinePart]] = []
    for segment in sorted(page.segments.get(page.turn, ()), key=lambda one: (sign * (one.y0 + one.y1), one.x0)):
        first = rows[-1][0] if rows else segment
        overlap = min(segment.y1, first.y1) - max(segment.y0, first.y0)
        if rows and overlap > 0.5 * min(segment.height, first.height):
            rows[-1].append(segment)
        elif len(rows) == _ROWS:
            break
        else:
            rows.append([segment])
    yield from rows


def _entries(page: PageText, segment: LinePart, *, low: bool) -> Iterator[tuple[tuple[str, ...], _Entry]]:
    """Yield the text, and the text without each of its numbers; each with the parts that are the same on all pages."""
    text = page.text(segment)[:_LONGEST]
    wide, tall = page.words.width, page.words.height
    right, down = {90: (0.0, wide), 180: (wide, tall), 270: (tall, 0.0)}.get(page.turn, (0.0, 0.0))
    width, height = (wide, tall) if page.turn % 180 == 0 else (tall, wide)
    x0, x1 = segment.x0 + right, segment.x1 + right
    outer, inner = (x0, width - x1) if page.index % 2 else (width - x1, x0)
    y = height - segment.y1 - down if low else segment.y0 + down
    entry = _Entry(page.index, segment, y, (x0, (x0 + x1) / 2, x1, outer, inner))
    yield (text,), entry
    for match in _NUMBER.finditer(text):
        series = _series(match[0], page.index)
        yield (text[: match.start()], text[match.end() :]), entry._replace(series=series)


def _series(number: str, page: int) -> int | None:
    """Return the difference of a number to the number of the page in the file; None for other texts."""
    return int(number) - page if _NUMBER.fullmatch(number) else None


def _repeated(entries: Sequence[_Entry], pages: int) -> Iterator[_Entry]:
    """Yield the entries of one text that are at the same place on more than half of all pages."""
    counts = Counter(entry.series for entry in entries)
    places: list[list[_Entry]] = []
    for entry in entries if 2 * len(entries) > pages else ():
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


def _outermost(rows: Sequence[Sequence[LinePart]], running: set[LinePart]) -> Iterator[LinePart]:
    """Yield the segments of running lines of a page that have no other text further out."""
    for row in rows:
        if not running.issuperset(row):
            return
        yield from row


def _labels(rows: Rows, pages: Sequence[PageText]) -> list[str]:
    """Return the label of each page by a number at an end of its first or last row, if such numbers count the pages."""
    numbers: dict[int, dict[int, str]] = defaultdict(dict)
    for page in pages:
        for row in chain(rows[page.index, False][:1], rows[page.index, True][:1]):
            ends = page.words.texts[row[0].first], page.words.texts[row[-1].last - 1]
            for text in ends if all(segment.table < 0 for segment in row) else ():
                if (series := _series(text, page.index)) is not None:
                    numbers[series][page.index] = text
    labels = [""] * len(pages)
    for offset, texts in sorted(numbers.items(), key=lambda item: -len(item[1])):
        span = range(min(texts), max(texts) + 1)
        if len(texts) > 1 and 2 * len(texts) > len(span):  # on more than every second page, so not by chance
            for index in span:
                labels[index - 1] = labels[index - 1] or texts.get(index, str(index + offset))
    return labels
