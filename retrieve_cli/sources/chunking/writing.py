"""Conversion of stretches of a record's text into chunks: trimmed, numbered, with header, and never too long."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator

from retrieve_cli.contracts import Chunk, Record
from retrieve_cli.errors import RetrieveError
from retrieve_cli.frozen import Frozen, replace
from retrieve_cli.sources.chunking.blocks import newlines
from retrieve_cli.sources.chunking.token_map import Budget, TokenMap


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
    if not budget.may_fit(len(record.text) - record.body_start):
        return None
    writer = ChunkWriter(record, budget)
    stretch = writer.trim(ChunkSpan(record.body_start, len(record.text), path))
    if stretch is None:
        return None
    chunk = writer.write(stretch)
    return chunk if chunk.tokens <= budget.size else None


def context_of(record: Record, path: tuple[str, ...], *, text: str = "", index: int = 1) -> str:
    """Return the context header for the encoder: name and headings, without a name that the text already contains."""
    if record.kind == "catalog":
        return f"{record.name}: " if index and record.name else ""
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
        """Yield a chunk for each stretch that is not blank; more than one if it is too long once embedded."""
        for stretch in stretches:
            yield from self._chunks_of(stretch)

    def _chunks_of(self, stretch: ChunkSpan) -> Iterator[Chunk]:
        """Yield the stretch as chunks whose tokens are counted on the final text."""
        trimmed = self.trim(stretch)
        if trimmed is None:
            return
        chunk = self.write(trimmed)
        if chunk.tokens <= self._budget.max_tokens:
            self._written += 1
            yield chunk
            return
        for half in self._halves(trimmed):
            yield from self._chunks_of(half)

    def _halves(self, stretch: ChunkSpan) -> tuple[ChunkSpan, ChunkSpan]:
        """Cut the stretch in two.

        Raises:
            RetrieveError: a single character has more tokens than the encoder accepts.
        """
        if self._tokens is None:
            self._tokens = TokenMap(self._budget.tokenizer, self._record.text, self._record.body_start)
        middle = self._tokens.middle(stretch.start, stretch.end)
        if not stretch.start < middle < stretch.end:
            raise RetrieveError(
                f"character {stretch.start} of `{self._record.id}` alone has more tokens than the encoder accepts",
                hint=f"use an encoder with more than {self._budget.max_tokens} tokens",
            )
        return replace(stretch, end=middle), replace(stretch, start=middle)

    def trim(self, stretch: ChunkSpan) -> ChunkSpan | None:
        """Return the stretch without the white space around it; None if it contains nothing else."""
        text = self._record.text[stretch.start : stretch.end]
        left = len(text) - len(text.lstrip())
        if left == len(text):
            return None
        return replace(stretch, start=stretch.start + left, end=stretch.start + len(text.rstrip()))

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
