"""Visible elements and texts of a page as flat lists in the order of the page: nothing recurses."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Set as AbstractSet
from typing import TYPE_CHECKING

from retrieve_cli.contracts.layout import Dropped
from retrieve_cli.errors import shortened

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser, LexborNode

HEADINGS = {f"h{level}": level for level in range(1, 7)}
BLOCKS = frozenset(
    "address article aside blockquote body caption center dd details dialog dir div dl dt fieldset"
    " figcaption figure footer form frameset h1 h2 h3 h4 h5 h6 header hgroup hr legend li listing"
    " main menu nav ol optgroup option p pre search section summary table tbody td tfoot th thead"
    " tr ul xmp".split()
)
"""Elements that begin and end a block of text."""
LISTS = frozenset(("ul", "ol", "menu", "dir"))
CODE = frozenset(("pre", "xmp", "listing"))
_NO_TEXT = frozenset(
    "script style template noscript svg iframe object embed applet audio video canvas map head title"
    " noframes noembed input annotation annotation-xml datalist progress meter".split()
)
"""Elements without text for readers: code, media and values."""
_CONTROLS = frozenset(("button", "select", "textarea"))
TEXT = "-text"
"""Name of the nodes that are text."""
_NONE: Mapping[str, str | None] = {}
_HIDDEN_STYLES = ("display:none", "visibility:hidden")
_PANEL = re.compile(r"accordion|collaps|tab-?(?:panel?|content|body)", re.IGNORECASE)
"""Classes of parts of a page that a reader opens: they are hidden until then."""
_MOST_DROPPED = 1000
_LONGEST_SCRIPT = 40
"""Characters of a superscript or subscript; a longer one is text in small type."""
_ORDINALS = frozenset("st nd rd th er re e ème o a º ª".split())


class Tree:
    """Nodes in the order of their start tags: descendants of node `i` are `i + 1` … `ends[i] - 1`."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.ends: list[int] = []
        self.texts: list[str] = []
        self.attributes: list[Mapping[str, str | None]] = []
        self.dropped: list[Dropped] = []

    def __len__(self) -> int:
        return len(self.names)

    def add(self, name: str, attributes: Mapping[str, str | None], text: str = "") -> int:
        """Add a node behind all others and return its index."""
        self.names.append(name)
        self.texts.append(text)
        self.attributes.append(attributes)
        self.ends.append(len(self.names))
        return len(self.names) - 1

    def value(self, node: int, name: str) -> str:
        """Return an attribute without white space around it; empty if the node has none."""
        return (self.attributes[node].get(name) or "").strip()

    def inside(self, node: int, names: AbstractSet[str]) -> Iterator[int]:
        """Yield the descendants with one of the names, without the descendants of those."""
        inner = node + 1
        while inner < self.ends[node]:
            if self.names[inner] in names:
                yield inner
                inner = self.ends[inner]
            else:
                inner += 1

    def drop(self, reason: str, text: str) -> None:
        """Count a text that is skipped; the first ones are kept to be shown."""
        if any(char.isalnum() for char in text) and len(self.dropped) < _MOST_DROPPED:
            self.dropped.append(Dropped(reason, shortened(text)))


def read(page: LexborHTMLParser, root: LexborNode) -> Tree:
    """Return the visible nodes of an element."""
    tree, panels = Tree(), _panels(page)
    inner = [tree.add(root.tag or "", root.attributes)]
    node = root.first_child
    while node is not None:
        place = _add(tree, node, panels)
        child = node.first_child if place else None
        if child is not None:
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


def _panels(page: LexborHTMLParser) -> frozenset[str]:
    """Return the ids of the elements that a tab or a button of the page opens."""
    names = ("aria-controls", "data-bs-target", "data-target")
    openers = page.css(", ".join(f"[{name}]" for name in names))
    values = (opener.attributes.get(name) for opener in openers for name in names)
    return frozenset(name for value in values if value for name in value.replace("#", " ").split())


def _add(tree: Tree, node: LexborNode, panels: AbstractSet[str]) -> int:
    """Add a node if it is visible; return its index if it may have visible children, else 0."""
    name = node.tag or ""
    if name == TEXT:
        tree.add(TEXT, _NONE, node.text_content or "")
        return 0
    if name in _NO_TEXT or name.startswith("-"):
        return 0
    attributes = node.attributes
    if name == "dialog" or (attributes and _is_hidden(attributes, panels)):
        tree.drop("hidden block", node.text())
    elif name in _CONTROLS and not (name == "button" and _is_title(node)):
        tree.drop("control", node.text())
    elif name == "math":
        tree.add(TEXT, _NONE, _formula(node))
    elif name in ("sup", "sub") and (words := one_line(node.text()))[_LONGEST_SCRIPT:] == "":
        before = tree.texts[-1][-1:] if tree.names[-1] == TEXT else ""
        tree.add(TEXT, _NONE, _script(name, words, before, is_note=_is_link(node)))
    else:
        return tree.add(name, attributes)
    return 0


def _is_hidden(attributes: Mapping[str, str | None], panels: AbstractSet[str]) -> bool:
    """Return True if an element is not displayed, and no tab, button or click displays it."""
    style = "".join((attributes.get("style") or "").lower().split())
    hidden = attributes.get("hidden", "until-found") != "until-found"
    hidden = hidden or attributes.get("aria-hidden") == "true"
    if not hidden and not any(value in style for value in _HIDDEN_STYLES):
        return False
    opens = attributes.get("role") == "tabpanel" or (attributes.get("id") or "") in panels
    return not (opens or _PANEL.search(attributes.get("class") or ""))


def _is_title(button: LexborNode) -> bool:
    """Return True for the title of a tab or of a part that opens."""
    parent = button.parent
    in_heading = parent is not None and (parent.tag in HEADINGS or parent.tag == "summary")
    return in_heading or button.attributes.get("role") == "tab"


def _is_link(node: LexborNode) -> bool:
    parent = node.parent
    return node.css_first("a[href]") is not None or (parent is not None and parent.tag == "a")


def _script(name: str, words: str, before: str, *, is_note: bool) -> str:
    """Return a superscript or subscript that does not run into the word before it.

    A mark of a note is `word [1]`, an exponent `10^3`, an index `V_max`; `1st` and `H2O` are words.
    """
    if before.isspace() or not before or not any(char.isalnum() for char in words):
        return words
    if is_note:
        return f" [{words.strip('[]() ')}]"
    if name == "sub" and before.isalpha() and words.isdecimal():
        return words
    if before.isdecimal() and words.lower() in _ORDINALS:
        return words
    return ("^" if name == "sup" else "_") + (f"({words})" if " " in words else words)


def _formula(node: LexborNode) -> str:
    """Return a formula of MathML in the notation of its author, TeX as a rule."""
    written = node.attributes.get("alttext")
    if not written:
        source = node.css_first("annotation")
        for annotation in node.css("annotation"):
            annotation.decompose()
        written = (source.text() if source is not None else "") or node.text(separator=" ")
    return f" {written} "


def flat(tree: Tree, node: int, *, skipped: AbstractSet[int] = frozenset()) -> str:
    """Return the text of a node as one line, without the skipped ones."""
    pieces: list[str] = []
    closing: list[int] = []
    inner, end = node, tree.ends[node]
    while inner < end:
        while closing and closing[-1] <= inner:
            closing.pop()
            pieces.append(" ")
        name = tree.names[inner]
        if inner in skipped:
            inner = tree.ends[inner]
            continue
        if name == TEXT:
            pieces.append(tree.texts[inner])
        elif name in BLOCKS or name == "br":
            pieces.append(" ")
            closing.append(tree.ends[inner])
        inner += 1
    return one_line("".join(pieces))


def code_lines(tree: Tree, node: int) -> list[str]:
    """Return the lines of a block of code; a block inside of it begins and ends a line."""
    pieces = [""]
    closing: list[int] = []
    breaks = False
    for inner in range(node + 1, tree.ends[node]):
        while closing and closing[-1] <= inner:
            closing.pop()
            breaks = True
        text = "\n" if tree.names[inner] == "br" else tree.texts[inner]
        if tree.names[inner] in BLOCKS:
            closing.append(tree.ends[inner])
            breaks = True
        elif text:
            apart = breaks and not text.startswith("\n") and not pieces[-1].endswith("\n")
            pieces += ("\n", text) if apart else (text,)
            breaks = False
    return "".join(pieces).replace("\r\n", "\n").replace("\r", "\n").split("\n")


_INVISIBLE = {ord(char): None for char in "\u00ad\u200b\ufeff\u2060"}
"""Marks of possible line breaks, which divide words."""


def one_line(text: str) -> str:
    """Return a text with single spaces, and without invisible marks inside of words."""
    return " ".join((text if text.isascii() else text.translate(_INVISIBLE)).split())
