"""Places of passages in documents that have a layout, from stored chunks: pages, printed labels, anchor, boxes.

The kind of text that a chunk is: found from its blocks, so that any index tells it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

from retrieve_cli.contracts import Json

if TYPE_CHECKING:
    from retrieve_cli.contracts.layout import ContentType, Place

_MARK = "content_type"
"""Key of every stored chunk of a document, and of no other one."""


def place_of(chunk: Mapping[str, Json]) -> Place | None:
    """Return the place of a stored chunk; None for Markdown, plain text and catalogs, which have lines instead."""
    if _MARK not in chunk or chunk.get("in_lines"):
        return None
    from retrieve_cli.contracts.layout import Box, Place  # not for every query: most indexes hold Markdown or catalogs

    page, page_end = chunk.get("page"), chunk.get("page_end")
    return Place(
        page=page,
        page_end=page if page_end is None else page_end,
        page_label=chunk.get("page_label") or None,
        page_label_end=chunk.get("page_label_end") or chunk.get("page_label") or None,
        anchor=chunk.get("anchor") or None,
        kind=chunk[_MARK],
        boxes=tuple(Box(*box) for box in chunk.get("boxes", ())),
    )


def together(place: Place | None, following: Place | None) -> Place | None:
    """Return the place of two stretches of one document, of which the second does not begin before the first."""
    if place is None or following is None:
        return place or following
    first = following if place.page is None else place
    last = following if (following.page_end or 0) > (place.page_end or 0) else place
    return place._replace(
        page=first.page,
        page_label=first.page_label,
        page_end=last.page_end,
        page_label_end=last.page_label_end,
        boxes=tuple(dict.fromkeys((*place.boxes, *following.boxes))),
    )


_FENCES, _FIGURES, _ITEMS = ("```", "~~~"), ("![", "<img", "<figure", "Figure ", "Fig. "), ("- ", "* ", "+ ")


def content_type(chunk: Mapping[str, Json]) -> ContentType:
    """Return what most of a chunk's text is, by characters: the rows of a table, code in a fence, a list, or a figure,
    which is an image or a caption; text otherwise.

    A chunk that begins within a table that was cut is a table: it repeats the header.
    """
    if (stored := chunk.get("content_type")) is not None:
        return cast("ContentType", stored)
    text = str(chunk["text"])
    if continues_table(chunk):
        return "table"
    sizes: Counter[ContentType] = Counter()
    fenced = False
    for line in text.split("\n"):
        words = line.lstrip()
        fence = words.startswith(_FENCES)
        kind: ContentType = "code" if fenced or fence else _kind_of(words)
        sizes[kind] += len(line)
        fenced ^= fence
    return next((kind for kind, size in sizes.items() if 2 * size > len(text)), "text")


def _kind_of(line: str) -> ContentType:
    """Return the kind of a line outside of a fence. No parser is loaded on the way of a query."""
    if line.startswith("|"):
        return "table"
    if line.startswith(_FIGURES):
        return "figure"
    numbered = line[:1].isdigit() and line.lstrip("0123456789").startswith((". ", ") "))
    return "list" if numbered or line.startswith(_ITEMS) else "text"


def continues_table(chunk: Mapping[str, Json]) -> bool:
    """Return True if a chunk repeats the header of a table that was cut before it."""
    return bool(chunk.get("table_header"))
