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
    """Return lines of text: descriptions, then names, keywords and tags with a label. A value that is the title, a tag
    in the text, or part of another line, is not repeated."""
    lines: list[str] = []
    shown = [title]
    for key, label in (*((key, "") for key in _PROSE), *_LABELLED):
        values = [one_line(text, _LONGEST) for text in strings(metadata.get(key))]
        values = [value for value in dict.fromkeys(values) if not any(value in line for line in shown)]
        if key == "tags" and "#" in text:
            values = [value for value in values if f"#{value}" not in text]
        if values:
            line = ", ".join(values)
            shown.append(line)
            lines.append(f"{label}: {line}" if label else line)
    return lines
