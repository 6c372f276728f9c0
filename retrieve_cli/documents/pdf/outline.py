"""The outline (bookmarks) of a file."""

from __future__ import annotations

from ctypes import create_string_buffer
from typing import TYPE_CHECKING, Any, NamedTuple

import pypdfium2.raw as pdfium

if TYPE_CHECKING:
    from pypdfium2 import PdfDocument

_MOST_ENTRIES = 20_000
_DEEPEST = 12
_LONGEST = 1000
"""Bytes of a title in UTF-16 that are read."""


class Entry(NamedTuple):
    level: int
    """From 1, the outermost."""
    title: str
    page: int
    """Number of the page, from 1."""


def outline_of(document: PdfDocument) -> list[Entry]:
    """Return the entries that lead to a page, in order; a loop ends at its second visit."""
    entries: list[Entry] = []
    seen: set[int] = set()
    waiting = [(pdfium.FPDFBookmark_GetFirstChild(document, None), 1)]
    while waiting and len(seen) < _MOST_ENTRIES:
        bookmark, level = waiting.pop()
        if not bookmark or (place := _address(bookmark)) in seen:
            continue
        seen.add(place)
        waiting.append((pdfium.FPDFBookmark_GetNextSibling(document, bookmark), level))
        if level < _DEEPEST:
            waiting.append((pdfium.FPDFBookmark_GetFirstChild(document, bookmark), level + 1))
        target = pdfium.FPDFBookmark_GetDest(document, bookmark) or _target_of_action(document, bookmark)
        index = pdfium.FPDFDest_GetDestPageIndex(document, target) if target else -1
        title = _title(bookmark)
        if 0 <= index < len(document) and title:
            entries.append(Entry(level, title, index + 1))
    return entries


def _address(bookmark: Any) -> int:
    from ctypes import addressof

    return addressof(bookmark.contents)


def _target_of_action(document: PdfDocument, bookmark: Any) -> Any:
    action = pdfium.FPDFBookmark_GetAction(bookmark)
    return pdfium.FPDFAction_GetDest(document, action) if action else None


def _title(bookmark: Any) -> str:
    size = min(pdfium.FPDFBookmark_GetTitle(bookmark, None, 0), 2**20)
    if size <= 2:
        return ""
    buffer = create_string_buffer(size)
    pdfium.FPDFBookmark_GetTitle(bookmark, buffer, size)
    return " ".join(buffer.raw[: min(size - 2, _LONGEST)].decode("utf-16-le", "replace").split())
