"""Text as people read it, in pieces: sentences of a paragraph, an item, a row, code; marks of Markdown are removed."""

from __future__ import annotations

from typing import Literal, NamedTuple

Kind = Literal["prose", "row", "code", "heading"]

_LONGEST = 50_000
"""Characters that are looked at."""
_MARKS = frozenset("#*_`~<>|\\[]{}&=\n")
"""Characters without which a paragraph that begins with a letter has no marks."""
_INVISIBLE = dict.fromkeys((0xAD, 0x200B, 0x2060, 0xFEFF))
_TOKEN = "format:"  # noqa: S105  begins what an index holds of formats beside the text of a record


class Piece(NamedTuple):
    """Text of one kind, on one line."""

    text: str
    kind: Kind


def pieces(text: str, *, markdown: bool = True) -> list[Piece]:
    """Return the pieces of a text in order, its marks cleaned off if it is Markdown."""
    text = text[:_LONGEST]
    if not markdown:
        return [Piece(line, "prose") for part in text.split("\n\n") if (line := one_line(part))]
    if _is_plain(text):
        found = [Piece(one_line(text), "prose")]
    else:
        from retrieve_cli.output import markdown as marked  # compiling its patterns takes 2 ms

        found = marked.pieces(text)
    return [piece for piece in found if any(map(str.isalnum, piece.text))]


def one_line(text: str) -> str:
    """Return a text with single blanks between its words, without invisible characters and tokens of formats."""
    if not text.isascii():
        text = text.translate(_INVISIBLE)
    words = text.split()
    return " ".join([word for word in words if not word.startswith(_TOKEN)] if _TOKEN in text else words)


def title(text: str) -> str:
    """Return the path of a section, or a name, without marks."""
    if _is_plain(text):
        return one_line(text)
    from retrieve_cli.output import markdown

    return markdown.inline(markdown.without_hidden(text))


def _is_plain(text: str) -> bool:
    """Return True for a line without marks of Markdown and HTML."""
    return text[:1].isalpha() and _MARKS.isdisjoint(text)
