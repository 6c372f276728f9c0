"""Lines of styled text, printed to a terminal with colours and links, or into a file without.

Widths are cells of a terminal: wide, joining and zero-width characters count as terminals show them. A word of a name
is never broken.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple
from unicodedata import bidirectional, category, east_asian_width

from retrieve_cli.errors import printable

if TYPE_CHECKING:
    from rich.console import Console

ELLIPSIS = "…"
_JOINER, _EMOJI_STYLE = "\u200d", "\ufe0f"
_JAMO = range(0x1160, 0x1200)
"""Vowels and final consonants of Hangul, drawn into the cell of the consonant before them."""


def _is_turned(text: str) -> bool:
    """Return True for a text with letters that are written from right to left."""
    return not text.isascii() and any(bidirectional(char) in _RIGHT_TO_LEFT for char in text)


def cell_width(text: str) -> int:
    """Return the cells that a printable text takes."""
    return len(text) if text.isascii() else sum(cells for _, cells in _measured(text))


def _measured(text: str) -> Iterator[tuple[str, int]]:
    """Yield each character with its cells: 0 for marks and for characters joined to the one before."""
    before, cells = "", 0
    for char in text:
        if char == _EMOJI_STYLE and cells == 1:
            cells = 1  # drawn as a picture, which is wide
        elif before == _JOINER or category(char) in ("Mn", "Me", "Cf") or ord(char) in _JAMO:
            cells = 0
        else:
            cells = 2 if east_asian_width(char) in "WF" else 1
        yield char, cells
        before = char


def wrap(text: str, most: int, *, breaks_words: bool = False) -> list[tuple[int, int]]:
    """Return the places in `text`, start and end, of lines of at most `most` cells, broken at blanks.

    A longer word is alone on its line. With `breaks_words` it goes on in the next line, and a line may end between
    wide characters: their scripts have no blanks.
    """
    done: list[tuple[int, int]] = []
    start = end = used = 0
    for begin, stop, cells in _words(text, most if breaks_words else None):
        gap = begin - end  # blanks, of one cell each
        if start < end and used + gap + cells > most:
            done.append((start, end))
            start, used, gap = begin, 0, 0
        elif start == end:
            start, gap = begin, 0
        used += gap + cells
        end = stop
    return [*done, (start, end)] if start < end else done


def _words(text: str, most: int | None) -> Iterator[tuple[int, int, int]]:
    """Yield start, end and cells of each word; with `most` a wide character is one, and none takes more cells."""
    start = used = last = 0
    for place, (char, cells) in enumerate(_measured(text)):
        blank = char == " "
        parts = most is not None and cells > 0 and (2 in (cells, last) or used + cells > most)
        if start < place and (blank or parts):
            yield start, place, used
        if blank or (start < place and parts):
            start, used = place + blank, 0
        used, last = (0, 0) if blank else (used + cells, cells or last)
    if start < len(text):
        yield start, len(text), used


def cut(text: str, most: int) -> str:
    """Return a text that takes at most `most` cells: cut behind a word if need be, with an ellipsis."""
    if cell_width(text) <= most:
        return text
    found = wrap(text, max(most - 2, 1), breaks_words=True)
    start, end = found[0]
    return f"{text[start:end].rstrip(' ,;:·–-')} {ELLIPSIS}"


_RIGHT_TO_LEFT = ("R", "AL")
"""Bidirectional classes of letters that are written from right to left (UAX #9)."""
_ISOLATE, _END_OF_ISOLATE = "\u2068", "\u2069"
"""Around text from right to left in a terminal, so that ranks and scores beside it keep their places (UAX #9)."""
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
        return cell_width(self.text)


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
        turned = [place for place, span in enumerate(line) if _is_turned(span.text)] if self.styled else []
        for place, span in enumerate(line):
            text = printable(span.text)
            if turned and place in (turned[0], turned[-1]):  # the words between them are one text
                text = _ISOLATE * (place == turned[0]) + text + _END_OF_ISOLATE * (place == turned[-1])
            if self.styled and text.strip() and (code := _CODES[span.style]):
                text = f"\x1b[{code}m{text}\x1b[0m"
            if self.linked and span.link:
                text = f"\x1b]8;;{address(span.link)}\x1b\\{text}\x1b]8;;\x1b\\"
            yield text


def print_table(
    console: Console, columns: Sequence[str], rows: Iterable[Sequence[str]], *, right: Container[str] = ()
) -> None:
    """Print a table without a frame; its columns in `right` are aligned to the right."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    console.print(table)


def address(link: str) -> str:
    """Return a link in the characters that one may have: all others as bytes of UTF-8, in percent."""
    return "".join(
        char if "!" <= char <= "~" else "".join(f"%{byte:02X}" for byte in char.encode("utf-8", "replace"))
        for char in link
    )


def file_address(path: str) -> str:
    """Return the link to a file by its absolute path."""
    return "file://" + "".join(f"%{ord(char):02X}" if char in "%?#;" else char for char in path)
