"""Text of a document while it is written, block by block, with a blank line between blocks."""

from __future__ import annotations

from typing import Literal

from retrieve_cli.documents.docx.inline import Inline
from retrieve_cli.documents.docx.pages import Mark
from retrieve_cli.layout.layout import Block, Kind

Group = Literal["", "list", "code", "toc"]
"""Kind of consecutive paragraphs that are one block, a line each."""


class Writer:
    """Text, blocks and ends of pages so far."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._group: Group = ""
        self._blank_lines = 0
        self.length = 0
        self.blocks: list[Block] = []
        self.marks: list[Mark] = []

    @property
    def text(self) -> str:
        return "".join(self._pieces)

    @property
    def group(self) -> Group:
        """Group of the last block, which the next paragraph may continue."""
        return self._group

    def add(
        self, kind: Kind, text: str, *, level: int = 0, anchor: str = "", group: Group = "", prefix: str = ""
    ) -> int:
        """Add a block, or a line to the last one if it has the same group. Return the place of `text` behind `prefix`;
        for an empty text, the end."""
        if not text.strip():
            self._blank_lines += self._group == "code" == group
            return self.length
        joins = bool(group) and group == self._group
        if self.length:
            self._append("\n" * (1 + self._blank_lines) if joins else "\n\n")
        start = self.length
        self._append(prefix)
        place = self.length
        self._append(text)
        if joins:
            self.blocks[-1] = self.blocks[-1]._replace(end=self.length)
        else:
            self.blocks.append(Block(start, self.length, kind, level, anchor))
        self._group, self._blank_lines = group, 0
        return place

    def end_group(self) -> None:
        """Let the next paragraph begin a block of its own."""
        self._group, self._blank_lines = "", 0

    def mark(self, place: int, inline: Inline) -> None:
        """Take over the ends of pages within a text that begins at `place`."""
        for offset, kind in inline.breaks:
            self.marks.append(Mark(min(place + offset, self.length), kind))

    def _append(self, text: str) -> None:
        self._pieces.append(text)
        self.length += len(text)
