"""Blocks of a document before their text is written: lines put together to paragraphs, lists, code, captions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median

from retrieve_cli.contracts.layout import Kind
from retrieve_cli.sources.formats.pdf.headings import CAPTION, FontStyle, Heading, Headings, PageLines
from retrieve_cli.sources.formats.pdf.lines import Line

BULLET = re.compile(r"[•‣⁃▪▫●○◦∙·■□➢➤❖✓✗\uf0b7\uf0a7]")
_ITEM = re.compile(r"[-–—*+]|\(?(?:\d{1,3}|[a-zA-Z]|[ivx]{1,5})[.)]")
_ENDED = re.compile(r"""[.!?:;…。！？؟۔]["'”’»)\]]*$""")
_LEADER = re.compile(r"[.…·]\s?[.…·]\s?[.…·]\s*\w{1,6}$")
"""End of an entry of a table of contents: a row of dots and the number of a page."""
_DIVIDED = re.compile("[^\\W\\d_][-\u2010\xad]$")
_MARK_WORDS = 4  # most words that the beginning of a caption and the end of an entry have
_SAME_SIZE = 0.08
_GAP = 0.35  # growth of the usual distance between lines, as a share, from which a paragraph ends
_INDENT = 0.8  # indentation of a first line in font sizes
_SHORT = 0.3  # share of the column that a line with any text leaves free if it ends a paragraph


@dataclass(slots=True)
class Draft:
    """A block to be written: lines of pages in order."""

    kind: Kind
    lines: list[tuple[PageLines, Line]]
    level: int = 0
    items: list[int] = field(default_factory=list)  # numbers of the lines that begin an item of a list


def drafts_of(flow: Sequence[PageLines], headings: Headings, body: FontStyle, *, alone: bool) -> Iterator[list[Draft]]:
    """Yield the blocks that each page begins; unless its pages are `alone`, the last one may go on on the next page."""
    waiting: list[Draft] = []
    for item in flow:
        drafts = _of_page(item, headings.get(item.page.index, ()), body)
        texts = bool(waiting and drafts) and waiting[-1].kind in {"paragraph", "list"} and drafts[0].kind == "paragraph"
        if texts and not alone and _runs_on(*waiting[-1].lines[-1], *drafts[0].lines[0]):
            waiting[-1].lines += drafts.pop(0).lines
            if not drafts:
                continue
        yield waiting
        waiting = drafts
    yield waiting


def _of_page(item: PageLines, headings: Sequence[Heading], body: FontStyle) -> list[Draft]:
    titles = {heading.first: heading for heading in headings}
    inside = {number for heading in headings for number in range(heading.first, heading.last)}
    leadings = _leadings(item.lines)
    drafts: list[Draft] = []
    for number, line in enumerate(item.lines):
        if number in titles:
            title = titles[number]
            drafts.append(Draft("heading", [(item, one) for one in item.lines[title.first : title.last]], title.level))
        elif line.table >= 0:
            drafts.append(Draft("table", [(item, line)]))
        elif number not in inside:
            leading = leadings.get(line.column, 1.2 * line.size)
            _add(drafts, item, line, max(leading, line.size), body)
    return drafts


def _leadings(lines: Sequence[Line]) -> dict[int, float]:
    """Return the usual distance between the lines of each column."""
    distances: dict[int, list[float]] = {}
    for line, following in pairwise(lines):
        distance = following.y1 - line.y1
        if line.column == following.column and 0.5 * line.size < distance < 2.5 * line.size and following.table < 0:
            distances.setdefault(line.column, []).append(distance)
    return {column: median(values) for column, values in distances.items()}


def _add(drafts: list[Draft], item: PageLines, line: Line, leading: float, body: FontStyle) -> None:
    """Add a line to the last block, or begin another one with it."""
    draft = drafts[-1] if drafts and drafts[-1].kind not in {"heading", "table"} else None
    before = draft.lines[-1][1] if draft and draft.lines[-1][1].column == line.column else None
    kind: Kind | None = None  # of the block that the line begins; None if it goes on the last one
    if line.fixed and not body.fixed:
        near = before is not None and line.y0 - before.y1 < 2 * leading
        kind = None if draft and draft.kind == "code" and near else "code"
    else:
        begins = draft is None or draft.kind == "code" or _begins(draft, item, line, leading)
        listed = draft if draft is not None and draft.kind == "list" else None
        marked = _is_marked(item, line, certain=begins or listed is not None)
        near = before is not None and line.y1 - before.y1 < 2.5 * leading
        if listed is not None and (near if marked else _hangs(listed, line, leading)):
            listed.items += [len(listed.lines)] * marked
        elif marked:
            kind = "list"
        else:
            caption = CAPTION.match(" ".join(item.words(line)[:_MARK_WORDS]))
            small = line.size < (1 - _SAME_SIZE) * body.size
            named = caption and (caption["stop"] is not None or small or (line.bold and not body.bold))
            kind = "paragraph" if begins else None
            kind = "caption" if named else kind
    if kind is not None:
        drafts.append(Draft(kind, [], items=[0] if kind == "list" else []))
    drafts[-1].lines.append((item, line))


def _begins(draft: Draft, item: PageLines, line: Line, leading: float) -> bool:
    """Return True if a line begins a paragraph, judged by the line before it."""
    before_item, before = draft.lines[-1]
    if line.turn != before.turn or abs(line.size - before.size) > _SAME_SIZE * max(line.size, before.size):
        return True
    if line.column != before.column:
        return not _runs_on(before_item, before, item, line)
    if line.y1 - before.y1 > (1 + _GAP) * leading or (line.bold != before.bold and (line.bold or len(draft.lines) < 2)):
        return True  # a gap, or a bold line before or after lines that are not
    indent = _INDENT * line.size
    inset, inset_before, free = line.x0 - line.left, before.x0 - before.left, before.right - before.x1
    if line.rtl:
        inset, inset_before, free = line.right - line.x1, before.right - before.x1, before.x0 - before.left
    if inset - inset_before > indent and (len(draft.lines) > 1 or inset_before < indent):
        return True
    words = item.words(line)
    first = (line.x1 - line.x0) * (len(words[0]) + 1) / max(line.chars + len(words), 1) if words else 0.0
    ending = " ".join(before_item.words(before)[-_MARK_WORDS:])
    if _LEADER.search(ending):
        return True
    short = free > max(first, 0.0) + 0.5 * line.size and not _DIVIDED.search(ending)
    return short and (free > _SHORT * max(line.right - line.left, 1.0) or bool(_ENDED.search(ending)))


def _runs_on(before_item: PageLines, before: Line, item: PageLines, line: Line) -> bool:
    """Return True if a paragraph runs on from the end of one column or page to the next one."""
    if (before.fixed, before.turn, before.bold) != (line.fixed, line.turn, line.bold):
        return False
    if abs(line.size - before.size) > _SAME_SIZE * line.size or min(before.table, line.table) >= 0:
        return False
    words, ahead = before_item.words(before), item.words(line)
    if not words or not ahead or _is_marked(item, line, certain=True):
        return False
    free = before.x0 - before.left if before.rtl else before.right - before.x1
    if free > _SHORT * (before.right - before.left) or _ENDED.search(words[-1]):
        return False
    return words[-1].endswith(("-", "\xad")) or not ahead[0][:1].isupper()


def _is_marked(item: PageLines, line: Line, *, certain: bool) -> bool:
    """Return True if a line begins with the mark of an item of a list; `certain` if a block begins here."""
    words = item.words(line)
    plain = certain and len(words) > 1 and _ITEM.fullmatch(words[0])
    return bool(words) and bool(BULLET.match(words[0]) or plain)


def _hangs(draft: Draft, line: Line, leading: float) -> bool:
    """Return True if a line belongs to the item above: it is indented like it, or more."""
    before, item = draft.lines[-1][1], draft.lines[draft.items[-1]][1]
    if before.column != line.column or abs(line.size - item.size) > _SAME_SIZE * item.size:
        return False
    deeper = item.x1 - line.x1 if line.rtl else line.x0 - item.x0
    return line.y1 - before.y1 < (1 + _GAP) * leading and deeper > 0.4 * line.size
