"""The visible elements and texts of a page as flat lists in the order of the page, so that nothing recurses.

Bounds of a page's markup, checked before it is parsed.

A parser that follows the HTML standard takes quadratic time or memory on some inputs: 1 MB of `<div>` keeps lexbor busy
for 80 seconds, 50 kB of unclosed `<b>` become 8 million elements, and attributes are compared in pairs. Browsers limit
the depth of a page for the same reason. Tags are recognised here as the tokenizer of the standard does; their nesting
is followed as closely as a bound requires.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Set as AbstractSet
from typing import TYPE_CHECKING

from retrieve_cli.errors import BadDocument

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
        return None
    attributes = node.attributes
    if attributes and _hidden(attributes):
        return None
    if name == "math":
        tree.add(TEXT, parent, _NONE, _formula(node))
        return None
    return tree.add(name, parent, attributes)


def _hidden(attributes: Mapping[str, str | None]) -> bool:
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


MOST_LEVELS = 256
"""Maximum depth of elements whose end is not implied."""
MOST_NODES = 2_000_000
"""Maximum number of tags, and of elements that the parser opens again because they were not closed."""
_MOST_ATTRIBUTES = 1000
_LONG_TAG = 4000
"""Characters of a tag from which its attributes are counted."""
_SAME = 3
"""Equal formatting elements that a parser opens again at most ("Noah's Ark clause")."""

_S = "\\t\\n\\f\\r "
_VALUE = rf"(?:\"[^\"]*+\"|'[^']*+'|[^{_S}>\"'][^{_S}>]*+|(?=>))"
_ATTRIBUTE = rf"[^{_S}/>][^{_S}/>=]*+(?:[{_S}]*+=[{_S}]*+{_VALUE})?+"
_TOKEN = re.compile(
    r"<!--(?:-?>|(?:(?!--!?>).)*+(?:--!?>)?+)"
    rf"|<(?P<close>/?)(?P<name>[a-zA-Z][^{_S}/>]*+)(?P<rest>(?:[{_S}/]*+{_ATTRIBUTE})*+[{_S}/]*+)>?"
    r"|<[!?/][^>]*+>?",
    re.DOTALL,
)
_ATTRIBUTES = re.compile(_ATTRIBUTE)
_RAW_END = re.compile(rf"</({'|'.join(sorted(RAW_TEXT))})(?=[{_S}/>])", re.IGNORECASE)

_IMPLIED = frozenset(
    "p li dt dd tr td th thead tbody tfoot caption colgroup option optgroup rp rt html head body".split()
)
"""Elements that their successor closes, so that they do not nest on their own."""
_BARRIERS = frozenset("table template button object marquee applet select svg math".split())
"""Elements beyond which an end tag does not reach."""


def checked(text: str, *, xhtml: bool) -> str:
    """Return the source of a page whose markup is within bounds; of XHTML, `<a/>` becomes `<a></a>`.

    Raises:
        BadDocument: the markup is nested too deeply, or has too many elements or attributes.
    """
    nesting = _Nesting()
    pieces: list[str] = []
    copied = 0
    for tag in _tags(text):
        name, rest = tag["name"].lower(), tag["rest"]
        if len(rest) > _LONG_TAG and sum(1 for _ in _ATTRIBUTES.finditer(rest)) > _MOST_ATTRIBUTES:
            raise BadDocument(f"<{name[:20]}> has more than {_MOST_ATTRIBUTES} attributes{_line(text, tag)}")
        if tag["close"]:
            nesting.end(name)
        elif rest.endswith("/") and (xhtml or nesting.foreign):
            if name not in VOID and not nesting.foreign:
                pieces += (text[copied : tag.start()], f"<{tag['name']}{rest[:-1]}></{tag['name']}>")
                copied = tag.end()
        elif name not in VOID:
            nesting.start(name, rest)
        if nesting.levels > MOST_LEVELS:
            raise BadDocument(f"its elements are nested deeper than {MOST_LEVELS} levels{_line(text, tag)}")
        if nesting.nodes > MOST_NODES:
            raise BadDocument(f"it has more than {MOST_NODES:,} elements{_line(text, tag)}")
    return "".join((*pieces, text[copied:])) if pieces else text


def _line(text: str, tag: re.Match[str]) -> str:
    return f" (line {text.count(chr(10), 0, tag.start()) + 1})"


def _tags(text: str) -> Iterator[re.Match[str]]:
    """Yield the tags of a page, without what comments, scripts and styles contain."""
    position = 0
    while token := _TOKEN.search(text, position):
        position = token.end()
        if not token["name"]:
            continue
        yield token
        name = token["name"].lower()
        if name in RAW_TEXT and not token["close"] and not token["rest"].endswith("/"):
            ends = _RAW_END.finditer(text, position)
            position = next((end.start() for end in ends if end[1].lower() == name), len(text))


class _Nesting:
    """Open elements, as a parser would have them, and how many nodes it would make."""

    def __init__(self) -> None:
        self.nodes = 0
        self._open: list[str] = []
        self._foreign: int | None = None
        """Place of the outermost SVG or MathML element among the open ones."""
        self._unclosed: dict[str, list[str]] = {}
        """Sources of the formatting elements of each name that are not closed."""
        self._again = 0
        """Elements that a parser may have to open again at the next tag."""

    @property
    def levels(self) -> int:
        return len(self._open) + self._again

    @property
    def foreign(self) -> bool:
        """True inside of SVG and MathML, where `/>` closes an element."""
        return self._foreign is not None

    def start(self, name: str, rest: str) -> None:
        self.nodes += 1
        if name in FORMATTING:
            sources = self._unclosed.setdefault(name, [])
            if name in ("a", "nobr"):  # a second one closes the first
                self._again -= len(sources)
                sources.clear()
            if sources[-_SAME:].count(rest) < _SAME:
                sources.append(rest)
                self._again += 1
            return
        self.nodes += self._again
        if name not in _IMPLIED:
            if name in ("svg", "math") and self._foreign is None:
                self._foreign = len(self._open)
            self._open.append(name)

    def end(self, name: str) -> None:
        if name in FORMATTING:
            if sources := self._unclosed.get(name):
                sources.pop()
                self._again -= 1
            return
        self.nodes += self._again
        place = self._place(name)
        if place is not None:
            del self._open[place:]
            if self._foreign is not None and place <= self._foreign:
                self._foreign = None

    def _place(self, name: str) -> int | None:
        """Return the place of the open element that an end tag closes; None if it closes none."""
        inline = name not in BLOCKS and name not in _BARRIERS
        for place in range(len(self._open) - 1, -1, -1):
            if self._open[place] == name:
                return place
            if self._open[place] in _BARRIERS or (inline and self._open[place] in BLOCKS):
                return None
        return None
