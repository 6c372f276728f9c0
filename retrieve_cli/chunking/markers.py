"""Marks by which a text is known to have sections: headings, titles of its own, and the labels of a kind of text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from retrieve_cli.chunking.blocks import Block, scan
from retrieve_cli.chunking.titles import titles, titles_of
from retrieve_cli.contracts import Json, Record

if TYPE_CHECKING:
    from retrieve_cli.chunking.labels import Labels


@dataclass(frozen=True, slots=True)
class Markers:
    """Marks of sections besides headings; those that a record lists as its `section_titles` always count."""

    name: str = ""
    """Of the labels."""
    labels: Labels | None = None
    titles: tuple[str, ...] = ()
    """Lines that are headings."""

    @property
    def card(self) -> Mapping[str, Json]:
        """The parameters that change the chunks, if there are any."""
        given = self.name or list(self.titles)
        return {"markers": given} if given else {}

    def blocks(self, record: Record) -> tuple[bool, list[Block]]:
        """The blocks of a record, and whether any is marked by a label or a title."""
        titled, blocks = self._scanned(record)
        parts = self.labels.parted(record.text, blocks, name=record.name) if self.labels is not None else []
        return (True, parts) if parts else (titled, blocks)

    def _scanned(self, record: Record) -> tuple[bool, list[Block]]:
        """The blocks of a record below its headings, and whether any of these is a title that was given; titled
        sections share no chunk: whoever lists them wants them as they are."""
        known = titles(*self.titles, *titles_of(record))
        if not known:
            return False, scan(record.text, record.body_start)
        found = scan(record.text, _behind_name(record), titles=known)
        blocks = [replace(block, part=tuple(name for name in block.path if known.name(name))) for block in found]
        if blocks and record.kind == "catalog":
            blocks[0] = replace(blocks[0], start=record.body_start)
        return any(block.part for block in blocks), blocks


def _behind_name(record: Record) -> int:
    """Start of the first line of a record, behind the name that a catalog's text begins with."""
    name = f"{record.name}: "
    named = record.kind == "catalog" and record.text.startswith(name, record.body_start)
    return record.body_start + (len(name) if named else 0)
