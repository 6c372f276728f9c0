"""Pieces of a record's blocks: rows, lines, items, sentences, and finally words; and their packing into chunks.

Conversion of stretches of a record's text into chunks: trimmed, numbered, with header, and never too long.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise

from retrieve_cli.contracts import Chunk, Record
from retrieve_cli.contracts.layout import Kind
from retrieve_cli.contracts.tools import is_tool
from retrieve_cli.errors import RetrieveError
from retrieve_cli.frozen import Frozen, replace
from retrieve_cli.sources.chunking.blocks import TextBlock, inner_starts, item_starts, line_starts, newlines
from retrieve_cli.sources.chunking.coherence import Coherence
from retrieve_cli.sources.chunking.sentences import sentence_starts
from retrieve_cli.sources.chunking.token_map import Budget, TokenMap
from retrieve_cli.untrusted.markdown_text import is_caption

AFTER_HEADING = 1.0
AFTER_COLON = 0.3
WITHIN_BLOCK = 0.1
WITHIN_SENTENCE = 0.3
AT_DROP = 0.3
"""Costs of a chunk that begins after a heading, after a block that introduces the next ("as follows:"), inside a block,
or inside a sentence; and the discount for one that begins at a drop of coherence. The unit is the cost of an empty
chunk."""


class TextPiece(Frozen):
    """A stretch of text that no chunk boundary divides, with its cost as the beginning of a chunk."""

    start: int
    end: int
    cost: float = 0.0
    table_header: str = ""
    """Header of the table of these rows, which a chunk that begins here repeats."""
    repeated: int = 0
    """Tokens of the header."""


Starts = Callable[[str, int, int], list[int]]


class Cutter:
    """Cutter of one record's blocks into pieces of at most the given size, if the text allows it."""

    def __init__(self, tokens: TokenMap, budget: Budget, *, coherence: Coherence | None = None) -> None:
        self._tokens = tokens
        self._text = tokens.text
        self._budget = budget
        self._coherence = coherence
        self._levels: dict[Kind, tuple[Starts, ...]] = {
            "heading": (self._sentences,),
            "paragraph": (self._sentences, line_starts),
            "quote": (self._sentences, line_starts),
            "caption": (self._sentences, line_starts),
            "list": (item_starts, inner_starts, self._sentences, line_starts),
            "code": (line_starts,),
        }

    def pieces(self, blocks: Sequence[TextBlock], room: int) -> Iterator[TextPiece]:
        """Yield the contiguous pieces of the blocks; a block that fits into `room` with its heading stays whole."""
        heading = 0
        for block in self._with_captions(blocks, room):
            tokens = self._tokens.count(block.start, block.end)
            above = self._text[max(0, block.start - 16) : block.start].rstrip()
            cost = AFTER_COLON if above.endswith(":") else 0.0
            cost = AFTER_HEADING if heading else cost
            if tokens + heading <= room:
                yield TextPiece(block.start, block.end, cost)
            else:
                yield from self._within(block, room - heading if 2 * heading < room else room, cost)
            heading = heading + tokens if block.kind == "heading" else 0

    def _with_captions(self, blocks: Sequence[TextBlock], room: int) -> Iterator[TextBlock]:
        """Yield the blocks; a figure and its caption become one if both fit into `room` below their heading."""
        before: TextBlock | None = None
        heading = 0
        for block, bound in zip(blocks, [False, *caption_pairs(self._text, blocks)], strict=True):
            if before is None:
                before = block
            elif bound and heading + self._tokens.count(before.start, block.end) <= room:
                before = replace(before, end=block.end, kind="paragraph")
            else:
                yield before
                tokens = self._tokens.count(before.start, before.end)
                heading = heading + tokens if before.kind == "heading" else 0
                before = block
        if before is not None:
            yield before

    def _within(self, block: TextBlock, room: int, cost: float) -> Iterator[TextPiece]:
        """Cut a block; with coherence, the clearer the change of subject, the cheaper a chunk that begins there."""
        if block.kind == "table":
            yield from self._table(block, room, cost)
        elif self._coherence and block.kind in ("paragraph", "quote"):
            spans = list(_spans(self._sentences(self._text, block.start, block.end), block.start, block.end))
            drops = self._coherence.drops([self._text[first:last] for first, last in spans])
            costs = [cost, *(WITHIN_BLOCK - AT_DROP * float(drop) for drop in drops)]
            for (first, last), price in zip(spans, costs, strict=True):
                yield from self._cut(first, last, room, levels=(line_starts,), cost=price)
        else:
            yield from self._cut(block.start, block.end, room, levels=self._levels[block.kind], cost=cost)

    def _cut(self, start: int, end: int, room: int, *, levels: tuple[Starts, ...], cost: float) -> Iterator[TextPiece]:
        """Cut `text[start:end]` at the first of the levels, larger rests at the next, and finally by windows."""
        if self._tokens.count(start, end) <= room:
            yield TextPiece(start, end, cost)
        elif not levels:
            for first, last in self._tokens.windows(start, end, room=room):
                yield TextPiece(first, last, cost if first == start else WITHIN_SENTENCE)
        else:
            for first, last in _spans(levels[0](self._text, start, end), start, end):
                inner = cost if first == start else WITHIN_BLOCK
                yield from self._cut(first, last, room, levels=levels[1:], cost=inner)

    def _table(self, block: TextBlock, room: int, cost: float) -> Iterator[TextPiece]:
        """Cut row by row; header and delimiter rows stay with the first row and are repeated above all others."""
        rows = line_starts(self._text, block.start, block.end)
        body, second = [*rows, block.end, block.end][2:4]
        header = self._budget.shorten(self._text[block.start : body].rstrip() + "\n")
        repeated = self._budget.tokenizer.count(header)
        yield from self._cut(block.start, second, room, levels=(line_starts,), cost=cost)
        for first, last in _spans(rows[4:], second, block.end):
            for piece in self._cut(first, last, max(1, room - repeated), levels=(), cost=WITHIN_BLOCK):
                yield replace(piece, table_header=header, repeated=repeated)

    def _sentences(self, text: str, start: int, end: int) -> list[int]:
        return [start + offset for offset in sentence_starts(text[start:end])]


def _spans(starts: list[int], start: int, end: int) -> Iterator[tuple[int, int]]:
    """Return the stretches between the starts, which together cover `start` to `end`."""
    bounds = sorted({start, *starts, end}) if start < end else []
    return pairwise(bounds)


_IMAGE = re.compile(r"!\[[^\[\]]{0,1000}\][(\[]|<(?:img|figure)\b", re.IGNORECASE)
_EMPHASIZED = re.compile(r"[ ]{0,3}([*_])(?![*_\s])[^*_]{1,2000}(?<!\s)\1\s{0,9}")


def caption_pairs(text: str, blocks: Sequence[TextBlock]) -> list[bool]:
    """Return for each pair of neighbouring blocks whether they are a figure and its caption.

    A caption begins with `Figure 3. …`, or is a line in italics below an image. It is below its figure, which may have
    nothing but the paragraph before it, or above its image.
    """
    prose = ["" if block.kind == "heading" else text[block.start : block.end] for block in blocks]
    images = [_IMAGE.search(words) is not None for words in prose]
    captions = list(map(is_caption, prose))
    bonds = []
    for index in range(len(blocks) - 1):
        below = captions[index + 1] or _EMPHASIZED.fullmatch(prose[index + 1]) is not None
        lone = captions[index + 1] and not captions[index] and not any(images[index + 2 : index + 3])
        above = captions[index] and images[index + 1] and not any(images[max(0, index - 1) : index])
        bonds.append((images[index] and below) or (lone and prose[index] != "") or above)
    return bonds


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


class ChunkSpan(Frozen):
    """A future chunk: a span of the text, the headings above it, and the header that it repeats of a cut table."""

    start: int
    end: int
    path: tuple[str, ...] = ()
    table_header: str = ""
    shared: tuple[tuple[str, ...], ...] = ()
    """The headings above each section, if several sections share the chunk."""


def single_chunk(record: Record, budget: Budget, path: tuple[str, ...] = ()) -> Chunk | None:
    """Return the record as a single chunk if it fits: one tokenization and no search for places to cut."""
    if not budget.may_fit(len(record.text)):
        return None
    writer = ChunkWriter(record, budget)
    stretch = writer.trim(ChunkSpan(0, len(record.text), path))
    if stretch is None:
        return None
    chunk = writer.write(stretch)
    return chunk if chunk.tokens <= budget.size else None


def context_of(record: Record, path: tuple[str, ...], *, text: str = "", index: int = 1) -> str:
    """Return the context header for the encoder: name and headings, without a name that the text already contains."""
    if record.kind == "catalog":
        if not index:
            return ""
        words = (field.text for field in record.fields if field.name == "name" and is_tool(record.metadata))
        name = next(words, record.name)
        return name and f"{name}: "
    section = " > ".join(path)
    if section.startswith(record.name) or text.lstrip("# \t").startswith(record.name):
        return section and f"{section}\n"
    return " > ".join((record.name, *path)) + "\n"


class ChunkWriter:
    """Writer of the chunks of one record, in the order of their stretches."""

    def __init__(self, record: Record, budget: Budget, tokens: TokenMap | None = None) -> None:
        self._record = record
        self._budget = budget
        self._tokens = tokens
        self._written = 0
        self._lines: list[int] | None = None

    def chunks(self, stretches: Iterable[ChunkSpan]) -> Iterator[Chunk]:
        """Yield a chunk for each stretch that is not blank; more than one if it is too long once embedded.

        Raises:
            RetrieveError: a single character has more tokens than the encoder accepts.
        """
        for trimmed in filter(None, map(self.trim, stretches)):
            chunk = self.write(trimmed)
            if chunk.tokens <= self._budget.max_tokens:
                self._written += 1
                yield chunk
                continue
            if self._tokens is None:
                self._tokens = TokenMap(self._budget.tokenizer, self._record.text)
            middle = self._tokens.middle(trimmed.start, trimmed.end)
            if not trimmed.start < middle < trimmed.end:
                raise RetrieveError(
                    f"character {trimmed.start} of `{self._record.id}` alone has more tokens than the encoder accepts",
                    hint=f"use an encoder with more than {self._budget.max_tokens} tokens",
                )
            yield from self.chunks((replace(trimmed, end=middle), replace(trimmed, start=middle)))

    def trim(self, stretch: ChunkSpan) -> ChunkSpan | None:
        """Return the stretch without the white space around it; None if it contains nothing else."""
        text = self._record.text[stretch.start : stretch.end]
        stripped = text.strip()
        if not stripped:
            return None
        if len(stripped) == len(text):
            return stretch
        start = stretch.start + len(text) - len(text.lstrip())
        return replace(stretch, start=start, end=start + len(stripped))

    def write(self, stretch: ChunkSpan) -> Chunk:
        """Return the next chunk, from a stretch without white space around it; its tokens are counted, not limited."""
        text = self._record.text[stretch.start : stretch.end]
        context = context_of(self._record, stretch.path, text=text, index=self._written)
        header = self._budget.shorten(context) + stretch.table_header
        return Chunk(
            doc_id=self._record.id,
            index=self._written,
            text=text,
            start=stretch.start,
            end=stretch.end,
            start_line=self._line(stretch.start),
            end_line=self._line(stretch.end - 1),
            section=" > ".join(stretch.path) or None,
            header=header,
            tokens=self._budget.tokens(header + text),
            table_header=stretch.table_header,
            sections=tuple(" > ".join(path) for path in stretch.shared),
        )

    def _line(self, position: int) -> int:
        """Return the line of a character, counted by line feeds from 1; a catalog record is on one line."""
        if self._record.kind == "catalog":
            return self._record.line
        if self._lines is None:
            self._lines = list(newlines(self._record.text, 0, len(self._record.text)))
        return bisect_right(self._lines, position) + 1
