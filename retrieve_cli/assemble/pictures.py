"""Drawing of pages: the one place that names what draws them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from retrieve_cli.assemble.documents import shared_reader

if TYPE_CHECKING:
    from retrieve_cli.config.settings import Settings
    from retrieve_cli.contracts import DocumentFile
    from retrieve_cli.layout.marks import Mark

DRAWN = "pdf"
"""Format of documents whose pages can be drawn."""


def draw(file: DocumentFile, pages: Sequence[int], *, settings: Settings, marks: Sequence[Mark] = ()) -> bytes:
    """Return a PNG of pages of a PDF, numbered from 1, side by side, with marks.

    Raises:
        BadDocument: it is not a PDF that can be read, has no such page, or has another content by now.
        Unavailable: a package is missing.
    """
    return shared_reader(settings).draw(file, DRAWN, pages=pages, marks=marks)
