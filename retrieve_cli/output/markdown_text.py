"""Markdown without its marks, in blocks: a paragraph, an item, a row, a heading, a line of code."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Literal

Kind = Literal["prose", "row", "code", "heading"]

_HIDDEN = (("<!--", "-->"), ("{{", "}}"), ("{%", "%}"))
"""Comments and template tags."""
_HEADING = re.compile(r" {0,3}#{1,6}(?:[ \t]+|$)")
_UNDERLINE = re.compile(r" {0,3}(?:={2,}+|-{2,}+)[ \t]*+$")
_ITEM = re.compile(r"[ \t]*+(?:>[ \t]?)*+(?:(?:[-*+•]|\d{1,3}[.)])\s++(?:\[[ xX]\]\s+)?)")
_QUOTE = re.compile(r"\A[ \t]*+(?:>[ \t]?)++")
_FENCES = ("```", "~~~")
_RULE = re.compile(r"[-*_=:|\s]*+$")
_DIRECTIVE = re.compile(r"[ \t]*+(?:!!!|:::|\.\. |\[[^\[\]]{1,100}+\]:[ \t])")
_FRONT = re.compile(r"\s*+(---|\+\+\+)[ \t]*+\n")

_LINK = re.compile(r"!?\[([^\[\]]{0,300}+)\](?:\([^()]{0,500}+\)|\[[^\[\]]{0,100}+\])")
_NOTE = re.compile(r"\[\^[^\[\]\s]{1,40}+\]")
_ADDRESS = re.compile(r"<(https?://[^<>\s]{1,500}+)>")
_NAMES = (
    "a b i em strong code br p div span img table thead tbody tr td th ul ol li dl dt dd h[1-6] sub sup details hr pre "
    "summary kbd center blockquote font small u s del ins mark figure figcaption section video source"
)
_TAG = re.compile(rf"</?(?:{_NAMES.replace(' ', '|')})(?:[\s/][^<>]{{0,500}}+)?>", re.IGNORECASE)
_STARS = re.compile(r"(?<![\w*\\])(\*{1,3}+)(?![\s*])([^*\\]{1,300}+)(?<!\s)\1(?![\w*])")
_LOWS = re.compile(r"(?<!\w)(_{1,3}+)(?![\s_])([^_]{1,300}+)(?<!\s)\1(?!\w)")
_STRUCK = re.compile(r"~~([^~]{1,300}+)~~")
_ESCAPED = re.compile(r"\\([\\`*_{}\[\]()#+.!|<>~-])")


def blocks(text: str) -> list[tuple[Kind, str]]:
    """Return the blocks of a text in order, its marks cleaned off."""
    found = _blocks(_without_front(without_hidden(text)).split("\n"))
    return [(kind, text if kind == "code" else inline(text)) for kind, text in found]


def inline(text: str) -> str:
    """Return a paragraph or a heading without marks of Markdown and HTML."""
    text = _LINK.sub(r"\1", _NOTE.sub("", text))
    text = _TAG.sub(" ", _ADDRESS.sub(r"\1", text))
    if "&" in text:
        from html import unescape

        text = unescape(text)
    for marks in (_STARS, _LOWS):
        text = marks.sub(r"\2", text)
    text = _STRUCK.sub(r"\1", text).replace("`", "")
    return _ESCAPED.sub(r"\1", text)


def without_hidden(text: str) -> str:
    """Return a text without comments and template tags."""
    for opening, closing in _HIDDEN:
        kept, place = [], 0
        while (begin := text.find(opening, place)) >= 0 and (end := text.find(closing, begin)) >= 0:
            kept.append(text[place:begin])
            place = end + len(closing)
        text = "".join([*kept, text[place:]])
    return text


def _without_front(text: str) -> str:
    opened = _FRONT.match(text)
    if opened is None:
        return text
    closing = text.find(f"\n{opened[1]}", opened.end() - 1)
    matter = text[opened.end() : closing].split("\n") if closing >= 0 else [""]
    keyed = all(not line or line[0] in " \t-#[]}" or ":" in line or "=" in line for line in matter)
    return text[closing + 4 :] if closing >= 0 and keyed else text


def _blocks(lines: Sequence[str]) -> Iterator[tuple[Kind, str]]:
    """Yield the blocks of Markdown in order, an item of a list and a row of a table each as one."""
    paragraph: list[str] = []
    fence, table = "", False
    for place, line in enumerate([*lines, ""]):
        mark = line.strip()[:3]
        if fence or mark in _FENCES:
            if mark == fence or not fence:
                yield "prose", " ".join(paragraph)
                paragraph, fence = [], "" if fence else mark
            else:
                yield "code", line
            continue
        if len(paragraph) == 1 and _UNDERLINE.match(line):
            yield "heading", paragraph.pop()
            continue
        heads_table = place + 1 < len(lines) and _divides(lines[place + 1])
        table = _divides(line) or (table and "|" in line)
        if (block := _alone(line, table=table, heads_table=heads_table)) is None:
            paragraph.append(_QUOTE.sub("", line, count=1))
            continue
        yield "prose", " ".join(paragraph)
        kind, text = block
        paragraph = [text] if kind == "prose" else []
        if kind != "prose":
            yield kind, text


def _divides(line: str) -> bool:
    """Return True for the line below the header of a table."""
    return "|" in line and "-" in line and _RULE.match(line) is not None


def _alone(line: str, *, table: bool, heads_table: bool) -> tuple[Kind, str] | None:
    """The block that a line begins, a paragraph among them, or is; None if it goes on with a paragraph."""
    if _RULE.match(line) or _DIRECTIVE.match(line):
        return "prose", ""
    if (head := _HEADING.match(line)) is not None:
        return "heading", line[head.end() :].rstrip("# \t")
    if "|" in line and (table or heads_table or line.lstrip().startswith("|")):
        cells = (cell.strip() for cell in line.strip().strip("|").split("|"))
        return "heading" if heads_table else "row", " · ".join(cell for cell in cells if cell)
    item = _ITEM.match(line)
    return None if item is None else ("prose", line[item.end() :])
