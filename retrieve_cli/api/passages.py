"""Texts of an open index by id: of a record, or of a record from one of its chunks on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, NamedTuple

from retrieve_cli.api.contents import visible_to
from retrieve_cli.contracts import Json
from retrieve_cli.errors import NotFound, UsageError
from retrieve_cli.search.places import place_of, together
from retrieve_cli.storage.records.lookup import find_chunk, find_record

if TYPE_CHECKING:
    from retrieve_cli.api.index import Index
    from retrieve_cli.contracts import Mask
    from retrieve_cli.contracts.layout import Place
    from retrieve_cli.storage.generation import Generation


class Passage(NamedTuple):
    """The text of a record."""

    record: Mapping[str, Json]
    text: str
    """Its whole text."""
    start: int
    """Beginning of the chunk that was asked for; 0 for a record."""
    end: int
    """Its end."""
    chunks: Sequence[tuple[int, int, Place | None]] = ()
    """Beginning and end in `text` of each chunk of the record, and its place without boxes."""

    def place(self, start: int, end: int) -> Place | None:
        """Return the pages of `text[start:end]`, to the chunk; None if the record has no layout."""
        shown = (place for begin, stop, place in self.chunks if begin < end and stop > start)
        return reduce(together, shown, None)


def passage_of(index: Index, name: str, *, tenant: str | None = None) -> Passage:
    """Return the text of a record, by its id or by the id of one of its chunks.

    Raises:
        NotFound: the caller has neither; the hint names the nearest record that the caller has.
    """
    with index.reading() as generation:
        row, chunk = _find(generation, name, visible_to(generation, tenant))
        first, end = (int(place) for place in generation.starts[row : row + 2])
        rows = [generation.chunks[at] for at in range(first, end)]
        text, places = _joined(rows)
        start, stop = (0, len(text)) if chunk is None else places[chunk - first]
        chunks = [(*at, _without_boxes(place_of(stored))) for at, stored in zip(places, rows, strict=True)]
        return Passage(generation.records[row], text, start, stop, chunks)


def _without_boxes(place: Place | None) -> Place | None:
    return place and place._replace(boxes=())


def _find(generation: Generation, name: str, visible: Mask | None) -> tuple[int, int | None]:
    """Return the row of a record, and the row of a chunk if the id names a chunk."""
    try:
        return find_record(generation, name, visible=visible), None
    except UsageError as error:
        try:
            chunk = find_chunk(generation, name, visible=visible)
        except UsageError:
            raise NotFound(error.message, hint=error.hint if error.hint.startswith("did you") else "") from None
        record = name.rpartition("#")[0]
        return find_record(generation, record, visible=visible), chunk


def _joined(chunks: list[dict[str, Json]]) -> tuple[str, list[tuple[int, int]]]:
    """Return the text of chunks, which may overlap, and where each of them begins and ends in it. Of what lies between
    two of them, all of it white space, only the extent is known."""
    parts: list[str] = []
    places: list[tuple[int, int]] = []
    size = done = 0
    for chunk in chunks:
        start, text = int(chunk["start"]), str(chunk["text"])
        shared = min(max(done - start, 0), len(text))
        between = "\n" * min(max(start - done, 0), 2) if parts else ""
        parts += [between, text[shared:]]
        size += len(between) + len(text) - shared
        places.append((size - len(text), size))
        done = max(done, int(chunk["end"]))
    return "".join(parts), places
