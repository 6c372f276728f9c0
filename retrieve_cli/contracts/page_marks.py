"""Marks on the picture of a page: boxes of blocks, of cells, and of a passage."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Literal, NamedTuple

from retrieve_cli.contracts.layout import Block, Kind
from retrieve_cli.contracts.page_words import Box, Words

Style = Kind | Literal["cell", "passage"]


class Mark(NamedTuple):
    """A box to draw on the picture of its page."""

    box: Box
    style: Style
    label: str = ""
    """Text at its upper left corner; empty: none."""
    order: int = 0
    """Place in the reading order of the page, from 1: an arrow leads to the mark with the next number. 0: none."""


def surrounding(boxes: Sequence[Box], page: int) -> Box | None:
    """Return the smallest box around all boxes of a page; None if none is on it."""
    here = [box for box in boxes if box.page == page]
    if not here:
        return None
    return Box(
        page,
        min(box.x0 for box in here),
        min(box.y0 for box in here),
        max(box.x1 for box in here),
        max(box.y1 for box in here),
    )


def cell_boxes(text: str, block: Block, *, words: Words, page: int) -> list[list[Box | None]]:
    """Return the boxes of a pipe table's cells on a page, row by row; None for a cell without words there."""
    return [
        [surrounding(words.boxes(start, end), page) if end > start else None for start, end in row]
        for row in _rows(text, block)
    ]


def _rows(text: str, block: Block) -> Iterator[list[tuple[int, int]]]:
    """Yield the spans of the cells of each row, without the row of dashes below the header."""
    start = block.start
    for line in text[block.start : block.end].split("\n"):
        if line.strip("|-: "):
            yield _cells(line, start)
        start += len(line) + 1


def _cells(line: str, start: int) -> list[tuple[int, int]]:
    """Return the spans between the bars of a line that are not escaped by a backslash."""
    bars = [place for place, char in enumerate(line) if char == "|" and line[place - 1 : place] != "\\"]
    return [(start + left + 1, start + right) for left, right in pairwise(bars)]
