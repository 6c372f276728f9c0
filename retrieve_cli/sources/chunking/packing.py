"""Packing of pieces of text into chunks at the least cost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from retrieve_cli.frozen import replace
from retrieve_cli.sources.chunking.pieces import TextPiece
from retrieve_cli.sources.chunking.token_map import TokenMap
from retrieve_cli.sources.chunking.writing import ChunkSpan

_CRUMB = 32
"""Pieces smaller than 1/32 of a chunk are merged with the next piece, which bounds the search."""


def pack(
    pieces: Iterable[TextPiece], room: int, *, tokens: TokenMap, path: tuple[str, ...] = ()
) -> Iterator[ChunkSpan]:
    """Yield runs of pieces with the least total cost; a run has at most `room` tokens, unless it is a single piece.

    The cost of a run is the square of its empty share of the room, plus the cost of its first piece as the beginning of
    a chunk. So chunks are few, evenly filled, and begin at blocks rather than inside them. The minimum is found by
    dynamic programming, as for lines in Knuth and Plass, "Breaking Paragraphs into Lines", 1981; ties go to the longer
    run.
    """
    line = list(_gathered(pieces, room // _CRUMB, tokens))
    begins = _begins(line, room, tokens)
    bounds = [len(line)]
    while bounds[-1]:
        bounds.append(begins[bounds[-1]])
    bounds.reverse()
    for first, stop in pairwise(bounds):
        yield ChunkSpan(line[first].start, line[stop - 1].end, path, line[first].table_header)


def _gathered(pieces: Iterable[TextPiece], least: int, tokens: TokenMap) -> Iterator[TextPiece]:
    """Yield the pieces; neighbours are merged as long as they have at most `least` tokens."""
    crumb: TextPiece | None = None
    for piece in pieces:
        if crumb is None:
            crumb = piece
        elif tokens.count(crumb.start, piece.end) <= least:
            crumb = replace(crumb, end=piece.end)
        else:
            yield crumb
            crumb = piece
    if crumb:
        yield crumb


def _begins(pieces: Sequence[TextPiece], room: int, tokens: TokenMap) -> list[int]:
    """Return, for each number of packed pieces, the first piece of the last run of their cheapest packing."""
    sizes = [tokens.count(piece.start, piece.end) for piece in pieces]
    rooms = [max(1, room - piece.repeated) for piece in pieces]
    least = [0.0] + [float("inf")] * len(pieces)
    begins = [0] * len(least)
    for stop in range(1, len(least)):
        total = 0
        for first in range(stop - 1, -1, -1):
            total += sizes[first]
            if total > rooms[first] and first < stop - 1:
                if total > room:
                    break
                continue
            empty = max(0.0, 1 - total / rooms[first])
            cost = least[first] + empty * empty + (pieces[first].cost if first else 0.0)
            if cost <= least[stop]:
                least[stop], begins[stop] = cost, first
    return begins
