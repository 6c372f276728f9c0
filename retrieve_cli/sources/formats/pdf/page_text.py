"""Text of one page, read without knowledge of the other pages, with its columns in order.

Columns are found by a recursive cut (XY-cut) along the gaps between segments. A page is first cut along gutters: white
strips, as high as several lines, with lines on both sides. What crosses a gutter, such as a heading over both columns,
ends the strip, so the parts above, beside and below are read in turn. Plain XY-cut would begin with the white line that
separates a paragraph from the next one in both columns by chance.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, groupby
from operator import attrgetter
from statistics import fmean, median
from typing import TYPE_CHECKING, NamedTuple

from retrieve_cli.sources.formats.pdf.lines import Line, Segment, lines_of
from retrieve_cli.sources.formats.pdf.raw import SKEWED

if TYPE_CHECKING:
    from retrieve_cli.sources.formats.pdf.page_words import PageWords
    from retrieve_cli.sources.formats.pdf.tables import PdfTable

_DEEPEST = 12
_BIN = 2.0
"""Width in points of a bin of the profile in which gutters are looked for."""
_MOST_BINS = 2000
_MOST_GUTTERS = 4
_FEWEST_LINES = 3
_FEWEST_CHARACTERS = 12.0
"""Characters of a segment on average; the cells of a table have fewer, and are read row by row."""
_NARROWEST = 0.5
"""Width of a gutter in font sizes."""
_SPARSEST = 0.45
"""Ratio of the densities of two columns; terms beside their explanations are sparser, and are read row by row."""
_AT_EDGE = 0.35
"""Share of the lines of a column that begin at its edge, at least."""
_FAR = 1.5
"""Gap in line heights after which lines on one side only do not belong to the columns any more."""


class _Band(NamedTuple):
    """Segments whose middles overlap vertically."""

    y0: float
    y1: float
    segments: list[Segment]


def _divide(segments: Sequence[Segment], depth: int = 0) -> Iterator[Sequence[Segment]]:
    """Yield the segments of each column, in reading order of the columns."""
    if len(segments) >= 2 * _FEWEST_LINES and depth < _DEEPEST:
        bands: list[_Band] = []
        for gutter in _gutters(segments):
            bands = bands or _bands(segments)
            strip = _strip(bands, gutter)
            if strip is not None:
                first, last = strip
                yield from _divide(_joined(bands[:first]), depth + 1)
                for side in _sides(_joined(bands[first:last]), gutter):
                    yield from _divide(side, depth + 1)
                yield from _divide(_joined(bands[last:]), depth + 1)
                return
    if segments:
        yield segments


def _gutters(segments: Sequence[Segment]) -> list[float]:
    """Return places x that fewer segments cross than on both sides, the clearest first."""
    left = min(segment.x0 for segment in segments)
    right = max(segment.x1 for segment in segments)
    step = max(_BIN, (right - left) / _MOST_BINS)
    changes = [0] * (int((right - left) / step) + 3)
    for segment in segments:
        changes[int((segment.x0 - left) / step)] += 1
        changes[int((segment.x1 - left) / step) + 1] -= 1
    cover = list(accumulate(changes))
    highest_before = accumulate(cover, max)
    highest_behind = list(accumulate(reversed(cover), max))[::-1]
    depths = [
        min(before, behind) - here for before, behind, here in zip(highest_before, highest_behind, cover, strict=True)
    ]
    places: list[tuple[int, int, float]] = []
    number = 0
    for deep, run in groupby(depths):
        start, number = number, number + len(list(run))
        lower = (start == 0 or depths[start - 1] < deep) and (number == len(depths) or depths[number] < deep)
        if deep >= _FEWEST_LINES and lower:
            places.append((-deep, start - number, left + step * (start + number) / 2))
    return [place for _, _, place in sorted(places)[:_MOST_GUTTERS]]


def _bands(segments: Sequence[Segment]) -> list[_Band]:
    """Return the segments in bands from top to bottom."""
    bands: list[list[Segment]] = []
    bottom = float("-inf")
    for segment in sorted(segments, key=attrgetter("y0", "x0")):
        quarter = segment.height / 4 if segment.table < 0 else 1.0
        if segment.y0 + quarter > bottom:
            bands.append([segment])
            bottom = segment.y1 - quarter
        else:
            bands[-1].append(segment)
            bottom = max(bottom, segment.y1 - quarter)
    return [_Band(band[0].y0, max([segment.y1 for segment in band]), band) for band in bands]


def _strip(bands: Sequence[_Band], gutter: float) -> tuple[int, int] | None:
    """Return the longest run of bands, as a slice, that a gutter divides into two columns; None without such bands."""
    runs: list[tuple[int, int]] = []
    start = 0
    for number, band in enumerate(bands):
        crossed = any(segment.x0 < gutter < segment.x1 for segment in band.segments)
        if crossed or _heads(bands, number, gutter):
            runs.append((start, number))
            start = number + crossed
    runs.append((start, len(bands)))
    trimmed = [_trimmed(bands, first, last, gutter) for first, last in runs if last - first >= _FEWEST_LINES]
    strips = [(first, last) for first, last in trimmed if _are_columns(bands[first:last], gutter)]
    return max(strips, key=lambda strip: (strip[1] - strip[0], -strip[0]), default=None)


def _heads(bands: Sequence[_Band], number: int, gutter: float) -> bool:
    """Return True if a band is a heading on the left with columns of smaller text above and below it: of both."""
    band = bands[number]
    if not 0 < number < len(bands) - 1 or any(segment.x1 > gutter for segment in band.segments):
        return False
    size = max(segment.size for segment in band.segments)
    around = [*bands[number - 1].segments, *bands[number + 1].segments]
    smaller = all(segment.size < size / 1.1 for segment in around)
    return smaller and all(
        any(segment.x0 > gutter for segment in other.segments) for other in (bands[number - 1], bands[number + 1])
    )


def _trimmed(bands: Sequence[_Band], first: int, last: int, gutter: float) -> tuple[int, int]:
    """Return a run without bands at its ends that are on one side only and far from the others."""

    def apart(number: int, inner: int) -> bool:
        one_sided = len({segment.x0 > gutter for segment in bands[number].segments}) == 1
        upper, lower = sorted((bands[number], bands[inner]))
        height = min(upper.y1 - upper.y0, lower.y1 - lower.y0)
        return one_sided and lower.y0 - upper.y1 > _FAR * height

    while last - first > 1 and apart(last - 1, last - 2):
        last -= 1
    while last - first > 1 and apart(first, first + 1):
        first += 1
    return first, last


def _are_columns(bands: Sequence[_Band], gutter: float) -> bool:
    """Return True if the segments on both sides of a gutter are lines of text, not the cells of rows."""
    sides = ([], []) if len(bands) < _FEWEST_LINES else _sides(_joined(bands), gutter)
    if not all(sides) or any(segment.x0 < gutter < segment.x1 for side in sides for segment in side):
        return False
    if all(segment.fixed for side in sides for segment in side):
        return False  # code with something behind each line
    size = median(segment.size for side in sides for segment in side)
    left, right = sorted(sides, key=lambda side: min(segment.x0 for segment in side))
    width = min(segment.x0 for segment in right) - max(segment.x1 for segment in left)
    lines = [len({round(2 * segment.y0 / max(size, 1.0)) for segment in side}) for side in sides]
    if width < _NARROWEST * size * (2 if min(lines) < 2 * _FEWEST_LINES else 1) or min(lines) < _FEWEST_LINES:
        return False
    if min(fmean(segment.chars for segment in side) for side in sides) < _FEWEST_CHARACTERS:
        return False
    if not all(_begins_at_edge(side) for side in sides):
        return False
    densities = [
        count * size / max(max(segment.y1 for segment in side) - min(segment.y0 for segment in side), size)
        for side, count in zip(sides, lines, strict=True)
    ]
    return min(densities) >= _SPARSEST * max(densities)


def _begins_at_edge(side: Sequence[Segment]) -> bool:
    """Return True if many lines begin at one place, as lines of text do; values set flush right do not."""
    rtl = sum(segment.chars if segment.rtl else -segment.chars for segment in side) > 0
    edges: dict[int, float] = {}
    for segment in side:
        row, edge = round(segment.y0), -segment.x1 if rtl else segment.x0
        edges[row] = min(edge, edges.get(row, edge))
    near = sorted(edges.values())
    width = 0.5 * max(segment.size for segment in side)
    most = start = 0
    for number, edge in enumerate(near):
        while edge - near[start] > width:
            start += 1
        most = max(most, number - start + 1)
    return most >= _AT_EDGE * len(near)


def _sides(segments: Sequence[Segment], gutter: float) -> tuple[list[Segment], list[Segment]]:
    """Return the column that is read first and the other one."""
    left = [segment for segment in segments if segment.x0 + segment.x1 < 2 * gutter]
    right = [segment for segment in segments if segment.x0 + segment.x1 >= 2 * gutter]
    leftward = sum(segment.chars if segment.rtl else -segment.chars for segment in segments) > 0
    return (right, left) if leftward else (left, right)


def _joined(bands: Sequence[_Band]) -> list[Segment]:
    return [segment for band in bands for segment in band.segments]


@dataclass(slots=True)
class PageText:
    index: int
    """Number of the page, from 1."""
    words: PageWords
    segments: Mapping[int, Sequence[Segment]]
    """Segments by the turn of their text."""
    tables: Sequence[PdfTable] = ()
    numbers: list[str] = field(default_factory=list)
    """Texts of the running heads and feet that were removed."""
    turn: int = 0
    """Turn of most of the text."""

    def __post_init__(self) -> None:
        sizes = {turn: sum([segment.chars for segment in segments]) for turn, segments in self.segments.items()}
        self.turn = min(sizes, key=lambda turn: (-sizes[turn], turn), default=0)

    def text(self, segment: Segment) -> str:
        """Return the words of a segment."""
        return " ".join(self.words.texts[segment.first : segment.last])

    def lines(self) -> list[Line]:
        """Return the lines in reading order: first the text in the main direction, then stamps in others."""
        main = self.turn
        lines: list[Line] = []
        column = 0
        for turn in sorted(self.segments, key=lambda turn: (turn != main, turn == SKEWED, turn)):
            for segments in _divide(self.segments[turn]):
                lines += lines_of(segments, column=column, turn=turn)
                column += 1
        return lines
