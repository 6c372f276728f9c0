"""Running heads and feet: the same text, but for its numbers, at the same place on more than half of the pages.

Odd and even pages may differ. Only the outermost text of its page is removed: a repeated line of the body, such as
the header of a long table, has the body's text around it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from operator import attrgetter

import numpy as np

from retrieve_cli.sources.formats.pdf.lines import Segment
from retrieve_cli.sources.formats.pdf.page_text import PageText

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
_NUMBER = re.compile(r"\d+")
_ROMAN = re.compile(r"[ivxlc]{1,9}|[IVXLC]{1,9}")


@dataclass(slots=True)
class _Place:
    """A place at which a text occurs, and the pages on which it does."""

    y: float
    edges: tuple[float, float, float]
    """Left, middle, right: a number that grows keeps one of them."""
    pages: set[int] = field(default_factory=set)

    def has(self, y: float, edges: tuple[float, float, float]) -> bool:
        near = any(abs(edge - other) <= _NEAR for edge, other in zip(edges, self.edges, strict=True))
        return near and abs(y - self.y) <= _NEAR


def remove_running(pages: Sequence[PageText]) -> None:
    """Remove running heads and feet from the segments of all pages; their texts stay in `PageText.numbers`."""
    if len(pages) < _FEWEST_PAGES:
        return
    sizes = np.concatenate([page.words.sizes for page in pages])
    large = _LARGE * (float(np.median(sizes)) if len(sizes) else 0.0)
    rows = {page.index: {low: list(_outer_rows(page, low=low)) for low in (False, True)} for page in pages}
    running: dict[bool, Mapping[str, list[_Place]]] = {}
    for low in (False, True):
        places: dict[str, list[_Place]] = defaultdict(list)
        for page in pages:
            for segment in chain.from_iterable(rows[page.index][low]):
                if segment.table < 0 and segment.size <= large:
                    _note(places[_key(page.text(segment))], page, segment, low=low)
        running[low] = _repeated(places, [page.index for page in pages])
    for page in pages:
        removed: set[Segment] = set()
        for low in (False, True):
            removed |= set(_running_of(page, rows[page.index][low], running[low], low=low))
        if removed:
            turn = page.turn
            page.numbers = [page.text(segment) for segment in sorted(removed, key=attrgetter("y0", "x0"))]
            kept = [segment for segment in page.segments[turn] if segment not in removed]
            page.segments = (
                {**page.segments, turn: kept}
                if kept
                else {other: segments for other, segments in page.segments.items() if other != turn}
            )


def _outer_rows(page: PageText, *, low: bool) -> Iterator[list[Segment]]:
    """Yield the first rows of a page; with `low`, the last ones, from the bottom upward."""
    sign = -1 if low else 1
    inward = sorted(
        page.segments.get(page.turn, ()), key=lambda segment: (sign * (segment.y0 + segment.y1), segment.x0)
    )
    row: list[Segment] = []
    count = 0
    for segment in inward:
        if row and min(segment.y1, row[0].y1) - max(segment.y0, row[0].y0) <= 0.5 * min(segment.height, row[0].height):
            yield row
            count += 1
            if count == _ROWS:
                return
            row = []
        row.append(segment)
    if row:
        yield row


def _key(text: str) -> str:
    """Return a text with its numbers taken as equal; a roman number alone is one as well."""
    return "#" if _ROMAN.fullmatch(text) else _NUMBER.sub("#", text[:_LONGEST])


def _where(page: PageText, segment: Segment, *, low: bool) -> tuple[float, tuple[float, float, float]]:
    """Return the distance from the edge of the page as its reader sees it; and left edge, middle and right edge."""
    wide, tall = page.words.width, page.words.height
    right, down, height = {90: (0.0, wide, wide), 180: (wide, tall, tall), 270: (tall, 0.0, wide)}.get(
        page.turn, (0.0, 0.0, tall)
    )
    y = height - segment.y1 - down if low else segment.y0 + down
    return y, (segment.x0 + right, (segment.x0 + segment.x1) / 2 + right, segment.x1 + right)


def _note(places: list[_Place], page: PageText, segment: Segment, *, low: bool) -> None:
    y, edges = _where(page, segment, low=low)
    place = next((place for place in places if place.has(y, edges)), None)
    if place is None:
        if len(places) >= _MOST_PLACES:
            return
        place = _Place(y, edges)
        places.append(place)
    place.pages.add(page.index)


def _repeated(places: Mapping[str, list[_Place]], pages: Sequence[int]) -> Mapping[str, list[_Place]]:
    """Return the places of texts on more than half of all pages, or of the odd or even ones if both have such."""
    odd = [page for page in pages if page % 2]
    even = [page for page in pages if not page % 2]
    sided: dict[int, list[tuple[str, _Place]]] = {0: [], 1: []}
    running: dict[str, list[_Place]] = defaultdict(list)
    for key, known in places.items():
        for place in known:
            if 2 * len(place.pages) > len(pages):
                running[key].append(place)
                continue
            for side, members in ((1, odd), (0, even)):
                one_sided = all(page % 2 == side for page in place.pages)
                if one_sided and len(place.pages) >= 2 and 2 * len(place.pages) > len(members):
                    sided[side].append((key, place))
    for side, other in ((1, 0), (0, 1)):
        for key, place in sided[side]:
            if len(place.pages) >= _FEWEST_PAGES or any(abs(place.y - one.y) <= _NEAR for _, one in sided[other]):
                running[key].append(place)
    return running


def _running_of(
    page: PageText, rows: Sequence[Sequence[Segment]], running: Mapping[str, list[_Place]], *, low: bool
) -> Iterator[Segment]:
    """Yield the running segments of a page that have no other text further out."""
    for row in rows:
        complete = True
        for segment in row:
            y, edges = _where(page, segment, low=low)
            known = running.get(_key(page.text(segment)), ()) if segment.table < 0 else ()
            if any(place.has(y, edges) for place in known):
                yield segment
            else:
                complete = False
        if not complete:
            return
