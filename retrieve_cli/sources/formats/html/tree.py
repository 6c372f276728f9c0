"""The visible elements and texts of a page as flat lists in the order of the page, so that nothing recurses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set as AbstractSet
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode

VOID = frozenset("area base br col embed hr img input link meta param source track wbr keygen frame basefont".split())
"""Elements without content."""
RAW_TEXT = frozenset("script style textarea title xmp iframe noembed noframes".split())
"""Elements whose content has no tags."""
FORMATTING = frozenset("a b big code em font i nobr s small strike strong tt u".split())
"""Elements that a parser opens again in the next block if they were not closed ("active formatting elements")."""
HEADINGS = {f"h{level}": level for level in range(1, 7)}
BLOCKS = frozenset(
    "address article aside blockquote body caption center dd details dialog dir div dl dt fieldset figcaption figure "
    "footer form frameset h1 h2 h3 h4 h5 h6 header hgroup hr legend li listing main menu nav ol optgroup option p pre "
    "search section summary table tbody td tfoot th thead tr ul xmp".split()
)
"""Elements that begin and end a block of text."""
LISTS = frozenset(("ul", "ol", "menu", "dir"))
CODE = frozenset(("pre", "xmp", "listing"))
TABLE_PARTS = frozenset(("thead", "tbody", "tfoot"))
SKIPPED = frozenset(
    "script style template noscript svg iframe object embed applet audio video canvas map head title noframes noembed "
    "button input select textarea datalist progress meter dialog annotation annotation-xml".split()
)
"""Elements without text for readers: code, media, and controls."""


TEXT = "-text"
"""Name of the nodes that are text."""
_NONE: Mapping[str, str | None] = {}
_HIDDEN_STYLES = ("display:none", "visibility:hidden")


class Tree:
    """Nodes in the order of their start tags: the descendants of node `i` are those from `i + 1` to `ends[i] - 1`."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.parents: list[int] = []
        self.ends: list[int] = []
        self.texts: list[str] = []
        self.attributes: list[Mapping[str, str | None]] = []
        self.scripts = 0

    def __len__(self) -> int:
        return len(self.names)

    def add(self, name: str, parent: int, attributes: Mapping[str, str | None], text: str = "") -> int:
        """Add a node behind all others and return its place."""
        place = len(self.names)
        self.names.append(name)
        self.parents.append(parent)
        self.ends.append(place + 1)
        self.texts.append(text)
        self.attributes.append(attributes)
        return place

    def value(self, place: int, name: str) -> str:
        """Return an attribute without white space around it; empty if it has none."""
        return (self.attributes[place].get(name) or "").strip()

    def inside(self, place: int, names: frozenset[str]) -> Iterator[int]:
        """Yield the descendants with one of the names, without the descendants of those."""
        node = place + 1
        while node < self.ends[place]:
            if self.names[node] in names:
                yield node
                node = self.ends[node]
            else:
                node += 1


def read(root: LexborNode) -> Tree:
    """Return the visible nodes of an element."""
    tree = Tree()
    inner = [tree.add(root.tag or "", -1, root.attributes)]
    node = root.first_child
    while node is not None:
        place = _add(tree, node, inner[-1])
        child = node.first_child if place is not None else None
        if place is not None and child is not None:
            inner.append(place)
            node = child
            continue
        while node is not None and node.next is None:
            tree.ends[inner.pop()] = len(tree)
            node = node.parent if inner else None
        node = node and node.next
    for place in inner:
        tree.ends[place] = len(tree)
    return tree


def _add(tree: Tree, node: LexborNode, parent: int) -> int | None:
    """Add a node if it is visible; return its place if it may have visible children."""
    name = node.tag or ""
    if name == TEXT:
        tree.add(TEXT, parent, _NONE, node.text_content or "")
        return None
    if name in SKIPPED or name.startswith("-"):
        tree.scripts += name == "script"
        return None
    attributes = node.attributes
    if attributes and _hidden(attributes):
        return None
    if name == "math":
        tree.add(TEXT, parent, _NONE, _formula(node))
        return None
    return tree.add(name, parent, attributes)


def _hidden(attributes: Mapping[str, str | None]) -> bool:
    """Return True if an element is not displayed."""
    if "hidden" in attributes:
        return attributes["hidden"] != "until-found"
    if attributes.get("aria-hidden") == "true":
        return True
    style = attributes.get("style")
    return style is not None and any(hidden in "".join(style.lower().split()) for hidden in _HIDDEN_STYLES)


def _formula(node: LexborNode) -> str:
    """Return a formula of MathML in the notation of its author, TeX as a rule."""
    written = node.attributes.get("alttext")
    if not written:
        source = node.css_first("annotation")
        for annotation in node.css("annotation"):
            annotation.decompose()
        written = (source.text() if source is not None else "") or node.text(separator=" ")
    return f" {written} "


def flat(tree: Tree, start: int, end: int, *, skipped: AbstractSet[int] = frozenset()) -> str:
    """Return the text of the nodes from `start` to `end` as one line, without the skipped ones."""
    pieces: list[str] = []
    closing: list[int] = []
    node = start
    while node < end:
        while closing and closing[-1] <= node:
            closing.pop()
            pieces.append(" ")
        name = tree.names[node]
        if node in skipped:
            node = tree.ends[node]
            continue
        if name == TEXT:
            pieces.append(tree.texts[node])
        elif name in BLOCKS or name == "br":
            pieces.append(" ")
            closing.append(tree.ends[node])
        node += 1
    return one_line("".join(pieces))


_INVISIBLE = {ord(char): None for char in "\u00ad\u200b\ufeff\u2060"}
"""Marks of possible line breaks, which divide words."""


def one_line(text: str) -> str:
    """Return a text with single spaces, and without invisible marks inside of words."""
    return " ".join((text if text.isascii() else text.translate(_INVISIBLE)).split())
