"""Texts of elements: as one line, and as lines of code."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode

TEXT = "-text"
"""Name of the nodes that are text."""
HEADINGS = {f"h{level}": level for level in range(1, 7)}
BLOCKS = frozenset(
    "address article aside blockquote body caption center dd details dialog dir div dl dt fieldset"
    " figcaption figure footer form frameset h1 h2 h3 h4 h5 h6 header hgroup hr legend li listing"
    " main menu nav ol optgroup option p pre search section summary table tbody td tfoot th thead"
    " tr ul xmp".split()
)
"""Elements that begin and end a block of text."""
_EDGE = "\0"
"""Edge of a block; no text of a page has this character."""
_EDGES = re.compile(r"\n?\0[\0\n]*+")
_INVISIBLE = {ord(char): None for char in "\u00ad\u200b\ufeff\u2060"}
"""Marks of possible line breaks, which divide words."""


def one_line(text: str) -> str:
    """Return a text with single spaces, and without invisible marks inside of words."""
    return " ".join((text if text.isascii() else text.translate(_INVISIBLE)).split())


def flat(node: LexborNode) -> str:
    """Return the text of a node as one line."""
    return one_line("".join(_pieces(node)).replace(_EDGE, " "))


def code(node: LexborNode) -> str:
    """Return the lines of a block of code; a block inside of it begins and ends a line."""
    text = "".join(_pieces(node)).replace("\r\n", "\n").replace("\r", "\n")
    lines = _EDGES.sub("\n", text).split("\n")
    return "\n".join(line.rstrip() for line in lines).strip("\n")


def _pieces(node: LexborNode) -> list[str]:
    pieces: list[str] = []
    for child in node.iter(include_text=True):
        name = child.tag or ""
        if name == TEXT:
            pieces.append(child.text_content or "")
        elif name == "br":
            pieces.append("\n")
        elif name in BLOCKS:
            pieces += (_EDGE, *_pieces(child), _EDGE)
        elif not name.startswith("-"):
            pieces += _pieces(child)
    return pieces
