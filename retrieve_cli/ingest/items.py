"""Items of sources: the pieces of one, reading ahead, and the manifest's note on a source."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from retrieve_cli.contracts import Foldered, Item, Mapped, Notice, Record, Refused, SingleFile
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


def mapping_of(source: Source) -> Mapping[str, Json]:
    """Return the keys that the last scan of a source read under other names; empty if it has none."""
    return source.mapping() if isinstance(source, Mapped) else {}


class SourceMarks:
    """The marks of a source before it is read: what changes later shows against them."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self.stamp = source.stamp()
        self._marks: dict[str, Json] = {}
        if isinstance(source, Foldered) and (folders := source.folders()):
            self._marks["folders"] = folders
        if isinstance(source, SingleFile):
            self._marks["content"] = source.content_sha1()

    def origin(self) -> dict[str, Json]:
        """Return the manifest's note on the source: its place, its marks, and the mapping of its keys."""
        return {"origin": dict(self._source.origin), "stamp": self.stamp, **self._marks, **mapping_of(self._source)}


def is_untouched(source: Source, noted: Mapping[str, Json]) -> bool:
    """Return True if a source has the noted stamp, or is a file that was only touched.

    Raises:
        KeyError: the note is incomplete.
    """
    stamp = source.stamp()
    if stamp is None or stamp == noted["stamp"]:
        return stamp is not None
    return isinstance(source, SingleFile) and "content" in noted and source.content_sha1() == noted["content"]
