"""Lines of a reStructuredText file, with what begins on them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

MARKS = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
"""Characters of underlines."""
DIRECTIVE = re.compile(r"\.\.[ ]+(?:\|[^|]{1,200}\|[ ]+)?([A-Za-z][\w:.+-]*?)[ ]?::(?:[ \t]|$)")
TARGET = re.compile(r"\.\.[ ]+_(`[^`]{1,500}`|(?![ ])(?:\\.|[^:\\]|:(?! |$)){1,500}):[ \t]*(.*)")
EXPLICIT = re.compile(r"\.\.(?:[ \t]|$)")
BULLET = re.compile(r"[-*+\u2022\u2023\u2043](?:[ \t]|$)")
ENUMERATOR = re.compile(r"\(?(?:\d{1,9}|[A-Za-z]|#|[ivxlcdmIVXLCDM]{1,15})[.)](?:[ \t]|$)")
SIMPLE = re.compile(r"=+(?:[ \t]+=+)+[ \t]*")


class Line(NamedTuple):
    """A line without its end and the white space around it."""

    start: int
    end: int
    """Position after its last character that is not white space; `start` for a blank line."""
    indent: int
    words: str


def lines_of(text: str, start: int) -> list[Line]:
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
        lines.append(Line(position, position + len(line), width, words))
        position = stop + 1
    return lines


def is_rule(line: Line) -> bool:
    """Return True for a line of one repeated mark that is not indented."""
    words = line.words
    return bool(words) and not line.indent and words[0] in MARKS and not words.strip(words[0])


def title_at(lines: Sequence[Line], number: int) -> tuple[str, int, str] | None:
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
