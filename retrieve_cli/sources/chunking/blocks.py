"""Blocks of a Markdown or plain text, with exact character offsets and the headings above each.

Follows CommonMark 0.31 and the tables of GFM as far as they decide headings and block boundaries; inline markup, HTML
and shortcodes are treated as text.

Lines that act as headings because they are listed titles of sections, or are in bold and alone on their line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Literal

from retrieve_cli.contracts import Json, Record
from retrieve_cli.contracts.layout import Layout
from retrieve_cli.frozen import Frozen

Kind = Literal["heading", "paragraph", "list", "table", "code", "quote"]

_ATX = re.compile(r" {0,3}(#{1,6})(?=[ \t\r\n]|$)")
_FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})")
_ITEM = re.compile(r"([ \t]*)(?:[-*+]|\d{1,9}[.)])(?=[ \t\r\n]|$)")
_QUOTE = re.compile(r" {0,3}>")
_ANCHOR = re.compile(r"\{[#.][^{}]*\}\s*$")
_LINK = re.compile(r"!?\[([^\[\]]*)\]\([^()]*\)")

_TITLE = 200
"""Maximum characters of a heading in a section path."""

_SETEXT_LINES = 3
"""Maximum lines of an underlined heading; more lines are a paragraph above a rule."""

_TITLED, _BOLD = 7, 8
"""Levels of lines that act as headings: below all headings with marks."""


class TextBlock(Frozen):
    """A unit of text that should stay together. The blocks of a text are contiguous, blank lines included."""

    start: int
    end: int
    kind: Kind
    path: tuple[str, ...] = ()
    """Headings from the outermost to the innermost; the path of a heading includes the heading."""
    part: tuple[str, ...] = ()
    """Labelled parts of the text that contain the block (Methods, Results); different parts never share a chunk."""
    page: int = 0
    """Page on which it begins, from 1; 0 if the text has no pages."""


def scan(text: str, start: int = 0, *, titles: Titles | None = None) -> list[TextBlock]:
    """Return the contiguous blocks of `text[start:]`, from the first that is not blank; `titles` act as headings."""
    lines = Lines(text, start, titles=titles)
    begun: list[tuple[int, Kind, tuple[str, ...]]] = []
    above: list[tuple[int, str]] = []
    number = 0
    while number < len(lines):
        if lines.blank(number):
            number += 1
            continue
        kind, stop, level = lines.block(number)
        if kind == "heading":
            above = [heading for heading in above if heading[0] < level]
            above.append((level, lines.title(number, stop)))
        begun.append((lines.start(number), kind, tuple(name for _, name in above if name)))
        number = stop
    ends = [*(begin for begin, _, _ in begun), len(text)][1:]
    return [TextBlock(begin, end, kind, path) for (begin, kind, path), end in zip(begun, ends, strict=True)]


def laid_out(text: str, layout: Layout, *, titles: Titles | None = None) -> list[TextBlock]:
    """Return the contiguous blocks of a text whose structure is known, with the headings above each; paragraphs that
    are one of `titles` act as headings."""
    begun: list[tuple[int, Kind, tuple[str, ...]]] = []
    above: list[tuple[int, str]] = []
    for block in layout.blocks:
        kind: Kind = "paragraph" if block.kind == "caption" else block.kind
        words, level = text[block.start : block.end], block.level
        if kind == "paragraph" and titles is not None and (name := titles.name(words)):
            kind, words, level = "heading", name, _TITLED
        if kind == "heading":
            above = [heading for heading in above if heading[0] < level]
            above.append((level, title(words)))
        begun.append((block.start, kind, tuple(name for _, name in above if name)))
    ends = [*(begin for begin, _, _ in begun), len(text)][1:]
    return [
        TextBlock(begin, end, kind, path, page=layout.page_at(begin))
        for (begin, kind, path), end in zip(begun, ends, strict=True)
    ]


def title(heading: str) -> str:
    """Return the words of a heading, without its marks, anchor and links."""
    lines = heading[: 4 * _TITLE].split("\n")
    if len(lines) > 1 and lines[-1].strip() == "":
        lines.pop()
    if len(lines) > 1 and _underline(lines[-1]):
        lines.pop()
    words = " ".join(lines).strip()
    if words.startswith("#"):
        words = words.lstrip("#").strip()
        words = re.sub(r"(?:^|\s)#+$", "", words)
    words = _LINK.sub(r"\1", _ANCHOR.sub("", words)).replace("**", "").replace("`", "")
    words = " ".join(words.split())
    return words if len(words) <= _TITLE else words[: _TITLE - 1] + "…"


def item_starts(text: str, start: int, end: int) -> list[int]:
    """Return the starts of the outermost items of the list `text[start:end]`."""
    items = [(item, indent) for item, indent in _outside_fences(text, start, end) if indent is not None]
    outermost = items[0][1] if items else 0
    return [item for item, indent in items if indent is not None and indent <= (outermost or 0)]


def inner_starts(text: str, start: int, end: int) -> list[int]:
    """Return the starts of nested items, paragraphs and code fences within a list item."""
    return [line for line, _ in _outside_fences(text, start, end)]


def line_starts(text: str, start: int, end: int) -> list[int]:
    lines = Lines(text, start, end)
    return [lines.start(number) for number in range(len(lines))]


def _outside_fences(text: str, start: int, end: int) -> Iterator[tuple[int, int | None]]:
    """Yield the start of each line that begins a block, with its indentation if it is a list item."""
    lines = Lines(text, start, end)
    number = 0
    after_blank = False
    while number < len(lines):
        item = lines.match(_ITEM, number)
        fence = lines.fence(number)
        if item or fence or (after_blank and not lines.blank(number)):
            yield lines.start(number), len(item[1].expandtabs(4)) if item else None
        after_blank = lines.blank(number)
        number = fence or number + 1


class Lines:
    """The lines of `text[start:end]`, with the block that begins on each of them."""

    def __init__(self, text: str, start: int = 0, end: int | None = None, *, titles: Titles | None = None) -> None:
        self._text = text
        self._titles = titles or None
        end = len(text) if end is None else end
        self._bounds = [start, *newlines(text, start, end)]
        if self._bounds[-1] < end or len(self._bounds) == 1:
            self._bounds.append(end)

    def __len__(self) -> int:
        return len(self._bounds) - 1

    def start(self, number: int) -> int:
        return self._bounds[number]

    def end(self, number: int) -> int:
        return self._bounds[number + 1]

    def line(self, number: int) -> str:
        return self._text[self._bounds[number] : self._bounds[number + 1]]

    def blank(self, number: int) -> bool:
        return not self.line(number).strip()

    def match(self, pattern: re.Pattern[str], number: int) -> re.Match[str] | None:
        return pattern.match(self._text, self._bounds[number], self._bounds[number + 1])

    def block(self, number: int) -> tuple[Kind, int, int]:
        """Return the kind of block that begins on this line, the line after it, and the level if it is a heading."""
        if self._titles is not None and self.titled(number):
            return "heading", number + 1, _TITLED
        atx = self.match(_ATX, number)
        if atx:
            return "heading", number + 1, len(atx[1])
        fence = self.fence(number)
        if fence:
            return "code", fence, 0
        if self.table(number):
            return "table", self._stretch(number + 2), 0
        if self.match(_QUOTE, number):
            while number < len(self) and self.match(_QUOTE, number):
                number = self._stretch(number + 1)
            return "quote", number, 0
        if self.match(_ITEM, number):
            return "list", self._list(number), 0
        return self._paragraph(number)

    def fence(self, number: int) -> int:
        """Return the line after the code fence that opens on this line; 0 if none does. An unclosed fence runs to the
        end."""
        opening = self.match(_FENCE, number)
        if not opening or (opening[1][0] == "`" and "`" in self._text[opening.end() : self.end(number)]):
            return 0
        for after in range(number + 1, len(self)):
            closing = self.match(_FENCE, after)
            if closing and closing[1].startswith(opening[1]) and self.line(after).strip() == closing[1]:
                return after + 1
        return len(self)

    def table(self, number: int) -> bool:
        """Return True if this line and its delimiter row start a table."""
        if number + 1 >= len(self):
            return False
        row, delimiter = self.line(number), self.line(number + 1).strip()
        return "|" in row and "|" in delimiter and "-" in delimiter and not delimiter.strip("|:- \t")

    def titled(self, number: int) -> str | None:
        """Return the known title on this line; None if the line has no known title or is marked as a heading."""
        if self._titles is None or self.match(_ATX, number):
            return None
        underlined = number + 1 < len(self) and _underline(self.line(number + 1))
        return None if underlined else self._titles.name(self.line(number))

    def title(self, number: int, stop: int) -> str:
        """Return the words of the heading on these lines."""
        line = self.line(number)
        marked = stop > number + 1 or self.match(_ATX, number)
        words = None if marked else self.titled(number) or bold_heading(line)
        return title(words or self._text[self.start(number) : self.end(stop - 1)])

    def _begins(self, number: int) -> bool:
        """Return True if a block begins here that may interrupt a paragraph."""
        return bool(
            self.match(_ATX, number)
            or self.match(_QUOTE, number)
            or self.match(_ITEM, number)
            or self.fence(number)
            or self.table(number)
            or (self._titles is not None and self.titled(number))
        )

    def _stretch(self, number: int) -> int:
        """Return the first line from `number` that is blank or begins a block."""
        while number < len(self) and not self.blank(number) and not self._begins(number):
            number += 1
        return number

    def _list(self, number: int) -> int:
        """Return the line after a list: its items, their indented content, and the blank lines between."""
        number += 1
        while number < len(self):
            indented = self._text[self.start(number)] in " \t"
            if self.blank(number):
                while number < len(self) and self.blank(number):
                    number += 1
                if number == len(self) or not (self._text[self.start(number)] in " \t" or self.match(_ITEM, number)):
                    return number
            elif self.fence(number) and indented:
                number = self.fence(number)
            elif self.match(_ITEM, number) or indented or not self._begins(number):
                number += 1
            else:
                return number
        return number

    def _paragraph(self, number: int) -> tuple[Kind, int, int]:
        stop = number + 1
        while stop < len(self) and not self.blank(stop):
            underline = _underline(self.line(stop))
            if underline and stop - number <= _SETEXT_LINES:
                return "heading", stop + 1, underline
            if self._begins(stop):
                break
            stop += 1
        if stop == number + 1 and bold_heading(self.line(number)):
            return "heading", stop, _BOLD
        return "paragraph", stop, 0


def newlines(text: str, start: int, end: int) -> Iterator[int]:
    """Yield the position after each line feed."""
    position = text.find("\n", start, end)
    while position >= 0:
        yield position + 1
        position = text.find("\n", position + 1, end)


def _underline(line: str) -> int:
    """Return the level of the heading that this line underlines: 1 for `==`, 2 for `--`, 0 for any other line."""
    rule = line.strip()
    if len(rule) < 2 or line[:4].isspace() or rule[0] not in "=-" or rule.strip(rule[0]):
        return 0
    return 1 if rule[0] == "=" else 2


_MOST = 1000
"""Maximum number of titles that a record may list."""
_LONGEST = 200
"""Maximum characters of a title."""
_KEY = "section_titles"
"""The key of a record's metadata that lists the titles of its sections."""

_NUMBER = re.compile(r"(?:\d{1,3}(?:\.\d{1,3}){0,5}|[ivx]{1,5})[.)]?\s{1,9}(?=\S)")
_BOLD_LINE = re.compile(r"[ ]{0,3}(\*\*|__)(?=[^\s*_])([^*\n]{1,200})(?<=[^\s*_])\1[ \t]*\r?\n?")
_CAPTION = re.compile(
    r"[ \t>]{0,9}[*_]{0,3}fig(?:ure|\.)?[ \t]{0,3}[a-z]?\d{1,4}(?:\.\d{1,3})?[a-z]?"
    r"[*_]{0,3}[ \t]{0,3}(?:[.:|)*_—–-]|$)",
    re.IGNORECASE | re.MULTILINE,
)
_NO_HEADING = ".,;:!?。，；：！？"
"""Marks that end a sentence or introduce the next text."""


class Titles:
    """Titles of sections; case, number, emphasis and colon of a line are ignored."""

    def __init__(self, titles: Iterable[str] = ()) -> None:
        self._names = {key: " ".join(title.split()) for title in titles if (key := _key(title))}

    def __bool__(self) -> bool:
        return bool(self._names)

    def name(self, line: str) -> str | None:
        """Return the title on a line, in its listed form; None if it is not a title."""
        if not self._names or len(line) > 2 * _LONGEST:
            return None
        key = _key(line)
        return self._names.get(key) or self._names.get(_NUMBER.sub("", key, count=1))


def titles_of(record: Record) -> tuple[str, ...]:
    """Return the section titles that a record's metadata lists."""
    listed: Json = record.metadata.get(_KEY)
    named = listed if isinstance(listed, list | tuple) else ()
    return tuple(title for title in named[:_MOST] if isinstance(title, str) and len(title) <= _LONGEST)


@lru_cache(maxsize=8)
def titles(*named: str) -> Titles:
    """Return the titles as one value, cached because records of one kind often list the same titles."""
    return Titles(named)


def bold_heading(line: str) -> str | None:
    """Return the words of a line that is bold throughout and neither a sentence nor a caption; None for other lines.

    Follows markdownlint's rule MD036 on emphasis used instead of a heading.
    """
    match = _BOLD_LINE.fullmatch(line)
    if match is None or match[2][-1] in _NO_HEADING or is_caption(line) or not any(map(str.isalpha, match[2])):
        return None
    return match[2]


def is_caption(text: str) -> bool:
    """Return True for a text that begins like the caption of a figure: `Figure 3. …`, `Fig. 2: …`."""
    return _CAPTION.match(text) is not None


def _key(line: str) -> str:
    """Return the form that different spellings of a title share."""
    return " ".join(line.strip(" \t\r\n*_#").rstrip(":").strip(" \t*_").split()).casefold()
