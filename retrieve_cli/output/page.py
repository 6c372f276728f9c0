"""Lines of styled text, printed to a terminal with colours and links, or into a file without."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from retrieve_cli.errors import printable
from retrieve_cli.output.cells import width

_CODES = {
    "": "",
    "name": "1",
    "place": "36",
    "match": "1;33",
    "score": "1",
    "section": "3",
    "dim": "2",
    "heading": "1;4",
    "alert": "31",
    "hint": "33",
}
"""Styles as parameters of SGR, colours of the terminal's own palette."""


class StyledText(NamedTuple):
    """A stretch of a line in one style; `link` is the address that it leads to."""

    text: str
    style: str = ""
    link: str = ""

    @property
    def width(self) -> int:
        """Cells that it takes."""
        return width(self.text)


Line = Sequence[StyledText]


class LineRenderer(NamedTuple):
    """A surface that lines are printed on."""

    width: int
    """Cells of a line."""
    styled: bool = False
    """With colours."""
    linked: bool = False
    """With links that a terminal opens (OSC 8)."""

    def render(self, lines: Iterable[Line]) -> str:
        """Return the lines as text with their control characters escaped."""
        return "".join("".join(self._rendered(line)).rstrip(" ") + "\n" for line in lines)

    def _rendered(self, line: Line) -> Iterator[str]:
        for span in line:
            text = printable(span.text)
            if self.styled and text.strip() and (code := _CODES[span.style]):
                text = f"\x1b[{code}m{text}\x1b[0m"
            if self.linked and span.link:
                text = f"\x1b]8;;{address(span.link)}\x1b\\{text}\x1b]8;;\x1b\\"
            yield text


def address(link: str) -> str:
    """Return a link in the characters that one may have: all others as bytes of UTF-8, in percent."""
    return "".join(
        char if "!" <= char <= "~" else "".join(f"%{byte:02X}" for byte in char.encode("utf-8", "replace"))
        for char in link
    )


def file_address(path: str) -> str:
    """Return the link to a file by its absolute path."""
    return "file://" + "".join(f"%{ord(char):02X}" if char in "%?#;" else char for char in path)
