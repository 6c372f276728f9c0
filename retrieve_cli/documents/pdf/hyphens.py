"""The two hyphens at the ends of lines: pdfium reports a hard one (U+002D) and a soft one (U+00AD) alike, as U+0002.

It does so only if text follows on another line. So the object that ends with the hyphen is read once more, alone on the
page, and then says which it is.
"""

from __future__ import annotations

from collections.abc import Sequence

from retrieve_cli.documents.pdf import raw

_TEXT = 1
"""Type of a text object."""
_MOST_OBJECTS, _MOST_HYPHENS = 3000, 50
"""Bounds of a page on which hyphens are told apart; beyond them they count as hard."""
_SOFT = 0xAD


def soft_hyphens(page: int, handle: int, places: Sequence[int]) -> set[int]:
    """Return those of the hyphens, given by their indices of characters, that are soft."""
    count = raw.count_objects(page)
    if count > _MOST_OBJECTS or len(places) > _MOST_HYPHENS:
        return set()
    objects = [raw.page_object(page, number) for number in range(count)]
    texts = [drawn for drawn in objects if drawn and raw.object_kind(drawn) == _TEXT]
    own = {place: raw.char_object(handle, place) for place in places}
    if not own or not set(own.values()) & set(texts):
        return set()  # the text is in forms
    for drawn in texts:
        raw.show_object(drawn, 0)
    try:
        return {place for place, drawn in own.items() if drawn in texts and _ends_soft(page, drawn)}
    finally:
        for drawn in texts:
            raw.show_object(drawn, 1)


def _ends_soft(page: int, drawn: int) -> bool:
    """Return True if a text object, the only visible one, ends with a soft hyphen."""
    raw.show_object(drawn, 1)
    handle = raw.open_text(page)
    try:
        count = raw.count_chars(handle) if handle else 0
        while count and raw.char_code(handle, count - 1) in {0x20, 0x0D, 0x0A}:
            count -= 1
        return count > 0 and raw.char_code(handle, count - 1) == _SOFT
    finally:
        if handle:
            raw.close_text(handle)
        raw.show_object(drawn, 0)
