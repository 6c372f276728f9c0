"""Chunking of Markdown and plain text at headings, and of long sections between their blocks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby

from retrieve_cli.contracts import Chunk, Json, Record, Tokenizer
from retrieve_cli.frozen import Frozen, replace
from retrieve_cli.sources.chunking.blocks import TextBlock
from retrieve_cli.sources.chunking.coherence import Coherence
from retrieve_cli.sources.chunking.markers import Markers
from retrieve_cli.sources.chunking.pieces import ChunkSpan, ChunkWriter, Cutter, context_of, pack, single_chunk
from retrieve_cli.sources.chunking.token_map import Budget, TokenMap

_TINY = 8
"""A section of less than 1/8 of a chunk may share a chunk with an equally small neighbour."""

_RULES = 3
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
        coherence: Coherence | None = None,
        markers: Markers | None = None,
    ) -> None:
        self._budget = Budget(tokenizer, max_tokens=max_tokens, size=size, prefix=prefix)
        self._coherence = coherence
        self._markers = markers or Markers()

    @property
    def card(self) -> Mapping[str, Json]:
        """The parameters that change the chunks."""
        return {
            "strategy": "section",
            **self._budget.card,
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

    def _cut(self, record: Record, blocks: Sequence[TextBlock]) -> Iterator[Chunk]:
        """Yield the chunks of blocks, whose paths name their sections."""
        paths = {block.path for block in blocks}
        slides = {block.page for block in blocks if block.alone}
        one = len(paths) == 1 and len(slides) < 2 and record.kind != "catalog"
        single = single_chunk(record, self._budget, *paths) if one else None
        if single:
            yield single
        elif blocks:
            tokens = TokenMap(self._budget.tokenizer, record.text)
            sections = join_tiny(sections_of(blocks), tokens, tiny=self._budget.size // _TINY)
            yield from ChunkWriter(record, self._budget, tokens).chunks(self._stretches(record, sections, tokens))

    def _stretches(self, record: Record, sections: Iterable[Section], tokens: TokenMap) -> Iterator[ChunkSpan]:
        cutter = Cutter(tokens, self._budget, coherence=self._coherence)
        for section in sections:
            room = self._budget.room(self._budget.shorten(context_of(record, section.path)))
            if tokens.count(section.start, section.end) <= room:
                yield ChunkSpan(section.start, section.end, section.path, shared=section.shared)
            else:
                for stretch in pack(cutter.pieces(section.blocks, room), room, tokens=tokens, path=section.path):
                    yield replace(stretch, shared=section.shared)


_MOST = 8
"""Maximum number of sections in one chunk: a longer list of names is not informative."""


class Section(Frozen):
    """The blocks under one heading, or under several headings of tiny sections."""

    path: tuple[str, ...]
    parent: tuple[str, ...]
    blocks: tuple[TextBlock, ...]
    shared: tuple[tuple[str, ...], ...] = ()
    """Paths of merged sections, without those that have no heading."""
    members: int = 1

    @property
    def start(self) -> int:
        return self.blocks[0].start

    @property
    def end(self) -> int:
        return self.blocks[-1].end

    @property
    def part(self) -> tuple[str, ...]:
        return self.blocks[-1].part


def sections_of(blocks: Iterable[TextBlock]) -> Iterator[Section]:
    """Yield neighbouring blocks of the same path as one section; a heading without text joins the next section. A
    slide or a form shares no section with another page."""
    for _, page in groupby(blocks, key=lambda block: block.page if block.alone else None):
        waiting: list[TextBlock] = []
        for path, members in groupby(page, key=lambda block: block.path):
            own = tuple(members)
            waiting += own
            if any(block.kind != "heading" for block in own):
                yield Section(path, path[:-1], tuple(waiting))
                waiting = []
        if waiting:
            yield Section(waiting[-1].path, waiting[-1].path[:-1], tuple(waiting))


def join_tiny(sections: Iterable[Section], tokens: TokenMap, *, tiny: int) -> list[Section]:
    """Return the sections, with neighbours merged if they have the same parent and less than `tiny` tokens each.

    Labelled parts of a text, such as a paper's Methods, are never merged, however short they are.
    """
    kept: list[Section] = []
    for section in sections:
        if (
            kept
            and (kept[-1].parent, kept[-1].part) == (section.parent, section.part)
            and kept[-1].blocks[-1].page == section.blocks[0].page  # so that a passage names one page
            and kept[-1].members < _MOST
            and all(tokens.count(either.start, either.end) < tiny for either in (kept[-1], section))
        ):
            kept[-1] = _together(kept[-1], section)
        else:
            kept.append(section)
    return kept


def _together(before: Section, section: Section) -> Section:
    """Merge two sections under the names of both: `Munich > Transport, Heating`."""
    paths = [path for path in (*(before.shared or (before.path,)), section.path) if len(path) > len(section.parent)]
    names = ", ".join(dict.fromkeys(path[-1] for path in paths))
    return Section(
        path=(*section.parent, names) if names else section.parent,
        parent=section.parent,
        blocks=before.blocks + section.blocks,
        shared=tuple(dict.fromkeys(paths)) if len(set(paths)) > 1 else (),
        members=before.members + 1,
    )
