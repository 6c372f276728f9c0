"""Blocks of a text with the headings above each, and the places within a block where it may be cut.

Lines that are listed titles of sections act as headings.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

from retrieve_cli.contracts import Json, Record
from retrieve_cli.contracts.layout import Block, Kind, Layout
from retrieve_cli.frozen import Frozen, replace

_FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})")
_ITEM = re.compile(r"([ \t]*)(?:[-*+•]|\d{1,9}[.)])(?=[ \t\r\n]|$)")
_TITLE = 200
"""Maximum characters of a heading in a section path."""
_TITLED = 7
"""Level of lines that act as headings: below all headings with marks."""


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
    alone: bool = False
    """True if that page is a slide or a form."""


def text_blocks(text: str, layout: Layout, *, start: int = 0, titles: Titles | None = None) -> list[TextBlock]:
    """Return the contiguous blocks of `text[start:]`, with the headings above each; lines of paragraphs that are one of
    `titles` act as headings."""
    begun: list[TextBlock] = []
    above: list[tuple[int, str]] = []
    for block in _with_titles(text, layout.blocks, titles) if titles else layout.blocks:
        if block.kind == "heading":
            name = block.title or title(text[block.start : block.end])
            above = [heading for heading in above if heading[0] < block.level]
            above.append((block.level, name))
        path = tuple(name for _, name in above if name)
        page = layout.page_of(block.start)
        number, alone = (page.index, page.alone) if page is not None else (0, False)
        begun.append(TextBlock(block.start, block.end, block.kind, path, page=number, alone=alone))
    if text[start : begun[0].start if begun else len(text)].strip():
        begun.insert(0, TextBlock(start, start, "paragraph"))
    ends = [*(block.start for block in begun), len(text)][1:]
    return [replace(block, end=end) for block, end in zip(begun, ends, strict=True)]


def _with_titles(text: str, blocks: Iterable[Block], titles: Titles) -> Iterator[Block]:
    """Yield the blocks, with paragraphs cut at the lines that are titles."""
    for block in blocks:
        if block.kind != "paragraph":
            yield block
            continue
        start = block.start
        for line in line_starts(text, block.start, block.end):
            end = text.find("\n", line, block.end)
            end = block.end if end < 0 else end
            if (name := titles.name(text[line:end])) is None:
                continue
            if text[start:line].strip():
                yield Block(start, line, "paragraph")
            yield Block(line, end, "heading", _TITLED, title=name)
            start = min(end + 1, block.end)
        if text[start : block.end].strip():
            yield Block(start, block.end, "paragraph")


def title(heading: str) -> str:
    """Return a heading on one line, without marks in front of it, shortened."""
    words = " ".join(heading[: 4 * _TITLE].split()).lstrip("# ")
    return words if len(words) <= _TITLE else words[: _TITLE - 1] + "…"


def item_starts(text: str, start: int, end: int) -> list[int]:
    """Return the starts of the outermost items of the list `text[start:end]`."""
    items = [(item, indent) for item, indent in _outside_fences(text, start, end) if indent >= 0]
    outermost = items[0][1] if items else 0
    return [item for item, indent in items if indent <= outermost]


def inner_starts(text: str, start: int, end: int) -> list[int]:
    """Return the starts of nested items, paragraphs and code fences within a list item."""
    return [line for line, _ in _outside_fences(text, start, end)]


def line_starts(text: str, start: int, end: int) -> list[int]:
    """Return the starts of the lines of `text[start:end]`."""
    return [start, *(line for line in newlines(text, start, end) if line < end)]


def newlines(text: str, start: int, end: int) -> Iterator[int]:
    """Yield the position after each line feed."""
    position = text.find("\n", start, end)
    while position >= 0:
        yield position + 1
        position = text.find("\n", position + 1, end)


def _outside_fences(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the start of each line that begins a block, with its indentation if it is a list item, else -1."""
    fence = ""
    after_blank = False
    for line in line_starts(text, start, end):
        stop = text.find("\n", line, end)
        words = text[line : end if stop < 0 else stop]
        mark = _FENCE.match(words)
        if fence:
            closes = mark is not None and mark[1].startswith(fence) and words.strip() == mark[1]
            fence = "" if closes else fence
        elif mark is not None:
            fence = mark[1]
            yield line, -1
        elif (item := _ITEM.match(words)) is not None:
            yield line, len(item[1].expandtabs(4))
        elif after_blank and words.strip():
            yield line, -1
        after_blank = not words.strip()


_MOST = 1000
"""Maximum number of titles that a record may list."""
_LONGEST = 200
"""Maximum characters of a title."""
_KEY = "section_titles"
"""The key of a record's metadata that lists the titles of its sections."""

_NUMBER = re.compile(r"(?:\d{1,3}(?:\.\d{1,3}){0,5}|[ivx]{1,5})[.)]?\s{1,9}(?=\S)")


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


def _key(line: str) -> str:
    """Return the form that different spellings of a title share."""
    return " ".join(line.strip(" \t\r\n*_#").rstrip(":").strip(" \t*_").split()).casefold()
