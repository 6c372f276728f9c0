"""Text, blocks and anchors of pages, written in one pass over their elements."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import groupby
from typing import TYPE_CHECKING

from retrieve_cli.contracts.layout import Block, Kind
from retrieve_cli.sources.formats.html.tables import pipe_table
from retrieve_cli.sources.formats.html.text import BLOCKS, HEADINGS, TEXT, code, flat, one_line

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode

_LISTS = frozenset(("ul", "ol", "menu", "dir"))
_LONGEST_ANCHOR = 200
_INDENT, _DEEPEST_INDENT = "  ", 8
_MOST_NUMBER = 10**6
_MOST_TABLES = 8
"""Tables around a table from which on all lay out the page: each is examined as a whole."""


class HtmlText:
    """Writer of pages, one after another."""

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self._pieces: list[str] = []
        self._length = 0
        self._line: list[str | None] = []
        """Texts of the paragraph that is being read; None for a line break."""
        self._terms = 0
        """Length of the line up to the last term that waits for its definition."""
        self._anchor = ""
        """Anchor of the paragraph that is being read."""
        self._above = ""
        """Anchor behind the last text: of the last block, or else of the first other element."""
        self._numbers: list[int | None] = []
        """Number of the next item of each open list; None for a list without numbers."""
        self._markers: list[str] = []
        """Marker of the item of each open list, until it is written."""
        self._in_list = False
        """True if the last block is a list that may go on."""
        self._inside = Counter[str]()

    @property
    def text(self) -> str:
        return "".join(self._pieces)

    def write(self, root: LexborNode) -> None:
        """Write an element.

        Raises:
            RecursionError: its elements are nested too deeply.
        """
        self._inner(root)
        self._flush(terms=True)

    def _put(self, piece: str) -> None:
        self._pieces.append(piece)
        self._length += len(piece)

    def _add(self, text: str, kind: Kind, *, level: int = 0, anchor: str = "") -> None:
        self._put(("\n\n" if self.blocks else "") + text)
        self.blocks.append(Block(self._length - len(text), self._length, kind, level, anchor))

    def _inner(self, node: LexborNode) -> None:
        """Write the children of an element."""
        for child in node.iter(include_text=True):
            name = child.tag or ""
            if name == TEXT:
                text = child.text_content or ""
                if not text.isspace():
                    self._above = ""
                elif len(self._line) == self._terms:
                    continue  # between a term and its definition, or before all text
                self._line.append(text)
            elif not name.startswith("-") and not self._whole(child, name):
                anchor = _anchor(child, name)
                if anchor and (name in BLOCKS or not self._above):
                    self._above = anchor
                if name in BLOCKS:
                    with self._block(child, name):
                        self._inner(child)
                else:
                    self._inner(child)

    def _whole(self, node: LexborNode, name: str) -> bool:
        """Write an element that is a separate block; return False for any other element."""
        if name == "br":
            self._line.append(None)
        elif name in HEADINGS or (name in BLOCKS and node.attributes.get("role") == "heading"):
            self._heading(node, name)
        elif name in ("pre", "xmp", "listing"):
            self._separate(code(node), "code")
        elif name in ("caption", "figcaption"):
            self._separate(flat(node), "caption")
        elif name == "img":
            if self._inside["figure"]:  # images outside of figures are decoration as a rule
                self._separate(one_line(node.attributes.get("alt") or ""), "caption")
        elif name == "table" and self._inside["table"] < _MOST_TABLES and (table := pipe_table(node)):
            for caption in node.iter():
                if caption.tag == "caption":
                    self._separate(flat(caption), "caption")
            self._separate(table, "table")
        else:
            return False
        return True

    @contextmanager
    def _block(self, node: LexborNode, name: str) -> Iterator[None]:
        """Begin a block, and end it after its children."""
        self._flush(terms=name in _LISTS)
        opens = name in _LISTS or (name == "li" and not self._numbers)
        if opens:
            is_ordered = name == "ol"
            start = _number(node.attributes.get("start"), 1)
            self._numbers.append(start if is_ordered else None)
            self._markers.append("")
        if name == "li":
            self._item(node)
        elif name == "dt":
            self._anchor = self._anchor or next(iter(_anchors(node)), "")
        self._inside[name] += 1
        yield
        if name == "dt" and self._line:
            self._line.append(None)
            self._terms = len(self._line)
        else:
            self._flush(terms=name in ("dl", "dd"))
        self._inside[name] -= 1
        if opens:
            self._numbers.pop()
            self._markers.pop()
            self._in_list = self._in_list and bool(self._numbers)

    def _item(self, node: LexborNode) -> None:
        """Begin an item, which may set its number."""
        number = self._numbers[-1]
        if number is None:
            self._markers[-1] = "- "
        else:
            number = _number(node.attributes.get("value"), number)
            self._markers[-1], self._numbers[-1] = f"{number}. ", number + 1

    def _heading(self, node: LexborNode, name: str) -> None:
        """Write a heading with its id, or else one inside of it, or the last one above it."""
        words = flat(node)
        level = min(6, max(1, _number(node.attributes.get("aria-level"), 2)))
        anchor = next(iter(_anchors(node)), self._above)
        self._separate(words, "heading", level=HEADINGS.get(name, level), anchor=anchor)
        self._above = "" if words else anchor

    def _separate(self, text: str, kind: Kind, *, level: int = 0, anchor: str = "") -> None:
        """Write a block that is not a paragraph of flowing text."""
        self._flush(terms=bool(text))
        if text:
            self._above = ""
            self._in_list = False
            self._add(text, kind, level=level, anchor=anchor)

    def _flush(self, *, terms: bool = False) -> None:
        """Write the paragraph that was read so far, unless it is only terms; an empty line divides
        it."""
        if len(self._line) == self._terms and not terms:
            return
        lines: list[list[str]] = [[]]
        for piece in self._line:
            if piece is None:
                lines.append([])
            else:
                lines[-1].append(piece)
        self._line.clear()
        self._terms = 0
        for is_filled, group in groupby((one_line("".join(line)) for line in lines), key=bool):
            if is_filled:
                self._paragraph("\n".join(group))

    def _paragraph(self, text: str) -> None:
        anchor, self._anchor = self._anchor, ""
        kind: Kind = "quote" if self._inside["blockquote"] else "paragraph"
        marker = self._markers[-1] if self._markers else ""
        self._markers = [""] * len(self._markers)  # an item that begins with a list has no line
        self._in_list = self._in_list and bool(self._numbers)
        if not marker and not self._in_list:
            self._add(text, kind, anchor=anchor)
            return
        indent = _INDENT * min(len(self._numbers) - 1, _DEEPEST_INDENT)
        line = indent + (marker or _INDENT) + text.replace("\n", f"\n{indent}{_INDENT}")
        if self._in_list:
            self._put("\n" + line)
            self.blocks[-1] = self.blocks[-1]._replace(end=self._length)
        else:
            self._add(line, "list", anchor=anchor)
        self._in_list = True


def _anchor(node: LexborNode, name: str) -> str:
    """Return the id of an element, or the name of an `<a>`; empty if a link could not use it."""
    anchor = node.id or (node.attributes.get("name") if name == "a" else "") or ""
    return anchor if len(anchor) <= _LONGEST_ANCHOR and anchor.split() == [anchor] else ""


def _anchors(node: LexborNode) -> list[str]:
    """Return the anchors of an element and of those inside of it."""
    nodes = (node, *node.css("[id], a[name]"))
    return [anchor for part in nodes if (anchor := _anchor(part, part.tag or ""))]


def _number(value: str | None, otherwise: int) -> int:
    is_number = value is not None and value.isascii() and value.isdecimal() and len(value) < 8
    return min(int(value), _MOST_NUMBER) if value and is_number else otherwise
