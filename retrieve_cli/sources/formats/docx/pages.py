"""Pages of a document as the last program laid them out.

A Word document does not define its pages. Word marks the places where they ended when it saved the file; only a file
with such marks has pages here. An explicit break, and the mark behind it, are one end of a page.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from retrieve_cli.contracts.layout import DocumentPage
from retrieve_cli.sources.formats.docx.markup import XmlNode
from retrieve_cli.sources.formats.docx.numbering import LARGEST, printed

Break = Literal["rendered", "explicit", "before", "section"]
"""End of a page: in the saved layout; by a break in the text; before a paragraph that begins a page, unless one begins
there already; at the end of a section, by the kind of the next one."""
_TWIPS = 20
_SIZE = 12_240, 15_840
"""Width and height in twips of a page without a size: US Letter, as Word assumes."""
_WIDEST = 31_680
"""Maximum width and height of a page in Word, in twips."""


class PageEnd(NamedTuple):
    """An end of a page within the text."""

    offset: int
    kind: Break


class DocxSection(NamedTuple):
    """Layout of a section: how it begins, its size, and how its pages are numbered."""

    begins: str = "nextPage"
    width: int = _SIZE[0]
    height: int = _SIZE[1]
    form: str = ""
    start: int | None = None


def section_of(node: XmlNode) -> DocxSection:
    """Return the section of a `w:sectPr`."""
    size, numbers = node.child("w:pgSz"), node.child("w:pgNumType")
    return DocxSection(
        begins=node.value("w:type") or "nextPage",
        width=_measure(size, "w:w", _SIZE[0]),
        height=_measure(size, "w:h", _SIZE[1]),
        form=numbers.get("w:fmt") if numbers else "",
        start=_measure(numbers, "w:start", -1, most=LARGEST) if numbers and numbers.get("w:start") else None,
    )


def pages_of(text: str, marks: Sequence[PageEnd], sections: Sequence[DocxSection]) -> tuple[DocumentPage, ...]:
    """Return the pages of a text; none if no end of a page was noted. `sections` ends with the last one."""
    if not any(mark.kind == "rendered" for mark in marks):
        return ()
    starts = _starts(text, marks, sections)
    ends = [offset for offset, _ in starts[1:]] + [len(text)]
    labels = _labels([section for _, section in starts], sections)
    pages = []
    for index, ((start, number), end, label) in enumerate(zip(starts, ends, labels, strict=True), 1):
        section = _section(sections, number)
        pages.append(DocumentPage(index, label, section.width / _TWIPS, section.height / _TWIPS, start, end))
    return tuple(pages)


def _starts(text: str, marks: Sequence[PageEnd], sections: Sequence[DocxSection]) -> list[tuple[int, int]]:
    """Return where each page starts, with the number of its section."""
    starts = [(0, 0)]
    number, seen = 0, 0
    empty, awaited = True, False
    """True if the page has no text yet; behind a break, until the note of the same end of the page, or text."""
    for offset, kind in marks:
        if text[seen:offset].strip():
            empty = awaited = False
        seen = offset
        if kind == "section":
            number += 1
        stays = (kind == "before" and empty) or (
            kind == "section" and _section(sections, number).begins not in ("nextPage", "oddPage", "evenPage")
        )
        if kind == "rendered" and awaited:
            awaited = False
            starts[-1] = (offset, number)
        elif not stays:
            starts.append((offset, number))
            empty, awaited = True, kind != "rendered"
    return starts


def _labels(numbers: Sequence[int], sections: Sequence[DocxSection]) -> list[str]:
    """Return the printed number of each page, given the section of each; empty if no section sets numbers."""
    if not any(section.form or section.start is not None for section in sections):
        return [""] * len(numbers)
    labels, before, count = [], -1, 0
    for number in numbers:
        section = _section(sections, number)
        restarts = [sections[passed].start for passed in range(before + 1, min(number + 1, len(sections)))]
        given = [start for start in restarts if start is not None]
        count = given[-1] if given else count + 1
        if number != before and section.begins in ("oddPage", "evenPage"):
            count += (count % 2 == 0) == (section.begins == "oddPage")
        before = number
        labels.append(printed(count, section.form))
    return labels


def _section(sections: Sequence[DocxSection], number: int) -> DocxSection:
    return sections[min(number, len(sections) - 1)] if sections else DocxSection()


def _measure(node: XmlNode | None, attribute: str, other: int, *, most: int = _WIDEST) -> int:
    """Return the number in an attribute, at most `most`; `other` if the attribute is not a number."""
    digits = node.get(attribute) if node else ""
    return min(int(digits), most) if digits.isascii() and digits.isdigit() and len(digits) <= 9 else other
