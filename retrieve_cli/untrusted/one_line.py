"""A text from outside as one short line."""

from __future__ import annotations

_READ = 8
"""Times the length of the line that are read of the text."""


def one_line(text: str, most: int) -> str:
    """Return a text on one line of at most `most` characters, without control characters, cut behind a word."""
    line = " ".join("".join(char if char.isprintable() else " " for char in text[: _READ * most]).split())
    if len(line) <= most:
        return line
    cut = line[: most - 1]
    return (cut.rpartition(" ")[0] or cut) + "…"
