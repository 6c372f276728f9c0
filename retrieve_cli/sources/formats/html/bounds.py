"""Bounds of a page's markup, checked before it is parsed.

A parser that follows the HTML standard takes quadratic time or memory on some inputs: 1 MB of
`<div>` takes lexbor 80 seconds, and 50 kB of unclosed `<b>` become 8 million elements.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from retrieve_cli.errors import BadDocument
from retrieve_cli.sources.formats.html.text import BLOCKS

_VOID = frozenset("area base br col embed hr img input link meta param source track wbr frame".split())
_RAW_TEXT = frozenset("script style textarea title xmp iframe noembed noframes".split())
"""Elements whose content has no tags."""
_FORMATTING = frozenset("a b big code em font i nobr s small strike strong tt u".split())
"""Elements that a parser opens again in the next block if they were not closed."""
_IMPLIED = frozenset("p li dt dd tr td th thead tbody tfoot caption colgroup option rp rt html head body".split())
"""Elements that their successor closes, so that they do not nest on their own."""
_BARRIERS = frozenset("table template button object marquee applet select svg math".split())
"""Elements beyond which an end tag does not reach."""
_MOST_LEVELS, _MOST_NODES, _MOST_ATTRIBUTES, _LONG_TAG = 256, 2_000_000, 1000, 4000
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
_RAW_END = re.compile(rf"</({'|'.join(sorted(_RAW_TEXT))})(?=[{_S}/>])", re.IGNORECASE)


def checked(text: str, *, xhtml: bool) -> str:
    """Return the source of a page within bounds; of XHTML, `<a/>` becomes `<a></a>`.

    Raises:
        BadDocument: its elements are nested too deeply, or it has too many, or too many attributes.
    """
    nesting = _Nesting()
    pieces: list[str] = []
    copied = 0
    for tag in _tags(text):
        name, rest = tag["name"].lower(), tag["rest"]
        if tag["close"]:
            nesting.end(name)
        elif rest.endswith("/") and (xhtml or "svg" in nesting.open or "math" in nesting.open):
            if name not in _VOID:
                pieces += (text[copied : tag.start()], f"<{tag['name']}{rest[:-1]}></{tag['name']}>")
                copied = tag.end()
        elif name not in _VOID:
            nesting.start(name, rest)
        if len(rest) > _LONG_TAG and len(_ATTRIBUTES.findall(rest)) > _MOST_ATTRIBUTES:
            reason = f"<{name[:20]}> has more than {_MOST_ATTRIBUTES} attributes"
        elif nesting.levels > _MOST_LEVELS:
            reason = f"its elements are nested deeper than {_MOST_LEVELS} levels"
        elif nesting.nodes > _MOST_NODES:
            reason = f"it has more than {_MOST_NODES:,} elements"
        else:
            continue
        line = text.count("\n", 0, tag.start()) + 1
        raise BadDocument(f"{reason} (line {line})")
    return "".join((*pieces, text[copied:]))


def _tags(text: str) -> Iterator[re.Match[str]]:
    """Yield the tags of a page, without what comments, scripts and styles contain."""
    position = 0
    while token := _TOKEN.search(text, position):
        position = token.end()
        if not token["name"]:
            continue
        yield token
        name = token["name"].lower()
        if name in _RAW_TEXT and not token["close"] and not token["rest"].endswith("/"):
            ends = _RAW_END.finditer(text, position)
            position = next((end.start() for end in ends if end[1].lower() == name), len(text))


class _Nesting:
    """Open elements, as a parser would have them, and how many nodes it would make."""

    def __init__(self) -> None:
        self.nodes = 0
        self.open: list[str] = []
        self._unclosed: dict[str, list[str]] = {}
        """Sources of the formatting elements of each name that are not closed."""
        self._again = 0
        """Elements that a parser may have to open again at the next tag."""
        self._run = 0
        """Formatting elements since the last other tag."""

    @property
    def levels(self) -> int:
        return len(self.open) + self._again + self._run

    def start(self, name: str, rest: str) -> None:
        self.nodes += 1
        if name not in _FORMATTING:
            self._run = 0
            self.nodes += self._again
            self.open += () if name in _IMPLIED else (name,)
            return
        sources = self._unclosed.setdefault(name, [])
        if name in ("a", "nobr"):  # a second one closes the first
            self._again -= len(sources)
            sources.clear()
        else:
            self._run += 1
        if sources[-_SAME:].count(rest) < _SAME:
            sources.append(rest)
            self._again += 1

    def end(self, name: str) -> None:
        if name in _FORMATTING:
            if sources := self._unclosed.get(name):
                sources.pop()
                self._again -= 1
                self._run = max(0, self._run - (name not in ("a", "nobr")))
            return
        self.nodes += self._again
        inline = name not in BLOCKS and name not in _BARRIERS
        for place in range(len(self.open) - 1, -1, -1):
            outer = self.open[place]
            if outer == name:
                del self.open[place:]
            if outer == name or outer in _BARRIERS or (inline and outer in BLOCKS):
                return
