"""Text, blocks and anchors of a page, written in one pass over its visible nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Set as AbstractSet
from functools import partial
from itertools import groupby

from retrieve_cli.contracts.layout import Block, Dropped, Kind
from retrieve_cli.sources.formats.html import tables
from retrieve_cli.sources.formats.html.tree import (
    BLOCKS,
    CODE,
    HEADINGS,
    LISTS,
    TEXT,
    Tree,
    code_lines,
    flat,
    one_line,
)

_LONGEST = 200
_INDENT, _DEEPEST_INDENT = "  ", 8
_MOST_NUMBER = 10**6
_LINKS = frozenset(("a",))


def _anchor(tree: Tree, node: int) -> str:
    """Return the id of an element, or the name of an `<a>`; empty if a link could not use it."""
    named = tree.value(node, "name") if tree.names[node] == "a" else ""
    name = tree.value(node, "id") or named
    return name if len(name) <= _LONGEST and name.isprintable() and name.split() == [name] else ""


def _permalinks(tree: Tree, heading: int) -> dict[int, str]:
    """Return the links of a heading to itself that are marks, such as `¶`, with their targets."""
    marks = {}
    for link in tree.inside(heading, _LINKS):
        target = tree.value(link, "href")
        words = flat(tree, link)
        labels = (tree.value(link, "title"), tree.value(link, "aria-label"))
        if target[:1] == "#" and (not any(map(str.isalnum, words)) or words in labels):
            marks[link] = target[1:]
    return marks


class _List:
    """An open list; `marker` is written before the next paragraph, once."""

    def __init__(self, tree: Tree, node: int) -> None:
        self._ordered = tree.names[node] == "ol"
        start = tree.value(node, "start")
        self._next = _number(start, 1)
        self._step = -1 if "reversed" in tree.attributes[node] and start else 1
        self.marker = ""

    def begin(self, value: str) -> None:
        """Begin an item, which may set its number."""
        self.marker = "- "
        if self._ordered:
            number = _number(value, self._next)
            self.marker = f"{number}. "
            self._next = number + self._step


def _number(value: str, otherwise: int) -> int:
    is_number = value.isascii() and value.isdecimal() and len(value) < 8
    return min(int(value), _MOST_NUMBER) if is_number else otherwise


class HtmlText:
    """Writer of pages, one after another, without the skipped nodes."""

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self.dropped: list[Dropped] = []
        self._pieces: list[str] = []
        self._length = 0
        self._tree = Tree()
        self._skipped: AbstractSet[int] = frozenset()
        self._line: list[str | None] = []
        """Texts of the paragraph that is being read; None for a line break."""
        self._above: list[str] = []
        """Anchors behind the last text."""
        self._terms: list[str] = []
        self._term_anchor = ""
        self._lists: list[_List] = []
        self._in_list = False
        """True if the last block is a list that may go on."""
        self._outermost = 0
        """Depth of the list with which the last block began."""
        self._inside = Counter[str]()
        self._closing: list[tuple[int, Callable[[], None]]] = []
        """Ends of the open blocks, with the action there."""

    @property
    def text(self) -> str:
        return "".join(self._pieces)

    def add(self, text: str, kind: Kind, *, level: int = 0, anchor: str = "") -> None:
        """Add a block."""
        self._put(("\n\n" if self.blocks else "") + text)
        self.blocks.append(Block(self._length - len(text), self._length, kind, level, anchor))

    def _put(self, piece: str) -> None:
        self._pieces.append(piece)
        self._length += len(piece)

    def write(self, tree: Tree, root: int, skipped: AbstractSet[int]) -> None:
        """Write an element with all its descendants."""
        self._tree, self._skipped = tree, skipped
        self.dropped += tree.dropped
        names, ends = tree.names, tree.ends
        node = root
        while node < ends[root]:
            while self._closing and self._closing[-1][0] <= node:
                self._closing.pop()[1]()
            if node in skipped:
                node = ends[node]
            elif names[node] == TEXT:
                self._line.append(tree.texts[node])
                if self._above and not tree.texts[node].isspace():
                    self._above.clear()
                node += 1
            elif self._whole(node, names[node]):
                node = ends[node]
            else:
                self._open(node, names[node])
                node += 1
        while self._closing:
            self._closing.pop()[1]()
        self._end_definition()

    def _flat(self, node: int, marks: AbstractSet[int] = frozenset()) -> str:
        return flat(self._tree, node, skipped=self._skipped | marks if marks else self._skipped)

    def _whole(self, node: int, name: str) -> bool:
        """Write an element that is a separate block; return False for any other element."""
        if name in HEADINGS or self._tree.value(node, "role") == "heading":
            self._heading(node, name)
        elif name in CODE:
            self._code(node)
        elif name in ("caption", "figcaption"):
            self._block(self._flat(node), "caption")
        elif name == "dt":
            self._term(node)
        elif name == "img":
            words = one_line(self._tree.value(node, "alt"))
            if self._inside["figure"] and words:  # images outside of figures are decoration as a rule
                self._block(words, "caption")
        elif name == "table" and tables.is_data(self._tree, node):
            for caption in self._tree.inside(node, frozenset(("caption",))):
                self._block(self._flat(caption), "caption")
            self._block(tables.pipe_table(self._tree, node, skipped=self._skipped), "table")
        else:
            return False
        return True

    def _open(self, node: int, name: str) -> None:
        """Begin an element whose descendants are written one by one."""
        if name == "br":
            self._line.append(None)
        elif name in BLOCKS:
            self._flush()
            self._closing.append((self._tree.ends[node], self._begin(node, name)))
        if self._tree.attributes[node] and (anchor := _anchor(self._tree, node)):
            self._above.append(anchor)

    def _begin(self, node: int, name: str) -> Callable[[], None]:
        """Begin a block and return the action at its end."""
        if name in LISTS or (name == "li" and not self._lists):
            self._flush_terms()
            self._lists.append(_List(self._tree, node))
            if name == "li":
                self._lists[-1].begin("")
            return self._end_list
        if name == "li":
            self._lists[-1].begin(self._tree.value(node, "value"))
        elif name in ("figure", "blockquote"):
            self._inside[name] += 1
            return partial(self._leave, name)
        elif name in ("dl", "dd"):
            return self._end_definition
        return self._flush

    def _end_list(self) -> None:
        self._flush()
        self._lists.pop()
        self._in_list = self._in_list and bool(self._lists)

    def _leave(self, name: str) -> None:
        self._flush()
        self._inside[name] -= 1

    def _end_definition(self) -> None:
        self._flush()
        self._flush_terms()

    def _heading(self, node: int, name: str) -> None:
        marks = _permalinks(self._tree, node)
        words = self._flat(node, marks.keys())
        if not words:
            self._above += filter(None, (_anchor(self._tree, node),))
            return
        level = min(6, max(1, _number(self._tree.value(node, "aria-level"), 2)))
        anchor = self._heading_anchor(node, marks)
        self._block(words, "heading", level=HEADINGS.get(name, level), anchor=anchor)

    def _heading_anchor(self, node: int, marks: dict[int, str]) -> str:
        """Return the id of a heading, else the one that its own link names, else one inside of it,
        else the last one above it behind all other text."""
        nodes = range(node, self._tree.ends[node])
        inner = [_anchor(self._tree, part) for part in nodes if self._tree.attributes[part]]
        inner = [anchor for anchor in inner if anchor]
        if own := _anchor(self._tree, node):
            return own
        near = {*inner, *self._above}
        named = [target for target in marks.values() if target in near]
        return next(iter((*named, *inner, *self._above[-1:])), "")

    def _code(self, node: int) -> None:
        if tables.is_line_numbers(self._tree, node):
            return
        lines = code_lines(self._tree, node)
        self._block("\n".join(line.rstrip() for line in lines).strip("\n"), "code")

    def _term(self, node: int) -> None:
        self._flush()
        marks = _permalinks(self._tree, node)
        if words := self._flat(node, marks.keys()):
            self._above.clear()
            self._term_anchor = self._term_anchor or self._heading_anchor(node, marks)
            self._terms.append(words)

    def _block(self, text: str, kind: Kind, *, level: int = 0, anchor: str = "") -> None:
        """Write a block that is not a paragraph of flowing text."""
        self._flush()
        if text:
            self._flush_terms()
            self._above.clear()
            self._in_list = False
            self.add(text, kind, level=level, anchor=anchor)

    def _flush_terms(self) -> None:
        """Write terms whose definition is not a paragraph."""
        if self._terms:
            self._paragraph("")

    def _flush(self) -> None:
        """Write the paragraph that was read so far; an empty line divides it."""
        if not self._line:
            return
        lines = [""]
        pieces: list[str] = []
        for piece in (*self._line, None):
            if piece is not None:
                pieces.append(piece)
            else:
                lines.append(one_line("".join(pieces)))
                pieces.clear()
        self._line.clear()
        for filled, group in groupby(lines, key=bool):
            if filled:
                self._paragraph("\n".join(group))

    def _paragraph(self, text: str) -> None:
        """Write a paragraph, below the terms that it defines."""
        anchor, self._term_anchor = self._term_anchor, ""
        if self._terms:
            text = "\n".join((*self._terms, text) if text else self._terms)
            self._terms.clear()
        kind: Kind = "quote" if self._inside["blockquote"] else "paragraph"
        marker = ""
        if self._lists:
            self._outermost = self._outermost if self._in_list else len(self._lists)
            marker = self._lists[-1].marker
            for opened in self._lists:
                opened.marker = ""  # an item that begins with a list has no line of its own
        else:
            self._in_list = False
        if not marker and not self._in_list:
            self.add(text, kind, anchor=anchor)
            return
        indent = _INDENT * min(max(0, len(self._lists) - self._outermost), _DEEPEST_INDENT)
        line = indent + (marker or _INDENT) + text.replace("\n", f"\n{indent}{_INDENT}")
        if self._in_list:
            self._put("\n" + line)
            self.blocks[-1] = self.blocks[-1]._replace(end=self._length)
        else:
            self.add(line, "list", anchor=anchor)
        self._in_list = True
