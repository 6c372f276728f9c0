"""reStructuredText: the text unchanged, with blocks as docutils would see them."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from retrieve_cli.contracts import Parsed
from retrieve_cli.contracts.layout import Block, Kind, Layout
from retrieve_cli.errors import BadDocument
from retrieve_cli.sources.formats.formats import ParsingLimits
from retrieve_cli.sources.formats.markdown import decoded

_LONGEST = 1000


def parse(content: bytes, *, name: str, limits: ParsingLimits, on_page: Callable[[int], None]) -> Parsed:  # noqa: ARG001
    """Return the text of a file with its structure; its first title is the document's.

    Raises:
        BadDocument: it is not a text, or has none.
    """
    text, notices = decoded(content)
    if not any(char.isalnum() for char in text):
        raise BadDocument("it has no text")
    start = 1 if text.startswith("\ufeff") else 0
    scanned = scan(text, start)
    title = scanned.titles[0] if scanned.titles else ""
    metadata = {"title": title[:_LONGEST]} if title else {}
    return Parsed(text, layout=Layout(scanned.blocks), metadata=metadata, body_start=start, notices=notices)


MARKS = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
"""Characters of underlines."""
DIRECTIVE = re.compile(r"\.\.[ ]+(?:\|[^|]{1,200}\|[ ]+)?([A-Za-z][\w:.+-]*?)[ ]?::(?:[ \t]|$)")
TARGET = re.compile(r"\.\.[ ]+_(`[^`]{1,500}`|(?![ ])(?:\\.|[^:\\]|:(?! |$)){1,500}):[ \t]*(.*)")
EXPLICIT = re.compile(r"\.\.(?:[ \t]|$)")
BULLET = re.compile(r"[-*+\u2022\u2023\u2043](?:[ \t]|$)")
ENUMERATOR = re.compile(r"\(?(?:\d{1,9}|[A-Za-z]|#|[ivxlcdmIVXLCDM]{1,15})[.)](?:[ \t]|$)")
SIMPLE = re.compile(r"=+(?:[ \t]+=+)+[ \t]*")


class RstLine(NamedTuple):
    """A line without its end and the white space around it."""

    start: int
    end: int
    """Position after its last character that is not white space; `start` for a blank line."""
    indent: int
    words: str


def lines_of(text: str, start: int) -> list[RstLine]:
    """Return the lines of a text, with tabs as far as the next multiple of 8 columns."""
    lines = []
    position = start
    while position < len(text):
        stop = text.find("\n", position)
        stop = len(text) if stop < 0 else stop
        line = text[position:stop].rstrip()
        words = line.lstrip()
        indent = line[: len(line) - len(words)]
        width = len(indent.expandtabs(8)) if "\t" in indent else len(indent)
        lines.append(RstLine(position, position + len(line), width, words))
        position = stop + 1
    return lines


def is_rule(line: RstLine) -> bool:
    """Return True for a line of one repeated mark that is not indented."""
    words = line.words
    return bool(words) and not line.indent and words[0] in MARKS and not words.strip(words[0])


def title_at(lines: Sequence[RstLine], number: int) -> tuple[str, int, str] | None:
    """Return the words of the title that begins on a line, the line after it, and its style; None if none does.

    An underline may be shorter than the title from four characters, as docutils only warns of it.
    """
    line = lines[number]
    if is_rule(line):
        if number + 2 >= len(lines) or not lines[number + 1].words or lines[number + 2].words != line.words:
            return None
        title = lines[number + 1].words
        fits = len(line.words) >= 4 or len(line.words) >= len(title)
        return (title, number + 3, line.words[0] * 2) if fits else None
    if line.indent or not line.words or number + 1 >= len(lines):
        return None
    under = lines[number + 1]
    fits = is_rule(under) and (len(under.words) >= 4 or len(under.words) >= _width(line.words))
    return (line.words, number + 2, under.words[0]) if fits else None


def _width(words: str) -> int:
    """Return the columns of a text; wide characters of East Asia take two."""
    if words.isascii():
        return len(words)
    from unicodedata import combining, east_asian_width

    return sum(1 + (east_asian_width(char) in "WF") for char in words if not combining(char))


_CONTENT: Mapping[str, Kind] = {
    **dict.fromkeys(
        "code code-block sourcecode parsed-literal highlight literalinclude doctest testcode testoutput prompt ipython "
        "math productionlist graphviz plot".split(),
        "code",
    ),
    **dict.fromkeys(("table", "list-table", "csv-table", "image"), "paragraph"),
    "figure": "caption",
}
"""Kind of the block of a directive that is one block with its content."""
_LEVELS = 6
_TRANSITION = 4
"""Marks of the shortest line that divides two paragraphs."""
_LONGEST_ANCHOR = 200
_NOT_IN_ID = re.compile(r"[^a-z0-9]+")


def anchor_of(label: str) -> str:
    """Return the id that docutils gives the target of a label."""
    name = " ".join(label.strip("`").replace("\\", "").lower().split())
    return _NOT_IN_ID.sub("-", name).strip("-")[:_LONGEST_ANCHOR]


class RstBlocks:
    """The blocks of a text, with the titles of its sections."""

    def __init__(self, lines: Sequence[RstLine]) -> None:
        self.lines = lines
        self.blocks: list[Block] = []
        self.titles: list[str] = []
        self._styles: list[str] = []
        self._anchor = ""
        self._literal: int | None = None
        """Indentation of the paragraph whose `::` announces a literal block."""
        self._borders = [
            number for number, line in enumerate(lines) if SIMPLE.fullmatch(line.words) and not self._words(number + 1)
        ]
        """Lines that may end a simple table."""

    def take(self, number: int) -> int:
        """Add the block that begins on a line, if any, and return the line after it."""
        line = self.lines[number]
        if not line.words:
            return number + 1
        literal, self._literal = self._literal, None
        if literal is not None and line.indent > literal:
            return self._add(number, self._deeper(number, literal), "code")
        if EXPLICIT.match(line.words):
            return self._explicit(number)
        if self._is_item(number):
            return self._add(number, self._deeper(number, line.indent, or_items=True), "list")
        if line.words.startswith(">>> "):
            return self._add(number, self._stretch(number), "code")
        if SIMPLE.fullmatch(line.words):
            place = bisect_right(self._borders, number)
            stop = self._borders[place] + 1 if place < len(self._borders) else self._stretch(number)
            return self._add(number, stop, "paragraph")
        if title := title_at(self.lines, number):
            return self._title(number, *title)
        if is_rule(line) and len(line.words) >= _TRANSITION and not self._words(number + 1):
            return number + 1
        stop = self._stretch(number)
        if self.lines[stop - 1].words.endswith("::"):
            self._literal = line.indent
        return stop if line.words == "::" else self._add(number, stop, "paragraph")

    def _words(self, number: int) -> str:
        return self.lines[number].words if number < len(self.lines) else ""

    def _is_item(self, number: int) -> bool:
        """Return True if a list begins on a line. An enumerator counts only if the next line continues the list."""
        line = self.lines[number]
        if BULLET.match(line.words):
            return True
        if not ENUMERATOR.match(line.words):
            return False
        following = self._words(number + 1)
        return not following or self.lines[number + 1].indent > line.indent or bool(ENUMERATOR.match(following))

    def _title(self, number: int, words: str, stop: int, style: str) -> int:
        if style not in self._styles:
            self._styles.append(style)
        level = min(_LEVELS, self._styles.index(style) + 1)
        row = self.lines[number + (len(style) - 1)]
        self.blocks.append(Block(row.end - len(row.words), row.end, "heading", level, self._anchor))
        self.titles.append(words)
        self._anchor = ""
        return stop

    def _explicit(self, number: int) -> int:
        """Take a directive, a target, or a comment."""
        words, indent = self.lines[number].words, self.lines[number].indent
        if target := TARGET.match(words):
            if not target[2]:
                self._anchor = anchor_of(target[1])
            return number + 1
        directive = DIRECTIVE.match(words)
        if directive is None:
            stop = max(number + 1, self._deeper(number + 1, indent))
            named = words[2:].lstrip()[:1] in ("[", "|")  # footnotes, citations and substitutions have text
            return self._add(number, stop, "paragraph") if named else stop
        kind = _CONTENT.get(directive[1].lower().rpartition(":")[2])
        if kind is None:  # its content has blocks of its own
            return self._add(number, self._stretch(number), "paragraph")
        return self._add(number, self._deeper(number + 1, indent), kind)

    def _deeper(self, number: int, indent: int, *, or_items: bool = False) -> int:
        """Return the line after the stretch that is indented deeper, or begins items of a list with this indentation;
        blank lines at its end do not belong to it."""
        stop = number
        while number < len(self.lines):
            line = self.lines[number]
            item = or_items and line.indent == indent and self._is_item(number)
            if line.words and line.indent <= indent and not item:
                break
            number += 1
            stop = number if line.words else stop
        return stop

    def _stretch(self, number: int) -> int:
        """Return the line after the lines up to a blank one."""
        while number < len(self.lines) and self.lines[number].words:
            number += 1
        return number

    def _add(self, number: int, stop: int, kind: Kind) -> int:
        """Add the lines as a block and return the line after them."""
        stop = max(stop, number + 1)
        first = self.lines[number]
        self.blocks.append(Block(first.start, self.lines[stop - 1].end, kind))
        self._anchor = ""
        return stop


def scan(text: str, start: int = 0) -> RstBlocks:
    """Return the blocks of a text."""
    scanned = RstBlocks(lines_of(text, start))
    number = 0
    while number < len(scanned.lines):
        number = scanned.take(number)
    return scanned
