"""Pictures of pages for a caller: a record that another tenant has does not exist for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from retrieve_cli.api import contents
from retrieve_cli.errors import BadDocument, NotFound, UsageError, quoted
from retrieve_cli.search import pictures
from retrieve_cli.storage.manifest import sha1

if TYPE_CHECKING:
    from retrieve_cli.api.index import Index
    from retrieve_cli.contracts import Json

_RULES = 1
"""Version of the drawing."""


class PictureRequest(NamedTuple):
    """A picture that is asked for."""

    record_id: str
    chunk: int | None
    """Number of the chunk that is marked."""
    page: int | None
    """Number of the page, from 1; None: the first one of the chunk."""


def tag(index: Index, wanted: PictureRequest, *, tenant: str | None) -> str:
    """Return a text that changes with the picture.

    Raises:
        NotFound: the caller has no record with that id.
    """
    with index.reading() as generation:
        row = generation.row_of(wanted.record_id, visible=contents.visible_to(generation, tenant))
        if row is None:
            raise contents.no_record(wanted.record_id)
        return sha1([_RULES, generation.id, generation.origin(row).hex(), *wanted])


def picture(index: Index, wanted: PictureRequest, *, tenant: str | None) -> bytes:
    """Return the PNG of one page of a document, with the words of a chunk marked.

    Raises:
        NotFound: the caller has no record with that id, or the record does not have that chunk or page.
        Conflict: its file is gone or has changed since the build.
        Unavailable: a package is missing.
    """
    with index.reading() as generation:
        row = generation.row_of(wanted.record_id, visible=contents.visible_to(generation, tenant))
        if row is None:
            raise contents.no_record(wanted.record_id)
        chunk: dict[str, Json] | None = None
        if wanted.chunk is not None:
            start, end = int(generation.starts[row]), int(generation.starts[row + 1])
            if not 0 <= wanted.chunk < end - start:
                raise NotFound(f"{quoted(wanted.record_id)} has no chunk {wanted.chunk}", hint="chunks count from 0")
            chunk = generation.chunks[start + wanted.chunk]
        elif wanted.page is None:
            raise UsageError("neither a page nor a chunk is given", hint="?page=12, or ?chunk=3")
        pages = [wanted.page] if wanted.page is not None else pictures.pages_of(chunk or {})[:1]
        try:
            return pictures.passage(index.opened, row, chunk, pages=pages)
        except BadDocument as error:
            raise NotFound(f"{quoted(wanted.record_id)}: {error.message}", hint=error.hint) from error
