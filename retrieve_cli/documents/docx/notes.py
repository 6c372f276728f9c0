"""Footnotes and endnotes, with the numbers that Word prints for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from retrieve_cli.documents.docx.inline import Note
from retrieve_cli.documents.docx.markup import Node, whole
from retrieve_cli.documents.docx.number_formats import printed

_FORMS = {"footnotes": "decimal", "endnotes": "lowerRoman"}
"""Forms of numbers that Word uses by default."""


class Notes:
    """Notes by kind and id, each of which is given once."""

    def __init__(self, roots: Mapping[str, Node], settings: Node | None) -> None:
        """`roots` has the parts `footnotes` and `endnotes`, if there are any."""
        self._notes = {
            kind: {whole(note.get("w:id")): note for note in root.children if note.name in ("w:footnote", "w:endnote")}
            for kind, root in roots.items()
        }
        self._settings = {kind: settings.child(f"w:{kind[:-1]}Pr") if settings else None for kind in _FORMS}
        self._counts: Counter[str] = Counter()
        self._given: set[tuple[str, int]] = set()

    def label(self, kind: str, reference: Node) -> str:
        """Return the printed number of a reference, and count it; empty if there is no such note."""
        if whole(reference.get("w:id")) not in self._notes.get(kind, {}):
            return ""
        settings = self._settings[kind]
        start = settings.number("w:numStart") if settings else None
        form = settings.value("w:numFmt") if settings else None
        self._counts[kind] += 1
        return printed((1 if start is None else start) + self._counts[kind] - 1, form or _FORMS[kind])

    def text(self, note: Note) -> Node | None:
        """Return the content of a note, the first time that it is asked for."""
        if (note.kind, note.id) in self._given:
            return None
        self._given.add((note.kind, note.id))
        return self._notes[note.kind].get(note.id)
