"""Columns of a page in the order in which they are read.

A page is cut recursively along gutters: white strips with lines of text on both sides. What crosses a gutter, such as
a heading over both columns or a drawn line, ends the strip; so the parts above, beside and below are read in turn. A
gutter that is free over the height of a block of lines wins before any cut across, however the lines are spaced.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, groupby
from statistics import fmean, median
from typing import NamedTuple

from retrieve_cli.sources.formats.pdf.lines import Segment

_DEEPEST = 12
_BIN = 2.0
"""Width in points of a bin of the profile in which gutters are looked for."""
_MOST_BINS = 2000
_MOST_GUTTERS = 4
_FEWEST_LINES = 3
_MANY_LINES, _AS_WIDE = 6, 0.8
"""Lines of a column beside which a shorter one of this share of its width may have fewer lines than three."""
_NARROWEST = 0.5
"""Width of a gutter in font sizes; twice that beside few lines."""
_ALIGNED = 0.7
"""Share of the lines with another one at their height in the other column from which they may be rows of cells."""
_LEVEL = 0.15
"""Difference of height, in font sizes, of lines that are aligned."""
_FEWEST_CHARACTERS = 12.0
"""Characters of a segment on average; the cells of a table have fewer, and are read row by row."""
_SPARSEST = 0.45
"""Ratio of the densities of two columns; terms beside their explanations are sparser, and are read row by row."""
_AT_EDGE = 0.35
"""Share of the lines of a column that begin at its edge, at least."""
_FAR = 1.5
"""Gap in line heights after which lines on one side only do not belong to the columns any more."""


class LevelLine(NamedTuple):
    """A drawn line that ends the columns that it crosses."""

    y: float
    x0: float
    x1: float


def columns_of(
    segments: Sequence[Segment], drawn: Sequence[LevelLine] = (), depth: int = 0
) -> Iterator[Sequence[Segment]]:
    """Yield the segments of each column, in reading order of the columns."""
    if len(segments) >= 2 * _FEWEST_LINES and depth < _DEEPEST:
        for gutter in _gutters(segments):
            block = _block(segments, drawn, gutter)
            if block is not None:
                above = [segment for segment in segments if _middle(segment) < block[0]]
                inside = [segment for segment in segments if block[0] <= _middle(segment) <= block[1]]
                below = [segment for segment in segments if _middle(segment) > block[1]]
                for part in (above, *_sides(inside, gutter), below):
                    yield from columns_of(part, drawn, depth + 1)
                return
    if segments:
        yield segments


def _middle(segment: Segment) -> float:
    return (segment.y0 + segment.y1) / 2


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
    highest_behind = list(accumulate(reversed(cover), max))[::-1]
    levels = zip(accumulate(cover, max), highest_behind, cover, strict=True)
    depths = [min(before, behind) - here for before, behind, here in levels]
    gutters: list[tuple[int, int, float]] = []
    number = 0
    for depth, run in groupby(depths):
        start, number = number, number + len(list(run))
        deepest = (start == 0 or depths[start - 1] < depth) and (number == len(depths) or depths[number] < depth)
        if depth > 0 and deepest:
            gutters.append((-depth, start - number, left + step * (start + number) / 2))
    return [place for _, _, place in sorted(gutters)[:_MOST_GUTTERS]]


def _block(segments: Sequence[Segment], drawn: Sequence[LevelLine], gutter: float) -> tuple[float, float] | None:
    """Return the top and bottom of the largest block of two columns that a gutter divides; None without one."""
    ordered = sorted(segments, key=_middle)
    cuts = [_middle(segment) for segment in ordered if segment.x0 < gutter < segment.x1]
    cuts += [line.y for line in drawn if line.x0 < gutter < line.x1]
    cuts += _headings(ordered, gutter)
    runs: list[list[Segment]] = [[]]
    ends = iter([*sorted(cuts), float("inf")])
    end = next(ends)
    for segment in ordered:
        while _middle(segment) > end:
            end = next(ends)
            runs.append([])
        if _middle(segment) != end:
            runs[-1].append(segment)
    for run in sorted(runs, key=len, reverse=True):
        if len(run) < 2 * _FEWEST_LINES:
            break
        block = _trimmed(run, gutter)
        if _are_columns(block, gutter):
            return _middle(block[0]), _middle(block[-1])
    return None


def _headings(ordered: Sequence[Segment], gutter: float) -> Iterator[float]:
    """Yield the places of headings on the left with nothing beside them and columns of smaller text around: of both."""
    usual = median(segment.size for segment in ordered)
    large = [segment for segment in ordered if segment.size > 1.1 * usual and segment.x1 <= gutter]
    if not large:
        return
    right = [segment for segment in ordered if segment.x0 >= gutter]
    for heading in large:
        margin = 0.3 * heading.height
        beside = any(segment.y0 < heading.y1 + margin and segment.y1 > heading.y0 - margin for segment in right)
        if not beside and right[0].y1 < heading.y0 < right[-1].y0:
            yield _middle(heading)


def _trimmed(run: list[Segment], gutter: float) -> list[Segment]:
    """Return segments, from the top, without those at the ends that are on one side only and far from the others."""
    sides = _sides(run, gutter)
    if not all(sides):
        return run
    top = max(min(segment.y0 for segment in side) for side in sides)
    bottom = min(max(segment.y1 for segment in side) for side in sides)
    last = len(run)
    while last > 1 and run[last - 1].y0 >= bottom:
        last -= 1
    end = run[last - 1].y1
    while last < len(run) and run[last].y0 - end <= _FAR * run[last].height:
        end = run[last].y1
        last += 1
    first = 0
    while first < last - 1 and run[first].y1 <= top:
        first += 1
    start = run[first].y0
    while first and start - run[first - 1].y1 <= _FAR * run[first - 1].height:
        first -= 1
        start = run[first].y0
    return run[first:last]


def _are_columns(run: Sequence[Segment], gutter: float) -> bool:
    """Return True if the segments on both sides of a gutter are lines of text, not the cells of rows."""
    sides = _sides(run, gutter)
    if not all(sides):
        return False
    size = median(segment.size for segment in run)
    left, right = sorted(sides, key=lambda side: min(segment.x0 for segment in side))
    width = min(segment.x0 for segment in right) - max(segment.x1 for segment in left)
    lines = [sorted({round(segment.y1 / (_LEVEL * size)) for segment in side}) for side in sides]
    fewest = min(map(len, lines))
    if width < _NARROWEST * size * (2 if fewest < 2 * _FEWEST_LINES else 1):
        return False
    if fewest < _FEWEST_LINES:
        widths = [max(segment.x1 for segment in side) - min(segment.x0 for segment in side) for side in sides]
        if max(map(len, lines)) < _MANY_LINES or min(widths) < _AS_WIDE * max(widths):
            return False
    if not all(_begins_at_edge(side) for side in sides):
        return False
    shorter, longer = sorted(lines, key=len)
    others = {place + shift for place in longer for shift in (-1, 0, 1)}
    if sum(place in others for place in shorter) < _ALIGNED * fewest:
        return True
    if all(segment.fixed for segment in run):
        return False  # code with something behind each line
    if min(fmean(segment.chars for segment in side) for side in sides) < _FEWEST_CHARACTERS:
        return False
    heights = [max(segment.y1 for segment in side) - min(segment.y0 for segment in side) for side in sides]
    densities = [len(places) * size / max(height, size) for places, height in zip(lines, heights, strict=True)]
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
    last = most = 0
    for first, edge in enumerate(near):
        while last < len(near) and near[last] <= edge + width:
            last += 1
        most = max(most, last - first)
    return most >= _AT_EDGE * len(near)


def _sides(segments: Sequence[Segment], gutter: float) -> tuple[list[Segment], list[Segment]]:
    """Return the segments to the left and to the right of a gutter, in reading order."""
    left = [segment for segment in segments if segment.x0 < gutter]
    right = [segment for segment in segments if segment.x0 >= gutter]
    leftward = sum(segment.chars if segment.rtl else -segment.chars for segment in segments) > 0
    return (right, left) if leftward else (left, right)
