"""Places of passages in documents that have a layout, from stored chunks: pages, printed labels, anchor, boxes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from retrieve_cli.contracts import Json

if TYPE_CHECKING:
    from retrieve_cli.contracts.layout import Place

_MARK = "content_type"
"""Key of every stored chunk whose record has a layout, and of no other one."""


def place_of(chunk: Mapping[str, Json]) -> Place | None:
    """Return the place of a stored chunk; None for Markdown, plain text and catalogs, which have lines instead."""
    if _MARK not in chunk:
        return None
    from retrieve_cli.contracts.layout import Place  # not for every query: most indexes hold Markdown or catalogs
    from retrieve_cli.contracts.page_words import Box

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
