"""Chunking of Markdown and plain text at headings, and of long sections between their blocks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from retrieve_cli.chunking.blocks import Block
from retrieve_cli.chunking.coherence import Coherence
from retrieve_cli.chunking.joining import Section, join_tiny, sections_of
from retrieve_cli.chunking.markers import Markers
from retrieve_cli.chunking.packing import pack
from retrieve_cli.chunking.pieces import Cutter
from retrieve_cli.chunking.token_budget import Budget
from retrieve_cli.chunking.token_map import TokenMap
from retrieve_cli.chunking.writing import Stretch, Writer, context_of, single_chunk
from retrieve_cli.contracts import Chunk, Json, Record, Tokenizer

_TINY = 8
"""A section of less than 1/8 of a chunk may share a chunk with an equally small neighbour."""

_RULES = 2
"""Version of the rules for cutting and storing a text; part of the recipe."""


class SectionChunker:
    """Chunker with one chunk per section if it fits; paragraphs, lists, tables and code fences stay whole if they fit.

    A block that does not fit is cut at rows, lines, items or sentences; every chunk of a cut table repeats its header.
    A catalog record has no sections, only blocks, unless `markers` or its own list of titles divide it.

    Raises:
        UsageError: `size` leaves no room for text.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        *,
        max_tokens: int,
        size: int | None = None,
        prefix: str = "",
        language: str = "en",
        coherence: Coherence | None = None,
        markers: Markers | None = None,
    ) -> None:
        self._budget = Budget(tokenizer, max_tokens=max_tokens, size=size, prefix=prefix)
        self._language = language
        self._coherence = coherence
        self._markers = markers or Markers()

    @property
    def card(self) -> Mapping[str, Json]:
        """The parameters that change the chunks."""
        return {
            "strategy": "section",
            **self._budget.card,
            "language": self._language,
            "coherence": self._coherence and self._coherence.card,
            "sections": _RULES,
            **self._markers.card,
        }

    def chunk(self, record: Record) -> Iterator[Chunk]:
        """Return the sections of the record in order."""
        marked, blocks = self._markers.blocks(record)
        if marked or record.kind != "catalog":
            return self._cut(record, blocks)
        single = single_chunk(record, self._budget)
        if single:
            return iter((single,))
        return self._cut(record, [replace(block, path=()) for block in blocks])

    def _cut(self, record: Record, blocks: Sequence[Block]) -> Iterator[Chunk]:
        """Yield the chunks of blocks, whose paths name their sections."""
        paths = {block.path for block in blocks}
        single = single_chunk(record, self._budget, *paths) if len(paths) == 1 and record.kind != "catalog" else None
        if single:
            yield single
        elif blocks:
            tokens = TokenMap(self._budget.tokenizer, record.text, record.body_start)
            sections = join_tiny(sections_of(blocks), tokens, tiny=self._budget.size // _TINY)
            yield from Writer(record, self._budget, tokens).chunks(self._stretches(record, sections, tokens))

    def _stretches(self, record: Record, sections: Iterable[Section], tokens: TokenMap) -> Iterator[Stretch]:
        cutter = Cutter(tokens, self._budget, language=self._language, coherence=self._coherence)
        for section in sections:
            room = self._budget.room(self._budget.shorten(context_of(record, section.path)))
            if tokens.count(section.start, section.end) <= room:
                yield Stretch(section.start, section.end, section.path, shared=section.shared)
            else:
                for stretch in pack(cutter.pieces(section.blocks, room), room, tokens=tokens, path=section.path):
                    yield replace(stretch, shared=section.shared)
