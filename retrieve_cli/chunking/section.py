"""Cuts markdown and plain text at its headings, and long sections between their blocks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from retrieve_cli.chunking.blocks import Block, scan
from retrieve_cli.chunking.coherence import Coherence
from retrieve_cli.chunking.packing import packed
from retrieve_cli.chunking.pieces import Cutter
from retrieve_cli.chunking.token_budget import Budget
from retrieve_cli.chunking.token_map import TokenMap
from retrieve_cli.chunking.writing import Stretch, Writer, place, whole
from retrieve_cli.contracts import Chunk, Json, Record, Tokenizer

_TINY = 8
"""A section of less than one part in this many of a chunk may share a chunk with a neighbour as small."""


@dataclass(frozen=True, slots=True)
class Section:
    """The blocks under one heading, or under several of which none can stand alone."""

    path: tuple[str, ...]
    parent: tuple[str, ...]
    blocks: tuple[Block, ...]

    @property
    def start(self) -> int:
        return self.blocks[0].start

    @property
    def end(self) -> int:
        return self.blocks[-1].end


class SectionChunker:
    """One section a chunk where it fits; paragraphs, lists, tables and code fences whole where they fit.

    A block that does not fit is cut at rows, lines, items or sentences; every chunk of a cut table repeats its header.
    A record of a catalog has no sections: only its blocks count.

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
    ) -> None:
        self._budget = Budget(tokenizer, max_tokens=max_tokens, size=size, prefix=prefix)
        self._language = language
        self._coherence = coherence

    @property
    def card(self) -> Mapping[str, Json]:
        """The parameters that change the chunks."""
        return {
            "strategy": "section",
            **self._budget.card,
            "language": self._language,
            "coherence": self._coherence and self._coherence.card,
        }

    def chunk(self, record: Record) -> Iterator[Chunk]:
        """The sections of the record in order."""
        if record.kind != "catalog":
            return self.cut(record, scan(record.text, record.body_start))
        single = self.whole(record)
        if single:
            return iter((single,))
        return self.cut(record, [replace(block, path=()) for block in scan(record.text, record.body_start)])

    def whole(self, record: Record) -> Chunk | None:
        """The record as a single chunk, where it fits."""
        return whole(record, self._budget)

    def cut(self, record: Record, blocks: Sequence[Block]) -> Iterator[Chunk]:
        """Chunks of blocks whose paths say to which section they belong."""
        paths = {block.path for block in blocks}
        single = whole(record, self._budget, *paths) if len(paths) == 1 and record.kind != "catalog" else None
        if single:
            yield single
        elif blocks:
            tokens = TokenMap(self._budget.tokenizer, record.text, record.body_start)
            sections = joined(sections_of(blocks), tokens, tiny=self._budget.size // _TINY)
            yield from Writer(record, self._budget, tokens).chunks(self._stretches(record, sections, tokens))

    def _stretches(self, record: Record, sections: Iterable[Section], tokens: TokenMap) -> Iterator[Stretch]:
        cutter = Cutter(tokens, self._budget, language=self._language, coherence=self._coherence)
        for section in sections:
            room = self._budget.room(self._budget.shorten(place(record, section.path)))
            if tokens.count(section.start, section.end) <= room:
                yield Stretch(section.start, section.end, section.path)
            else:
                yield from packed(cutter.pieces(section.blocks, room), room, tokens=tokens, path=section.path)


def sections_of(blocks: Iterable[Block]) -> Iterator[Section]:
    """Neighbouring blocks of the same path, together."""
    for path, members in groupby(blocks, key=lambda block: block.path):
        yield Section(path, path[:-1], tuple(members))


def joined(sections: Iterable[Section], tokens: TokenMap, *, tiny: int) -> list[Section]:
    """The sections, where a bare heading goes with what follows it and tiny neighbours of one parent together."""
    done: list[Section] = []
    for section in sections:
        path = _common(done[-1], section, tokens, tiny) if done else None
        if path is None:
            done.append(section)
        else:
            parent = section.parent if path == section.path else path
            done[-1] = Section(path, parent, done[-1].blocks + section.blocks)
    return done


def _common(before: Section, section: Section, tokens: TokenMap, tiny: int) -> tuple[str, ...] | None:
    """The path of the two sections in one chunk; None where each keeps its own."""
    if all(block.kind == "heading" for block in before.blocks):
        return section.path
    small = all(tokens.count(part.start, part.end) < tiny for part in (before, section))
    return section.parent if small and before.parent == section.parent else None
