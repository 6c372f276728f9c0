"""reStructuredText: the text as it is, with blocks as docutils would see them."""

from __future__ import annotations

from collections.abc import Callable

from retrieve_cli.contracts import Parsed
from retrieve_cli.documents.decoding import utf8
from retrieve_cli.documents.limits import Limits
from retrieve_cli.documents.rst_blocks import scan
from retrieve_cli.errors import BadDocument
from retrieve_cli.layout.layout import Layout

_LONGEST = 1000


def parse(content: bytes, *, name: str, limits: Limits, on_page: Callable[[int], None]) -> Parsed:  # noqa: ARG001
    """Return the text of a file with its structure; its first title is the document's.

    Raises:
        BadDocument: it is not UTF-8, or has no text.
    """
    text = utf8(content)
    if not any(char.isalnum() for char in text):
        raise BadDocument("it has no text")
    start = 1 if text.startswith("\ufeff") else 0
    scanned = scan(text, start)
    title = scanned.titles[0] if scanned.titles else ""
    metadata = {"title": title[:_LONGEST]} if title else {}
    return Parsed(text, layout=Layout(scanned.blocks), metadata=metadata, body_start=start)
