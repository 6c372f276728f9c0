"""Blocks of a Markdown text whose headings lose their marks."""

from __future__ import annotations

import re
from collections.abc import Sequence

from retrieve_cli.documents.block_text import BlockText
from retrieve_cli.layout.layout import Kind

_ATX = re.compile(r" {0,3}(#{1,6})(?:[ \t]++(.*))?+")
_FENCE = re.compile(r"[ ]{0,3}(`{3,}|~{3,})")
_ITEM = re.compile(r"[ ]{0,3}(?:[-*+]|\d{1,9}[.)])(?:[ \t]|$)")
_RULE = re.compile(r" {0,3}(?:=+|-+)[ \t]*+")
_DELIMITER = re.compile(r"[ \t:|-]++")


def add_markdown(written: BlockText, text: str) -> None:
    """Add the headings, code fences, lists, tables and paragraphs of a text, each as it is but for headings."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    number = 0
    while number < len(lines):
        atx = _ATX.fullmatch(lines[number])
        if not lines[number].strip():
            number += 1
        elif atx:
            title = (atx[2] or "").rstrip()
            closing = title.rstrip("#")
            written.add(
                (closing if closing[-1:].isspace() or not closing else title).strip(), "heading", level=len(atx[1])
            )
            number += 1
        elif fence := _FENCE.match(lines[number]):
            stop = _closed(lines, number, fence[1])
            written.add("\n".join(lines[number:stop]), "code")
            number = stop
        else:
            number = _add_stretch(written, lines, number)


def _closed(lines: Sequence[str], number: int, fence: str) -> int:
    """Return the line after the fence that opens on a line."""
    for after in range(number + 1, len(lines)):
        line = lines[after].strip()
        if line.startswith(fence) and not line.strip(fence[0]):
            return after + 1
    return len(lines)


def _add_stretch(written: BlockText, lines: Sequence[str], number: int) -> int:
    """Add the lines up to a blank line or the next block; return the line after them."""
    stop = number + 1
    while (
        stop < len(lines) and lines[stop].strip() and not _ATX.fullmatch(lines[stop]) and not _FENCE.match(lines[stop])
    ):
        stop += 1
    stretch = lines[number:stop]
    if len(stretch) == 2 and _RULE.fullmatch(stretch[1]) and not _ITEM.match(stretch[0]):
        written.add(stretch[0].strip(), "heading", level=1 if "=" in stretch[1] else 2)
    else:
        kind: Kind = "paragraph"
        if _ITEM.match(stretch[0]):
            kind = "list"
        elif len(stretch) > 1 and "|" in stretch[0] and "-" in stretch[1] and _DELIMITER.fullmatch(stretch[1]):
            kind = "table"
        written.add("\n".join(stretch).strip("\n"), kind)
    return stop
