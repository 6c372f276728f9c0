"""Pairs of a query and a passage as rows of tokens; a passage that is too long becomes several rows, its windows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

from retrieve_cli.errors import UsageError
from retrieve_cli.frozen import Frozen
from retrieve_cli.models.runtimes.tokenizer import ModelTokenizer, parse


class PairRow(Frozen):
    """One pair as the model reads it."""

    ids: list[int]
    """Token ids, special tokens included."""
    segments: list[int]
    """Parallel to `ids`: 0 for the query's half, 1 for the passage's; all 0 where the model makes no difference."""


class PairWindows(Frozen):
    """Rows that fit, and for each the place of the passage that it is a part of."""

    rows: list[PairRow]
    owners: list[int]


class PairReader(Protocol):
    """Lays out pairs as its model wants them."""

    def rows(self, query: str, passages: Sequence[str]) -> list[PairRow]:
        """A row for each passage, however long."""

    def spans(self, text: str) -> Sequence[tuple[int, int]]:
        """Character span of each token of a text, without special tokens."""


class PairTokenizer(ModelTokenizer):
    """`PairReader` over a tokenizer.json."""

    def __init__(self, path: Path, *, lowercase: bool, segmented: bool, prompt: str) -> None:
        super().__init__(lambda: parse(path), lowercase=lowercase)
        self._segmented = segmented
        self._prompt = prompt

    def rows(self, query: str, passages: Sequence[str]) -> list[PairRow]:
        [first] = self._plain([self._prompt + query])
        pairs = (self._tokenizer.post_process(first, second) for second in self._plain(passages))
        return [PairRow(pair.ids, pair.type_ids if self._segmented else [0] * len(pair.ids)) for pair in pairs]


def shortened(reader: PairReader, query: str, *, max_tokens: int) -> str:
    """Return the query, cut so that half of the tokens are left for the passage; special tokens do not count."""
    [bare] = reader.rows("", [""])
    half = max(1, (max_tokens - len(bare.ids)) // 2)
    spans = reader.spans(query)
    return query if len(spans) <= half else query[: spans[half - 1][1]]


def windows(reader: PairReader, query: str, passages: Sequence[str], *, max_tokens: int, stride: float) -> PairWindows:
    """Rows of at most `max_tokens`; each window starts `stride` of a window after the one before.

    Raises:
        UsageError: the query and the special tokens leave no space for a passage that does not fit.
    """
    bare, filled, *whole = reader.rows(query, ["", "x", *passages])
    head, tail = frame(bare.ids, filled.ids)
    cut = PairWindows([], [])
    for owner, row in enumerate(whole):
        if len(row.ids) <= max_tokens:
            pieces = [row]
        else:
            pieces = list(_pieces(row, head, tail, max_tokens=max_tokens, stride=stride))
        cut.rows.extend(pieces)
        cut.owners.extend([owner] * len(pieces))
    return cut


def frame(bare: Sequence[int], filled: Sequence[int]) -> tuple[int, int]:
    """Return the number of tokens before and after the passage, from a row without one and a row with a short one."""
    tail = _alike(bare[::-1], filled[::-1])
    return min(_alike(bare, filled), len(bare) - tail), tail


def stretches(count: int, room: int, *, stride: float) -> Iterator[tuple[int, int]]:
    """Stretches of `room` tokens that cover 0..count, the last one moved back so that it is as long as the others."""
    step = max(1, int(room * stride))
    start = 0
    while start + room < count:
        yield start, start + room
        start += step
    yield max(0, count - room), count


def _pieces(row: PairRow, head: int, tail: int, *, max_tokens: int, stride: float) -> Iterator[PairRow]:
    room = max_tokens - head - tail
    if room < 1:
        raise UsageError(
            f"{max_tokens} tokens leave no space for a passage: the query and its frame take {head + tail}.",
            hint="raise `max_tokens`",
        )
    after = len(row.ids) - tail
    for start, end in stretches(after - head, room, stride=stride):
        ids, segments = (
            [*part[:head], *part[head + start : head + end], *part[after:]] for part in (row.ids, row.segments)
        )
        yield PairRow(ids, segments)


def _alike(left: Sequence[int], right: Sequence[int]) -> int:
    """Return how many items from the start are the same in both."""
    count = 0
    for one, other in zip(left, right, strict=False):
        if one != other:
            break
        count += 1
    return count
