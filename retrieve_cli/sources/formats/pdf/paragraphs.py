"""Blocks of a document before their text is written: lines put together to paragraphs, lists, code, captions.

Footnotes are read at the end of their page, not between the columns above them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median

from retrieve_cli.contracts.layout import Kind
from retrieve_cli.sources.formats.pdf.headings import CAPTION, FontStyle, Heading, Headings, PageLines
from retrieve_cli.sources.formats.pdf.lines import Line

_SMALL = 0.93
"""Font size of footnotes relative to the body, at most."""
_MARK = re.compile(r"(?:\d{1,3}|[*†‡§¶‖]{1,3}|\[\d{1,3}\]|\(\d{1,3}\))(?![a-z])")


def with_notes_last(item: PageLines, body: FontStyle, headings: Collection[int]) -> tuple[list[int], int, set[int]]:
    """Return the order of a page's lines with the footnotes of all columns at the end of the main text.

    After the numbers of the lines come the position of the first line of a footnote, and the numbers of those that
    begin one.
    """
    lines = item.lines
    notes: list[int] = []
    begins: set[int] = set()
    number = len(lines) - 1
    top, bottom = min((line.y0 for line in lines), default=0.0), max((line.y1 for line in lines), default=0.0)
    stamps = [n for n, line in enumerate(lines) if line.turn != item.page.turn]
    while number >= 0:
        column = lines[number].column
        last = number
        while number >= 0 and lines[number].column == column:
            number -= 1
        first = last + 1
        # Small lines at the end of a column are footnotes, from the first one that has a mark.
        for place in range(last, number, -1) if lines[last].turn == item.page.turn else ():
            line = lines[place]
            if place in headings or line.table >= 0 or line.size > _SMALL * body.size or line.y0 <= (top + bottom) / 2:
                break
            if _MARK.match(item.text(line)):
                begins.add(place)
                first = place
        notes = [*range(first, last + 1), *notes]
    taken = {*notes, *stamps}
    text = [number for number in range(len(lines)) if number not in taken]
    return [*text, *notes, *stamps], len(text), begins


BULLET = re.compile(r"[•‣⁃▪▫●○◦∙·■□➢➤❖✓✗\uf0b7\uf0a7]")
_DASH = re.compile(r"[-–—*+]")
_NUMBER = re.compile(r"\(?(?:\d{1,3}|[a-zA-Z]|[ivx]{1,5})[.)]")
_ENDED = re.compile(r"""[.!?:;…。！？؟۔]["'”’»)\]]*$""")
_LEADER = re.compile(r"[.…·]\s?[.…·]\s?[.…·]\s*\w{1,6}$")
"""End of an entry of a table of contents: a row of dots and the number of a page."""
_DIVIDED = re.compile("[^\\W\\d_][-\u2010\xad]$")
_MARK_WORDS = 4
"""Most words that the beginning of a caption and the end of an entry have."""
_SAME_SIZE = 0.08
_GAP = 0.35
"""Growth of the usual distance between lines, as a share, from which a paragraph ends."""
_INDENT = 0.8
"""Indentation of a first line in font sizes."""
_SHORT = 0.3
"""Share of the column that a line with any text leaves free if it ends a paragraph."""


@dataclass(slots=True)
class Draft:
    """A block to be written: lines of pages in order."""

    kind: Kind
    lines: list[tuple[PageLines, Line]]
    level: int = 0
    items: list[int] = field(default_factory=list)
    """Numbers of the lines that begin an item of a list."""


def drafts_of(flow: Sequence[PageLines], headings: Headings, body: FontStyle, *, alone: bool) -> Iterator[list[Draft]]:
    """Yield the blocks that each page begins; unless pages stand alone, the last one may continue on the next page."""
    waiting: list[Draft] = []
    for item in flow:
        drafts = _of_page(item, headings.get(item.page.index, ()), body)
        if waiting and drafts and not alone and _continues(waiting[-1], drafts[0]):
            waiting[-1].lines += drafts.pop(0).lines
            if not drafts:
                continue
        yield waiting
        waiting = drafts
    yield waiting


def _of_page(item: PageLines, headings: Sequence[Heading], body: FontStyle) -> list[Draft]:
    titles = {heading.first: heading for heading in headings}
    inside = {number for heading in headings for number in range(heading.first, heading.last)}
    order, first_note, notes = with_notes_last(item, body, inside)
    leadings = _leadings(item.lines)
    drafts: list[Draft] = []
    for position, number in enumerate(order):
        line = item.lines[number]
        if number in titles:
            title = titles[number]
            drafts.append(Draft("heading", [(item, one) for one in item.lines[title.first : title.last]], title.level))
        elif number in inside:
            continue  # a further line of that heading
        elif line.table >= 0:
            drafts.append(Draft("table", [(item, line)]))
        else:
            new = position == first_note or number in notes
            _add(drafts, item, line, leadings.get(line.column, 1.2 * line.size), body, new=new)
    return drafts


def _leadings(lines: Sequence[Line]) -> dict[int, float]:
    """Return the usual distance between the lines of each column."""
    distances: dict[int, list[float]] = {}
    for line, following in pairwise(lines):
        distance = following.y1 - line.y1
        if line.column == following.column and 0.5 * line.size < distance < 2.5 * line.size and following.table < 0:
            distances.setdefault(line.column, []).append(distance)
    return {column: median(values) for column, values in distances.items()}


def _add(drafts: list[Draft], item: PageLines, line: Line, leading: float, body: FontStyle, *, new: bool) -> None:
    """Add a line to the last block, or begin another one with it."""
    draft = drafts[-1] if drafts and drafts[-1].kind not in {"heading", "table"} else None
    before = draft.lines[-1][1] if draft else None
    beside = before if before is not None and before.column == line.column else None
    kind: Kind | None  # of the block that the line begins; None if it goes on the last one
    if line.fixed and not body.fixed:
        near = beside is not None and line.y0 - beside.y1 < 2 * leading
        kind = None if draft and draft.kind == "code" and near else "code"
    else:
        begins = new or draft is None or draft.kind == "code" or _begins(draft, item, line, leading)
        listed = draft if draft is not None and draft.kind == "list" else None
        marker = _marker(item, line, certain=begins or listed is not None)
        near = beside is not None and line.y1 - beside.y1 < 2.5 * max(leading, beside.size)
        if listed is not None and not new and (near if marker else _hangs(listed, line, leading)):
            listed.items += [len(listed.lines)] * bool(marker)
            kind = None
        elif marker:
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
    if line.y1 - before.y1 > (1 + _GAP) * max(leading, before.size):
        return True
    if line.bold != before.bold and (line.bold or len(draft.lines) == 1):
        return True  # a bold line before or after lines that are not
    indent = _INDENT * line.size
    if line.rtl:
        inset, inset_before, free = line.right - line.x1, before.right - before.x1, before.x0 - before.left
    else:
        inset, inset_before, free = line.x0 - line.left, before.x0 - before.left, before.right - before.x1
    if inset - inset_before > indent and (len(draft.lines) > 1 or inset_before < indent):
        return True
    words = item.words(line)
    first = (line.x1 - line.x0) * (len(words[0]) + 1) / max(line.chars + len(words), 1) if words else 0.0
    ending = " ".join(before_item.words(before)[-_MARK_WORDS:])
    if _LEADER.search(ending):
        return True
    if _DIVIDED.search(ending):
        return False
    if free > max(first, 0.0) + 0.5 * line.size:
        width = max(line.right - line.left, 1.0)
        return free > _SHORT * width or bool(_ENDED.search(ending))
    return False


def _runs_on(before_item: PageLines, before: Line, item: PageLines, line: Line) -> bool:
    """Return True if a paragraph runs on from the end of one column or page to the next one."""
    if before.fixed != line.fixed or before.turn != line.turn or before.bold != line.bold:
        return False
    if abs(line.size - before.size) > _SAME_SIZE * line.size or min(before.table, line.table) >= 0:
        return False
    words, ahead = before_item.words(before), item.words(line)
    if not words or not ahead or _marker(item, line, certain=True):
        return False
    short = (before.x0 - before.left if before.rtl else before.right - before.x1) > _SHORT * (
        before.right - before.left
    )
    if short or _ENDED.search(words[-1]):
        return False
    return words[-1].endswith(("-", "\xad")) or not ahead[0][:1].isupper()


def _continues(draft: Draft, following: Draft) -> bool:
    """Return True if a paragraph or item at the end of a page goes on at the top of the next one."""
    if draft.kind not in {"paragraph", "list"} or following.kind != "paragraph":
        return False
    return _runs_on(*draft.lines[-1], *following.lines[0])


def _marker(item: PageLines, line: Line, *, certain: bool) -> str:
    """Return the mark of a list item at the beginning of a line, if more follows; `certain` if a block begins here."""
    words = item.words(line)
    if not words:
        return ""
    mark = words[0]
    if BULLET.match(mark):
        return mark[0]
    plain = certain and len(words) > 1
    return mark if plain and (_DASH.fullmatch(mark) or _NUMBER.fullmatch(mark)) else ""


def _hangs(draft: Draft, line: Line, leading: float) -> bool:
    """Return True if a line belongs to the item above: it is indented like it, or more."""
    before, item = draft.lines[-1][1], draft.lines[draft.items[-1]][1]
    if before.column != line.column or abs(line.size - item.size) > _SAME_SIZE * item.size:
        return False
    deeper = item.x1 - line.x1 if line.rtl else line.x0 - item.x0
    near = line.y1 - before.y1 < (1 + _GAP) * max(leading, before.size)
    return near and deeper > 0.4 * line.size
