"""Text and numbers as people read them: pieces of one kind (sentences, an item, a row, code), and numbers with three
significant digits."""

from __future__ import annotations

from collections.abc import Collection
from math import floor, isfinite, log10
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from retrieve_cli.output.markdown_text import Kind

_INVISIBLE = dict.fromkeys((0xAD, 0x200B, 0x2060, 0xFEFF))
_TOKEN = "format:"  # noqa: S105  begins what an index holds of formats beside the text of a record


class ShownText(NamedTuple):
    """Text of one kind, on one line."""

    text: str
    kind: Kind


def one_line(text: str) -> str:
    """Return a text with single blanks between its words, without invisible characters and tokens of formats."""
    if not text.isascii():
        text = text.translate(_INVISIBLE)
    words = text.split()
    return " ".join([word for word in words if not word.startswith(_TOKEN)] if _TOKEN in text else words)


def significant(value: float, digits: int = 3) -> str:
    """Return a number with so many significant digits, without an exponent unless it is tiny or huge."""
    if not isfinite(value) or value == 0:
        return f"{value:g}"
    shown = float(f"{value:.{digits - 1}e}")
    exponent = floor(log10(abs(shown)))
    if not -5 <= exponent < 9:
        return f"{value:.{digits - 1}e}"
    return f"{shown:.{max(digits - 1 - exponent, 0)}f}"


def percent(share: float) -> str:
    """Return a share as `87 %`."""
    return f"{share * 100:.0f} %"


_LONGEST = 50_000
"""Characters that are looked at."""
_MARKS = frozenset("#*_`~<>|\\[]{}&=\n")
"""Characters without which a paragraph that begins with a letter has no marks."""
_BEGINNINGS = ("|", "- ")
"""Beginnings of tables and lists in extracted texts, in addition to numbers."""


def pieces(text: str, *, markdown: bool = True) -> list[ShownText]:
    """Return the pieces of a text in order, its marks cleaned off if it is Markdown."""
    text = text[:_LONGEST]
    if not markdown:
        return [ShownText(line, "prose") for part in text.split("\n\n") if (line := one_line(part))]
    if _is_plain(text):
        found = [ShownText(one_line(text), "prose")]
    else:
        from retrieve_cli.output.markdown_text import blocks  # its patterns take 2 % of a cold query

        found = [ShownText(one_line(content), kind) for kind, content in blocks(text)]
    return [piece for piece in found if any(map(str.isalnum, piece.text))]


def extracted_pieces(text: str, headings: Collection[str]) -> list[ShownText]:
    """Return the pieces of a text that was extracted from a document: its tables and lists are written as in Markdown,
    everything else is plain, also a paragraph that is one of the `headings`."""
    found: list[ShownText] = []
    for part in text[:_LONGEST].split("\n\n"):
        line = one_line(part)
        if line in headings:
            found.append(ShownText(line, "heading"))
        elif part.startswith(_BEGINNINGS) or part[:1].isdigit():
            found += pieces(part)
        elif any(map(str.isalnum, line)):
            found.append(ShownText(line, "prose"))
    return found


def title(text: str) -> str:
    """Return the path of a section, or a name, without marks."""
    if _is_plain(text):
        return one_line(text)
    from retrieve_cli.output.markdown_text import inline, without_hidden

    return one_line(inline(without_hidden(text)))


def _is_plain(text: str) -> bool:
    """Return True for a line without marks of Markdown and HTML."""
    return text[:1].isalpha() and _MARKS.isdisjoint(text)
