"""Pictures of pages of an indexed document, with a passage marked: only of the very file that was indexed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from retrieve_cli.assemble import documents
from retrieve_cli.contracts import DocumentFile, Holding, Json
from retrieve_cli.contracts.layout import Box, Mark
from retrieve_cli.errors import BadDocument, Conflict, NotFound, quoted

if TYPE_CHECKING:
    from retrieve_cli.search.opened import Opened

MOST = 4
"""Pages of one picture."""


def pages_of(chunk: Mapping[str, Json]) -> Sequence[int]:
    """Return the pages of a stored chunk; empty if its document has no pages."""
    first = chunk.get("page")
    return range(first, (chunk.get("page_end") or first) + 1) if isinstance(first, int) else ()


def drawable(record: Mapping[str, Json], chunk: Mapping[str, Json] | None) -> Sequence[int]:
    """Return the pages of a chunk that can be drawn: none if its document is not a PDF."""
    return () if chunk is None or record["kind"] != documents.DRAWN else pages_of(chunk)[:MOST]


def passage(opened: Opened, row: int, chunk: Mapping[str, Json] | None, *, pages: Sequence[int] = ()) -> bytes:
    """Return a PNG of the pages of a chunk, side by side, in which its words are marked; of `pages` instead, if given.
    At most four are drawn. `row` is the row of the record.

    Raises:
        NotFound: the document is not a PDF, or lacks a page.
        Conflict: its file is gone or has changed since the build.
        BadDocument: it cannot be drawn.
        Unavailable: a package is missing.
    """
    record = opened.generation.records[row]
    wanted = pages or (pages_of(chunk) if chunk is not None else ())
    if record["kind"] != documents.DRAWN or not wanted:
        message = f"{quoted(record['id'])} has no pages that can be drawn"
        raise NotFound(message, hint="pictures are drawn of passages of PDF files")
    boxes = [Box(*values) for values in (chunk or {}).get("boxes", ())]
    marks = [Mark(box, "passage") for box in boxes if box.page in wanted]
    file = _original(opened, row, record)
    try:
        return documents.draw(file, wanted[:MOST], settings=opened.settings, marks=marks)
    except BadDocument:
        _original(opened, row, record)  # raises Conflict if it has changed or gone since
        raise


def _original(opened: Opened, row: int, record: Mapping[str, Json]) -> DocumentFile:
    """Return a record's file with the content that was indexed. Raises: Conflict."""
    source, hint = opened.source_of(row), "bring the index up to date: retrieve sync"
    try:
        file = source.original(record, opened.generation.origin(row)) if isinstance(source, Holding) else None
    except FileNotFoundError as error:
        raise Conflict(f"the file of {quoted(record['id'])} is gone", hint=hint) from error
    except OSError as error:
        said = f"the file of {quoted(record['id'])} cannot be read: {error.strerror}"
        raise Conflict(said, hint="check its permissions") from error
    if file is None:
        raise Conflict(f"the file of {quoted(record['id'])} has changed since the build", hint=hint)
    return file
