"""A source that was looked at once: of items that stayed their digests, the others as they were read.

A sync plans and applies from the same look: what it publishes is what it planned, and a changed item is parsed once.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence

from retrieve_cli.contracts import Item, Json, Notice, Record, Refused, Source, SourceKind
from retrieve_cli.errors import RetrieveError, shortened

_MOST_TEXT = 64 << 20
"""Characters of parsed records that are kept; a sync with more to read parses them again."""
_DIGEST = 20

Piece = Record | Refused | Notice


def pieces_of(item: Item) -> list[Piece]:
    """Return what an item is read as. An error that nobody foresaw rejects the item and not the run: one document must
    not keep all others from being published.

    Raises:
        RetrieveError: the source itself cannot be read.
    """
    try:
        return list(item.read())
    except (RetrieveError, MemoryError):
        raise
    except Exception as error:  # noqa: BLE001  whatever a parser meets in a text from outside
        return [Refused(item.source, item.line, unforeseen(error))]


def unforeseen(error: Exception) -> str:
    """The reason why an item is rejected on which a part of the program failed."""
    return f"it cannot be processed ({type(error).__name__}: {shortened(str(error))}); please report it"


class Scanned:
    """A source as one look found it; it can be gone through again without touching the files."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self.kind: SourceKind = source.kind
        self.name = source.name
        self._stamp = source.stamp()
        self._digests = bytearray()
        self._lines = array("q")
        self._places: list[str] = []
        self._others: dict[int, Refused | Notice] = {}
        self._read: dict[int, Sequence[Piece]] = {}
        self._text = 0

    @property
    def whole(self) -> bool:
        """True if all of it is remembered; otherwise `scan` goes through the source itself."""
        return self._text <= _MOST_TEXT

    def keep(self, item: Item | Refused | Notice, pieces: Sequence[Piece] | None = None) -> None:
        """Remember an item; `pieces` are what it was read as, if it was read."""
        if not self.whole:
            return
        if not isinstance(item, Item):
            self._others[len(self._lines)] = item
        elif pieces is not None:
            self._read[len(self._lines)] = pieces
            self._text += sum(len(piece.text) for piece in pieces if isinstance(piece, Record))
        self._digests += item.digest if isinstance(item, Item) else bytes(_DIGEST)
        self._lines.append(item.line if isinstance(item, Item) else 0)
        self._places.append(item.source)
        if not self.whole:
            self._others, self._read = {}, {}

    @property
    def card(self) -> Mapping[str, Json]:
        return self._source.card

    @property
    def origin(self) -> Mapping[str, Json]:
        return self._source.origin

    def fetch(self) -> None:
        """It was fetched before it was looked at."""

    def stamp(self) -> list[int] | None:
        """Return the marks of the file as they were before the look."""
        return self._stamp

    def scan(self) -> Iterator[Item | Refused | Notice]:
        """Yield every item in order, as it was found."""
        if not self.whole:
            yield from self._source.scan()
            return
        for at, (line, place) in enumerate(zip(self._lines, self._places, strict=True)):
            if at in self._others:
                yield self._others[at]
                continue
            digest = bytes(self._digests[at * _DIGEST : (at + 1) * _DIGEST])
            pieces = self._read.get(at, ())
            yield Item(digest=digest, source=place, line=line, read=lambda pieces=pieces: pieces)  # type: ignore[misc]
