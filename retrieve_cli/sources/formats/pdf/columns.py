"""Columns of a page in the order in which they are read.

A page is cut recursively along gutters: white strips with lines of text on both sides. What crosses a gutter, such as
a heading over both columns, ends the strip; so the parts above, beside and below are read in turn. A gutter that is
free over the height of a block of lines wins before any cut across, however the lines are spaced.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, groupby
from statistics import fmean, median

from retrieve_cli.sources.formats.pdf.lines import LinePart

_DEEPEST, _MOST_BINS, _MOST_GUTTERS = 12, 2000, 4
_BIN = 2.0  # width in points of a bin of the profile in which gutters are looked for
_FEWEST_LINES, _MANY_LINES = 3, 6
_NARROWEST = 0.5  # width of a gutter in font sizes; twice that beside few lines
_ALIGNED, _LEVEL = 0.7, 0.15
"""Share of the lines with another one at their height in the other column, with this difference in font sizes, from
which they may be rows of cells.
"""
_FEWEST_CHARACTERS = 12.0
"""Characters of a segment on average; the cells of a table have fewer, and are read row by row."""


def columns_of(segments: Sequence[LinePart], depth: int = 0) -> Iterator[Sequence[LinePart]]:
    """Yield the segments of each column, in reading order of the columns."""
    for gutter in _gutters(segments) if depth < _DEEPEST and len(segments) > _MANY_LINES else ():
        if (block := _block(segments, gutter)) is not None:
            above = [segment for segment in segments if _middle(segment) < block[0]]
            inside = [segment for segment in segments if block[0] <= _middle(segment) <= block[1]]
            below = [segment for segment in segments if _middle(segment) > block[1]]
            for part in (above, *_sides(inside, gutter), below):
                yield from columns_of(part, depth + 1)
            return
    if segments:
        yield segments


def _middle(segment: LinePart) -> float:
    return (segment.y0 + segment.y1) / 2


def _gutters(segments: Sequence[LinePart]) -> list[float]:
    """Return places x that fewer segments cross than on both sides, the clearest first."""
    left = min(segment.x0 for segment in segments)
    step = max(_BIN, (max(segment.x1 for segment in segments) - left) / _MOST_BINS)
    changes = [0] * (int((max(segment.x1 for segment in segments) - left) / step) + 3)
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


def _block(segments: Sequence[LinePart], gutter: float) -> tuple[float, float] | None:
    """Return the top and bottom of the largest block of two columns that a gutter divides; None without one."""
    crossed = {_middle(segment) for segment in segments if segment.x0 < gutter < segment.x1}
    runs: list[list[LinePart]] = [[]]
    for segment in sorted(segments, key=_middle):
        if _middle(segment) in crossed:
            runs.append([])
        else:
            runs[-1].append(segment)
    for run in sorted(runs, key=len, reverse=True):
        if len(run) <= _MANY_LINES:
            break
        if _are_columns(run, gutter):
            return _middle(run[0]), _middle(run[-1])
    return None


def _are_columns(run: Sequence[LinePart], gutter: float) -> bool:
    """Return True if the segments on both sides of a gutter are lines of text, not the cells of rows."""
    left, right = sorted(_sides(run, gutter), key=lambda side: [segment.x0 for segment in side[:1]])
    if not left or not right:
        return False
    size = median(segment.size for segment in run)
    width = min(segment.x0 for segment in right) - max(segment.x1 for segment in left)
    lines = [{round(segment.y1 / (_LEVEL * size)) for segment in side} for side in (left, right)]
    shorter, longer = sorted(lines, key=len)
    if width < _NARROWEST * size * (2 if len(shorter) < 2 * _FEWEST_LINES else 1):
        return False
    if sum(not longer.isdisjoint((place - 1, place, place + 1)) for place in shorter) < _ALIGNED * len(shorter):
        return True
    fewest = min(fmean(segment.chars for segment in side) for side in (left, right))
    code = all(segment.fixed for segment in run)  # with something behind each line
    return not code and fewest >= _FEWEST_CHARACTERS * (2 if len(shorter) < _FEWEST_LINES else 1)


def _sides(segments: Sequence[LinePart], gutter: float) -> tuple[list[LinePart], list[LinePart]]:
    """Return the segments to the left and to the right of a gutter, in reading order."""
    left = [segment for segment in segments if segment.x0 < gutter]
    right = [segment for segment in segments if segment.x0 >= gutter]
    leftward = sum(segment.chars if segment.rtl else -segment.chars for segment in segments) > 0
    return (right, left) if leftward else (left, right)
