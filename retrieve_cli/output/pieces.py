"""Text of any kind in pieces: sentences of a paragraph, an item, a row, code; marks of Markdown are removed."""

from __future__ import annotations

from collections.abc import Collection

from retrieve_cli.output.prose import TextPiece, one_line

_LONGEST = 50_000
"""Characters that are looked at."""
_MARKS = frozenset("#*_`~<>|\\[]{}&=\n")
"""Characters without which a paragraph that begins with a letter has no marks."""
_BEGINNINGS = ("|", "- ")
"""Beginnings of tables and lists in extracted texts, in addition to numbers."""


def pieces(text: str, *, markdown: bool = True) -> list[TextPiece]:
    """Return the pieces of a text in order, its marks cleaned off if it is Markdown."""
    text = text[:_LONGEST]
    if not markdown:
        return [TextPiece(line, "prose") for part in text.split("\n\n") if (line := one_line(part))]
    if _is_plain(text):
        found = [TextPiece(one_line(text), "prose")]
    else:
        from retrieve_cli.output import markdown as marked  # compiling its patterns takes 2 ms

        found = marked.pieces(text)
    return [piece for piece in found if any(map(str.isalnum, piece.text))]


def extracted_pieces(text: str, headings: Collection[str]) -> list[TextPiece]:
    """Return the pieces of a text that was extracted from a document: its tables and lists are written as in Markdown,
    everything else is plain, also a paragraph that is one of the `headings`."""
    found: list[TextPiece] = []
    for part in text[:_LONGEST].split("\n\n"):
        line = one_line(part)
        if line in headings:
            found.append(TextPiece(line, "heading"))
        elif part.startswith(_BEGINNINGS) or part[:1].isdigit():
            found += pieces(part)
        elif any(map(str.isalnum, line)):
            found.append(TextPiece(line, "prose"))
    return found


def title(text: str) -> str:
    """Return the path of a section, or a name, without marks."""
    if _is_plain(text):
        return one_line(text)
    from retrieve_cli.output import markdown

    return markdown.inline(markdown.without_hidden(text))


def _is_plain(text: str) -> bool:
    """Return True for a line without marks of Markdown and HTML."""
    return text[:1].isalpha() and _MARKS.isdisjoint(text)
