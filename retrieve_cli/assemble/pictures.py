"""Drawing of pages: the one place that names what draws them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from retrieve_cli.errors import Unavailable

if TYPE_CHECKING:
    from retrieve_cli.layout.marks import Mark

DRAWN = "pdf"
"""Format of documents whose pages can be drawn."""


def draw(content: bytes, pages: Sequence[int], *, marks: Sequence[Mark] = ()) -> bytes:
    """Return a PNG of pages of a PDF, numbered from 1, side by side, with marks.

    Raises:
        BadDocument: it is not a PDF that can be read, or has no such page.
        Unavailable: a package is missing.
    """
    from retrieve_cli.documents.pdf.picture import render

    try:
        return render(content, pages, marks=marks)
    except ImportError as error:
        hint = "pip install 'retrieve-cli[documents]'"
        raise Unavailable(f"pictures of pages need the package {error.name}", hint=hint) from error
