"""Bounds of a page's markup, checked before it is parsed.

A parser that follows the HTML standard takes quadratic time or memory on some inputs: 1 MB of `<div>` keeps lexbor busy
for 80 seconds, 50 kB of unclosed `<b>` become 8 million elements, and attributes are compared in pairs. Browsers limit
the depth of a page for the same reason. Tags are recognised here as the tokenizer of the standard does; their nesting
is followed as closely as a bound requires.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from retrieve_cli.errors import BadDocument
from retrieve_cli.sources.formats.html.tree import BLOCKS, FORMATTING, RAW_TEXT, VOID

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
            self._format(name, rest)
            return
        self.nodes += self._again
        if name not in _IMPLIED:
            if name in ("svg", "math") and self._foreign is None:
                self._foreign = len(self._open)
            self._open.append(name)

    def _format(self, name: str, rest: str) -> None:
        """Open a formatting element; of the same link or `<nobr>`, a second one closes the first."""
        sources = self._unclosed.setdefault(name, [])
        if name in ("a", "nobr"):
            self._again -= len(sources)
            sources.clear()
        if sources[-_SAME:].count(rest) < _SAME:
            sources.append(rest)
            self._again += 1

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
