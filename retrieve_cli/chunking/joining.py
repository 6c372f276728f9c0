"""Sections of a text, and the merging of tiny sections."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby

from retrieve_cli.chunking.blocks import Block
from retrieve_cli.chunking.token_map import TokenMap

_MOST = 8
"""Maximum number of sections in one chunk: a longer list of names is not informative."""


@dataclass(frozen=True, slots=True)
class Section:
    """The blocks under one heading, or under several headings of tiny sections."""

    path: tuple[str, ...]
    parent: tuple[str, ...]
    blocks: tuple[Block, ...]
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


def sections_of(blocks: Iterable[Block]) -> Iterator[Section]:
    """Yield neighbouring blocks of the same path as one section; a heading without text joins the next section."""
    waiting: list[Block] = []
    for path, members in groupby(blocks, key=lambda block: block.path):
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
        if kept and _may_share(kept[-1], section) and _tiny(kept[-1], tokens, tiny) and _tiny(section, tokens, tiny):
            kept[-1] = _together(kept[-1], section)
        else:
            kept.append(section)
    return kept


def _may_share(before: Section, section: Section) -> bool:
    """Return True if two sections may be merged; not if their pages differ, so that a passage names one page."""
    same = before.parent == section.parent and before.part == section.part
    return same and before.blocks[-1].page == section.blocks[0].page and before.members < _MOST


def _tiny(section: Section, tokens: TokenMap, tiny: int) -> bool:
    return tokens.count(section.start, section.end) < tiny


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
