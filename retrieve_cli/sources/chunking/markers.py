"""Marks that divide a text into sections: headings, listed titles, and the labels of a kind of text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from retrieve_cli.contracts import Json, Record
from retrieve_cli.frozen import Frozen, replace
from retrieve_cli.sources.chunking.blocks import TextBlock, laid_out, scan
from retrieve_cli.sources.chunking.titles import titles, titles_of

if TYPE_CHECKING:
    from retrieve_cli.sources.chunking.labels import Labels


class Markers(Frozen):
    """Marks of sections other than headings; the `section_titles` that a record lists always apply."""

    name: str = ""
    """Name of the labels."""
    labels: Labels | None = None
    titles: tuple[str, ...] = ()
    """Lines that act as headings."""

    @property
    def card(self) -> Mapping[str, Json]:
        """The parameters that change the chunks, if there are any."""
        markers = self.name or list(self.titles)
        return {"markers": markers} if markers else {}

    def blocks(self, record: Record) -> tuple[bool, list[TextBlock]]:
        """Return True if any block is marked by a label or a title, and the blocks of a record."""
        titled, blocks = self._scanned(record)
        parts = self.labels.split(record.text, blocks, name=record.name) if self.labels is not None else []
        return (True, parts) if parts else (titled, blocks)

    def _scanned(self, record: Record) -> tuple[bool, list[TextBlock]]:
        """Return True if a heading of the record is a listed title, and its blocks. Sections with a listed title never
        share a chunk."""
        known = titles(*self.titles, *titles_of(record))
        if record.layout is not None:
            scanned = laid_out(record.text, record.layout, titles=known)
        else:
            scanned = scan(record.text, _behind_name(record) if known else record.body_start, titles=known)
        if not known:
            return False, scanned
        blocks = [replace(block, part=tuple(name for name in block.path if known.name(name))) for block in scanned]
        if blocks and record.kind == "catalog":
            blocks[0] = replace(blocks[0], start=record.body_start)
        return any(block.part for block in blocks), blocks


def _behind_name(record: Record) -> int:
    """Return the start of a record's text, after the name with which a catalog's text begins."""
    name = f"{record.name}: "
    named = record.kind == "catalog" and record.text.startswith(name, record.body_start)
    return record.body_start + (len(name) if named else 0)
