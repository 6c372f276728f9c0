"""Searched text from the metadata of a document: its description, other names, and keywords."""

from __future__ import annotations

from collections.abc import Mapping

from retrieve_cli.contracts import Json
from retrieve_cli.errors import one_line
from retrieve_cli.sources.values import strings

_PROSE = ("description", "summary", "abstract", "subtitle")
_LABELLED = (("name", "Name"), ("aliases", "Also known as"), ("keywords", "Keywords"), ("tags", "Tags"))
_LONGEST = 4000
"""Characters of one line."""


def summary_of(metadata: Mapping[str, Json], *, title: str, text: str) -> list[str]:
    """Return lines of text: descriptions, then names, keywords and tags with a label. A value that is the title,
    another value, or a tag in the text, is not repeated."""
    lines: list[str] = []
    shown = [title]
    for key, label in (*((key, "") for key in _PROSE), *_LABELLED):
        values = [one_line(value, _LONGEST) for value in strings(metadata.get(key))]
        values = [value for value in dict.fromkeys(values) if value not in shown]
        if key == "tags" and "#" in text:
            values = [value for value in values if f"#{value}" not in text]
        if values:
            line = ", ".join(values)
            shown += values
            lines.append(f"{label}: {line}" if label else line)
    return lines
