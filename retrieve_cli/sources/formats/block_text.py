"""A text that is composed block by block, with a blank line between two of them."""

from __future__ import annotations

from retrieve_cli.contracts.layout import Block, Kind


class BlockText:
    """Text and blocks of a document, in order."""

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self._pieces: list[str] = []
        self._length = 0

    @property
    def text(self) -> str:
        return "".join(self._pieces)

    def add(self, text: str, kind: Kind, *, level: int = 0, anchor: str = "") -> None:
        """Add a block; nothing if it is empty."""
        if not text:
            return
        if self.blocks:
            self._append("\n\n")
        start = self._length
        self._append(text)
        self.blocks.append(Block(start, self._length, kind, level, anchor))

    def extend(self, line: str) -> None:
        """Add a line to the last block."""
        self._append("\n" + line)
        self.blocks[-1] = self.blocks[-1]._replace(end=self._length)

    def _append(self, piece: str) -> None:
        self._pieces.append(piece)
        self._length += len(piece)
