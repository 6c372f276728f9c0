"""The text of one page as it was read, before anything is known of the other pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from retrieve_cli.documents.pdf.columns import columns_of
from retrieve_cli.documents.pdf.directions import SKEWED
from retrieve_cli.documents.pdf.lines import Line, lines_of
from retrieve_cli.documents.pdf.segments import Segment

if TYPE_CHECKING:
    from retrieve_cli.documents.pdf.page_words import PageWords
    from retrieve_cli.documents.pdf.tables import Table


@dataclass(slots=True)
class PageText:
    index: int
    """Number of the page, from 1."""
    words: PageWords
    segments: Mapping[int, Sequence[Segment]]
    """Segments by the turn of their text."""
    tables: Sequence[Table] = ()
    numbers: list[str] = field(default_factory=list)
    """Texts of the running heads and feet that were removed."""
    turn: int = 0
    """Turn of most of the text."""

    def __post_init__(self) -> None:
        sizes = {turn: sum([segment.chars for segment in segments]) for turn, segments in self.segments.items()}
        self.turn = min(sizes, key=lambda turn: (-sizes[turn], turn), default=0)

    @property
    def width(self) -> float:
        return self.words.width

    @property
    def height(self) -> float:
        return self.words.height

    def text(self, segment: Segment) -> str:
        """Return the words of a segment."""
        return " ".join(self.words.texts[segment.first : segment.last])

    def lines(self) -> list[Line]:
        """Return the lines in reading order: first the text in the main direction, then stamps in others."""
        main = self.turn
        lines: list[Line] = []
        column = 0
        for turn in sorted(self.segments, key=lambda turn: (turn != main, turn == SKEWED, turn)):
            for segments in columns_of(self.segments[turn]):
                lines += lines_of(segments, column=column, turn=turn)
                column += 1
        return lines
