"""Items of sources: reading them, ahead and with progress, their pieces, and the manifest's note on a source."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from functools import partial
from typing import TYPE_CHECKING

from retrieve_cli.contracts import Countable, Foldered, Item, Mapped, Notice, Record, Refused, SingleFile
from retrieve_cli.contracts.progress import Task, task
from retrieve_cli.contracts.terms.tenants import conflict_in
from retrieve_cli.errors import RetrieveError, shortened

if TYPE_CHECKING:
    from retrieve_cli.contracts import Json, Source

_EXCERPT = 200
"""Characters of a rejected record that are kept."""
_AHEAD = 16
"""Items that are read in the background at most; each may be a large document."""

Piece = Record | Refused | Notice
Placed = tuple[int, Item | Refused | Notice]
"""An item with its number in its source."""


def pieces_of(item: Item | Refused | Notice) -> list[Piece]:
    """Return the pieces of an item. An unexpected error rejects the item, not the run: one document must not keep all
    others from being published.

    Raises:
        RetrieveError: the source itself cannot be read.
    """
    if not isinstance(item, Item):
        return [item]
    try:
        return [_owned(piece) for piece in item.read()]
    except (RetrieveError, MemoryError):
        raise
    except Exception as error:  # noqa: BLE001  a parser may fail on any text from outside
        return [Refused(item.source, item.line, unforeseen(error))]


def _owned(piece: Piece) -> Piece:
    """Return the piece, rejected if it is a record with contradicting tenants."""
    if isinstance(piece, Record) and (reason := conflict_in(piece.metadata)):
        return Refused(piece.source, piece.line, reason, piece.text[:_EXCERPT])
    return piece


def unforeseen(error: Exception) -> str:
    """Return the reason to reject an item on which a part of the program failed."""
    return f"it cannot be processed ({type(error).__name__}: {shortened(str(error))}); please report it"


def read_ahead(items: Iterable[Placed]) -> Iterator[Placed]:
    """Yield items in order; reading of the next ones begins in the background, so that all cores have work."""
    waiting: deque[Placed] = deque()
    for placed in items:
        item = placed[1]
        if isinstance(item, Item) and item.begin is not None:
            item.begin()
        elif not waiting:
            yield placed
            continue
        waiting.append(placed)
        if len(waiting) >= _AHEAD:
            yield waiting.popleft()
    yield from waiting


def reading(source: Source, what: str = "reading") -> AbstractContextManager[Task]:
    """Begin the task of reading a source, counted in items."""
    unit = "records" if source.kind == "catalog" else "files"
    return task(f"{what} {shortened(source.name, 40)}", unit, partial(_count, source))


def _count(source: Source) -> int | None:
    """Return the number of items, if the source knows it; the reader reports unreadable sources."""
    with suppress(OSError, RetrieveError):
        return source.count() if isinstance(source, Countable) else None
    return None


def mapping_of(source: Source) -> Mapping[str, Json]:
    """Return the keys that the last scan of a source read under other names; empty if it has none."""
    return source.mapping() if isinstance(source, Mapped) else {}


def marks_of(source: Source, noted: Mapping[str, Json] = {}) -> dict[str, Json]:
    """Return the manifest's note on a source before it is read: its place, and its marks, which show later changes. A
    file that has the stamp of an earlier note is not read."""
    marks: dict[str, Json] = {"origin": dict(source.origin), "stamp": source.stamp()}
    if isinstance(source, Foldered) and (folders := source.folders()):
        marks["folders"] = folders
    if isinstance(source, SingleFile):
        settled = "content" in noted and noted.get("stamp") == marks["stamp"]
        marks["content"] = noted["content"] if settled else source.content_sha1()
    return marks


def is_untouched(marks: Mapping[str, Json], noted: Mapping[str, Json]) -> bool:
    """Return True if the marks of a source have the noted stamp, or the content of a file that was only touched."""
    if marks["stamp"] is None:
        return False
    content = marks.get("content")
    return bool(marks["stamp"] == noted.get("stamp") or (content and content == noted.get("content")))
