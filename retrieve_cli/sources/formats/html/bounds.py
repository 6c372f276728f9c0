"""Bounds of a page's markup, checked before it is parsed.

A parser that follows the HTML standard takes quadratic time or memory on some inputs: 1 MB of
`<div>` takes lexbor 80 seconds. All other inputs meet the limits of the parsing process.
"""

from __future__ import annotations

import re

from retrieve_cli.errors import BadDocument
from retrieve_cli.sources.formats.html.text import BLOCKS

_VOID = frozenset("area base br col embed hr img input link meta param source track wbr frame".split())
_FORMATTING = frozenset("b big code em font i s small strike strong tt u".split())
"""Elements that a parser opens again in the next block if they were not closed."""
_NOT_NESTED = frozenset(
    "p li dt dd tr td th thead tbody tfoot caption colgroup option rp rt html head body a nobr".split()
)
"""Elements that their successor closes."""
_MOST_LEVELS, _MOST_ATTRIBUTES, _LONG_TAG = 256, 1000, 4000
_SAME = 3
"""Equal formatting elements that a parser opens again at most ("Noah's Ark clause")."""
_VALUE = r"=\s*+(?:\"[^\"]*+\"|'[^']*+')"
_TAG = re.compile(
    r"<!--(?:-?>|.*?(?:-->|\Z))|<(?P<raw>script|style|textarea|title|xmp|iframe)\b.*?(?:</(?P=raw)|\Z)"
    rf"|<(?P<close>/?)(?P<name>[a-z][^\s/>]*+)(?P<rest>(?:{_VALUE}|[^>])*+)>?",
    re.DOTALL | re.IGNORECASE,
)
_EMPTY = re.compile(r"<([a-zA-Z][^\s/<>]*+)((?:\"[^<\"]*+\"|'[^<']*+'|[^<>/\"']|/(?!>))*+)/>")


def checked(text: str, *, xhtml: bool) -> str:
    """Return the source of a page within bounds; of XHTML, `<a/>` becomes `<a></a>`.

    Raises:
        BadDocument: its elements are nested too deeply, or one has too many attributes.
    """
    if xhtml:
        text = _EMPTY.sub(lambda tag: tag[0] if tag[1].lower() in _VOID else rf"<{tag[1]}{tag[2]}></{tag[1]}>", text)
    opened: list[tuple[str, str]] = []
    for tag in _TAG.finditer(text):
        name, rest = (tag["name"] or "").lower(), tag["rest"] or ""
        if len(rest) > _LONG_TAG and len(re.sub(_VALUE, "", rest).split()) > _MOST_ATTRIBUTES:
            raise BadDocument(f"<{name[:20]}> has more than {_MOST_ATTRIBUTES} attributes")
        if not name or name in _VOID or name in _NOT_NESTED:
            continue
        if tag["close"]:
            _close(opened, name)
        elif name in _FORMATTING:
            opened += [(name, rest)] * (opened.count((name, rest)) < _SAME)
        elif name in BLOCKS or not rest.endswith("/"):
            opened.append((name, rest))
        if len(opened) > _MOST_LEVELS:
            line = text.count("\n", 0, tag.start()) + 1
            raise BadDocument(f"its elements are nested deeper than {_MOST_LEVELS} levels (line {line})")
    return text


def _close(opened: list[tuple[str, str]], name: str) -> None:
    """Close the last element of a name, and those inside of it that a parser does not open again."""
    names = [opening[0] for opening in opened]
    if name not in names:
        return
    place = len(names) - 1 - names[::-1].index(name)
    if name in _FORMATTING:
        del opened[place]
    elif name in BLOCKS or BLOCKS.isdisjoint(names[place:]):
        opened[place:] = [opening for opening in opened[place:] if opening[0] in _FORMATTING]
