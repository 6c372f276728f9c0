"""Text, blocks and anchors of a page, written in one pass over its visible nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set as AbstractSet
from itertools import groupby

from retrieve_cli.contracts.layout import Kind
from retrieve_cli.sources.formats.html import tables
from retrieve_cli.sources.formats.html.tree import BLOCKS, CODE, HEADINGS, LISTS, TEXT, Tree, flat, one_line
from retrieve_cli.sources.formats.markdown import BlockText

_LONGEST = 200


def own_anchor(tree: Tree, node: int) -> str:
    """Return the id of an element, or the name of an `<a>`; empty if it has none that a link could use."""
    name = tree.value(node, "id") or (tree.value(node, "name") if tree.names[node] == "a" else "")
    usable = 0 < len(name) <= _LONGEST and name.isprintable() and not any(char.isspace() for char in name)
    return name if usable else ""


def permalinks(tree: Tree, heading: int) -> dict[int, str]:
    """Return the links of a heading to itself that are marks, such as `¶`, with their targets.

    A link to a place of the same page is a mark if it has no letters or digits, or if it repeats the words of its
    `title` or label beside the words of the heading.
    """
    marks = {}
    for link in tree.inside(heading, frozenset(("a",))):
        target = tree.value(link, "href")
        if not target.startswith("#"):
            continue
        words = flat(tree, link, tree.ends[link])
        labels = (tree.value(link, "title"), tree.value(link, "aria-label"))
        if not any(char.isalnum() for char in words) or words in labels:
            marks[link] = target[1:]
    return marks


def heading_anchor(tree: Tree, heading: int, marks: dict[int, str], *, above: Sequence[str]) -> str:
    """Return the anchor of a heading: its own id, else the one its own link names, else one inside of it, else the
    last one `above` it behind all other text."""
    if own := own_anchor(tree, heading):
        return own
    inner = [
        anchor
        for node in range(heading + 1, tree.ends[heading])
        if tree.names[node] != TEXT and tree.attributes[node] and (anchor := own_anchor(tree, node))
    ]
    near: AbstractSet[str] = {*inner, *above}
    named = next((target for target in marks.values() if target in near), "")
    return named or next(iter(inner), "") or (above[-1] if above else "")


_INDENT = "  "
_DEEPEST_INDENT = 8
_MOST_NUMBER = 10**6


class _List:
    """An open list; `marker` is written before the next paragraph, once."""

    def __init__(self, tree: Tree, node: int) -> None:
        self._ordered = tree.names[node] == "ol"
        self._next = _number(tree.value(node, "start"), 1)
        self._step = -1 if "reversed" in tree.attributes[node] and tree.value(node, "start") else 1
        self.marker = ""

    def begin(self, value: str) -> None:
        """Begin an item, which may set its number."""
        if self._ordered:
            number = _number(value, self._next)
            self.marker = f"{number}. "
            self._next = number + self._step
        else:
            self.marker = "- "


def _number(value: str, otherwise: int) -> int:
    if not (value.isascii() and value.isdecimal() and len(value) < 8):
        return otherwise
    return min(int(value), _MOST_NUMBER)


class HtmlText(BlockText):
    """Writer of the nodes of a page, without the skipped ones."""

    def __init__(self, tree: Tree, skipped: AbstractSet[int]) -> None:
        super().__init__()
        self._tree = tree
        self._skipped = skipped
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
        self._figures = 0
        self._closing: list[tuple[int, Callable[[], None]]] = []
        """Ends of the open blocks, with the action there."""

    def write(self, root: int) -> None:
        """Write an element with all its descendants."""
        names, ends = self._tree.names, self._tree.ends
        node = root
        while node < ends[root]:
            while self._closing and self._closing[-1][0] <= node:
                self._closing.pop()[1]()
            if node in self._skipped:
                node = ends[node]
            elif names[node] == TEXT:
                text = self._tree.texts[node]
                self._line.append(text)
                if self._above and not text.isspace():
                    self._above.clear()
                node += 1
            elif self._whole(node, names[node]):
                node = ends[node]
            else:
                self._open(node, names[node])
                node += 1
        while self._closing:
            self._closing.pop()[1]()
        self._flush()
        self._flush_terms()

    def _whole(self, node: int, name: str) -> bool:
        """Write an element that is a separate block, with its descendants; return False for any other."""
        if name in HEADINGS or self._tree.value(node, "role") == "heading":
            self._heading(node, name)
        elif name in CODE:
            self._code(node)
        elif name in ("caption", "figcaption"):
            self._block(flat(self._tree, node, self._tree.ends[node], skipped=self._skipped), "caption")
        elif name == "dt":
            self._term(node)
        elif name == "img":
            words = one_line(self._tree.value(node, "alt"))
            if self._figures and words:  # images outside of figures are decoration as a rule
                self._block(words, "caption")
        elif name == "table" and tables.is_data(self._tree, node):
            for caption in self._tree.inside(node, frozenset(("caption",))):
                self._whole(caption, "caption")
            self._block(tables.pipe_table(self._tree, node, skipped=self._skipped), "table")
        else:
            return False
        return True

    def _open(self, node: int, name: str) -> None:
        """Begin an element whose descendants are written one by one."""
        if name == "br":
            self._line.append(None)
        elif name == "sup" and self._is_note(node):
            self._line.append("[")
            self._closing.append((self._tree.ends[node], lambda: self._line.append("]")))
        elif name in BLOCKS:
            self._flush()
            self._closing.append((self._tree.ends[node], self._begin(node, name)))
        if anchor := own_anchor(self._tree, node) if self._tree.attributes[node] else "":
            self._above.append(anchor)

    def _begin(self, node: int, name: str) -> Callable[[], None]:
        """Begin a block and return the action at its end."""
        if name in LISTS:
            self._flush_terms()
            self._lists.append(_List(self._tree, node))
            return self._end_list
        if name == "li":
            if not self._lists:
                self._lists.append(_List(self._tree, node))
                self._lists[-1].begin("")
                return self._end_list
            self._lists[-1].begin(self._tree.value(node, "value"))
        elif name == "figure":
            self._figures += 1
            return self._end_figure
        elif name in ("dl", "dd"):
            return self._end_definition
        return self._flush

    def _end_list(self) -> None:
        self._flush()
        self._lists.pop()
        if not self._lists:
            self._in_list = False

    def _end_figure(self) -> None:
        self._flush()
        self._figures -= 1

    def _end_definition(self) -> None:
        self._flush()
        self._flush_terms()

    def _heading(self, node: int, name: str) -> None:
        marks = permalinks(self._tree, node)
        words = flat(self._tree, node, self._tree.ends[node], skipped=self._skipped | marks.keys())
        if not words:
            self._above += filter(None, (own_anchor(self._tree, node),))
            return
        level = HEADINGS.get(name) or min(6, max(1, _number(self._tree.value(node, "aria-level"), 2)))
        anchor = heading_anchor(self._tree, node, marks, above=self._above)
        self._block(words, "heading", level=level, anchor=anchor)

    def _code(self, node: int) -> None:
        if tables.is_line_numbers(self._tree, node):
            return
        names, texts = self._tree.names, self._tree.texts
        pieces = ["\n" if names[inner] == "br" else texts[inner] for inner in range(node, self._tree.ends[node])]
        lines = "".join(pieces).replace("\r\n", "\n").replace("\r", "\n").split("\n")
        self._block("\n".join(line.rstrip() for line in lines).strip("\n"), "code")

    def _term(self, node: int) -> None:
        self._flush()
        marks = permalinks(self._tree, node)
        words = flat(self._tree, node, self._tree.ends[node], skipped=self._skipped | marks.keys())
        if words:
            self._term_anchor = self._term_anchor or heading_anchor(self._tree, node, marks, above=())
            self._above.clear()
            self._terms.append(words)

    def _is_note(self, node: int) -> bool:
        """Return True if a superscript is a link to a footnote, whose number would run into the word before it."""
        words = flat(self._tree, node, self._tree.ends[node], skipped=self._skipped)
        links = self._tree.inside(node, frozenset(("a",)))
        return words.isalnum() and any(self._tree.value(link, "href").startswith("#") for link in links)

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
        if not self._lists:
            self._in_list = False
            self.add(text, "paragraph", anchor=anchor)
            return
        if not self._in_list:
            self._outermost = len(self._lists)
        indent = _INDENT * min(max(0, len(self._lists) - self._outermost), _DEEPEST_INDENT)
        marker, self._lists[-1].marker = self._lists[-1].marker, ""
        for outer in self._lists[:-1]:
            outer.marker = ""  # an item that begins with a list has no line of its own
        if not marker and not self._in_list:
            self.add(text, "paragraph", anchor=anchor)
            return
        line = indent + (marker or _INDENT) + text.replace("\n", f"\n{indent}{_INDENT}")
        if self._in_list:
            self.extend(line)
        else:
            self.add(line, "list", anchor=anchor)
        self._in_list = True
