"""Context of a hit: chunks before and after it, read as one text under the hit's own score and place."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from retrieve_cli.contracts import Json
from retrieve_cli.frozen import Frozen, replace
from retrieve_cli.search import places
from retrieve_cli.search.answer import Result, Span
from retrieve_cli.search.places import content_type
from retrieve_cli.storage.generation import JsonRows

if TYPE_CHECKING:
    from retrieve_cli.contracts import Rows

_LONGEST_GAP = 1000
"""Line breaks, and blanks, that are put between two chunks at most: a file may have them by the megabyte."""


def in_context(
    results: Sequence[Result], chunks: JsonRows, starts: Rows, *, window: int, table_window: int
) -> tuple[Result, ...]:
    """Return the results, each with its neighbours: `window` chunks of its record before and after it.

    `table_window` replaces `window` if the hit is in a table. Hits whose windows touch or overlap become one result,
    the best of them; a window of 0 is the hit alone, which touches nothing. `chunks` and `starts` belong to the
    generation; each result costs one read of `chunks`, or no read if it is the hit alone.

    Raises:
        IndexCorrupt: a neighbour cannot be read.
    """
    stretches = []
    for rank, result in enumerate(results):
        record, row = result.hit.record, result.hit.row
        around = window_of(result, window=window, table_window=table_window)
        begin, stop = int(starts[record]), int(starts[record + 1])
        first, end = max(begin, row - around), min(stop, row + around + 1)
        if (known := result.context) is not None:
            first, end = min(first, begin + known.first), max(end, begin + known.last + 1)
        stretches.append(_Stretch(record, first, end, (rank,)))
    merged = sorted(_merged(stretches), key=lambda stretch: stretch.ranks[0])
    return tuple(_widened(stretch, results, chunks) for stretch in merged)


def window_of(result: Result, *, window: int, table_window: int) -> int:
    """Return how many chunks before and after a hit are asked for."""
    of_table = window != table_window and content_type(result.chunk) == "table"
    return table_window if of_table else window


class Narrower:
    """Makes contexts of a hit that have fewer neighbours than were asked for, the nearest ones."""

    def __init__(self, chunks: JsonRows, starts: Rows, *, window: int, table_window: int) -> None:
        """Takes what `in_context` does."""
        self._chunks = chunks
        self._starts = starts
        self._windows = {"window": window, "table_window": table_window}

    def sides(self, result: Result, taken: Collection[int]) -> tuple[int, int]:
        """Return how many chunks before and after a hit may be shown with it, up to one that is `taken` elsewhere."""
        row, around = result.hit.row, window_of(result, **self._windows)
        begin, stop = int(self._starts[result.hit.record]), int(self._starts[result.hit.record + 1])
        before, after = range(row - 1, max(begin, row - around) - 1, -1), range(row + 1, min(stop, row + around + 1))
        return _until(before, taken), _until(after, taken)

    def with_neighbours(self, result: Result, before: int, after: int) -> Result:
        """Return a hit with so many chunks before and after it. Raises: IndexCorrupt: one cannot be read."""
        rows = self._chunks.rows(result.hit.row - before, result.hit.row + after + 1)
        return replace(result, context=joined(rows))


def _until(rows: Sequence[int], taken: Collection[int]) -> int:
    """The number of rows before the first that is taken."""
    return next((count for count, row in enumerate(rows) if row in taken), len(rows))


class _Stretch(Frozen):
    """Rows of one record that are read together, and the ranks from 0 of the hits among them, best first."""

    record: int
    first: int
    end: int
    ranks: tuple[int, ...]

    def meets(self, before: _Stretch) -> bool:
        """Return True if it is joined with one that does not begin behind it."""
        if self.record != before.record or self.first > before.end:
            return False
        alone = 1 in (self.end - self.first, before.end - before.first)
        return self.first < before.end or not alone


def _merged(stretches: Iterable[_Stretch]) -> list[_Stretch]:
    """The stretches in the order of their rows, those that meet as one."""
    done: list[_Stretch] = []
    # The longest first of those that begin together: what comes behind then meets the last one or none.
    for stretch in sorted(stretches, key=lambda each: (each.first, -each.end)):
        if done and stretch.meets(done[-1]):
            ranks = tuple(sorted((*done[-1].ranks, *stretch.ranks)))
            done[-1] = replace(done[-1], end=max(done[-1].end, stretch.end), ranks=ranks)
        else:
            done.append(stretch)
    return done


def _widened(stretch: _Stretch, results: Sequence[Result], chunks: JsonRows) -> Result:
    """The best hit of a stretch, with the whole of it for context."""
    best, *others = (results[rank] for rank in stretch.ranks)
    alone = stretch.end - stretch.first == 1
    span = Span.of(best.chunk) if alone else joined(chunks.rows(stretch.first, stretch.end))
    merged = [*_merged_into(best), *(name for other in others for name in (other.hit.id, *_merged_into(other)))]
    return replace(best, context=replace(span, merged=tuple(merged)))


def _merged_into(result: Result) -> tuple[str, ...]:
    return result.context.merged if result.context is not None else ()


def joined(rows: Sequence[Mapping[str, Json]]) -> Span:
    """Consecutive rows of `chunks.jsonl` as one text."""
    return together([Span.of(row) for row in rows])


def together(spans: Sequence[Span]) -> Span:
    """Join spans of one record, in the order of their starts, into one text: shared text is there once, gaps are
    filled.

    No chunk contains the text of a gap: its length and line breaks are known, and CR LF if any of the spans has one.
    """
    first = spans[0]
    parts, end, line, place = [first.text], first.end, first.end_line, first.place
    line_break = "\r\n" if any("\r\n" in span.text for span in spans) else "\n"
    for span in spans[1:]:
        parts.append(_gap(span.start - end, lines=span.start_line - line, line_break=line_break))
        parts.append(span.text[max(0, end - span.start) :])
        end, line, place = max(end, span.end), max(line, span.end_line), places.together(place, span.place)
    last = max(span.last for span in spans)
    return replace(first, last=last, text="".join(parts), end=end, end_line=line, place=place)


def _gap(length: int, *, lines: int, line_break: str) -> str:
    """White space of so many characters and lines: blanks behind a text are commoner than in front of the next.

    Chunks are trimmed, so nothing else parts them; a catalog's record has all its text on one line.
    """
    if length < lines * len(line_break):
        line_break = "\n"
    lines = max(0, min(lines, length, _LONGEST_GAP))
    return " " * min(length - lines * len(line_break), _LONGEST_GAP) + line_break * lines
