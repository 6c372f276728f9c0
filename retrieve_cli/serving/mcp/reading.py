"""The tool `fetch`: the text of a record, from a result on, as much of it as fits; and the texts of resources."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from typing import Any, NamedTuple

from retrieve_cli.api.live import LiveIndex
from retrieve_cli.api.passages import Passage, passage_of
from retrieve_cli.contracts import Json
from retrieve_cli.errors import NotFound, UsageError, printable, shortened
from retrieve_cli.output.citations import fence_of
from retrieve_cli.output.compact import Count, clean
from retrieve_cli.output.places import known_keys, pages
from retrieve_cli.serving.mcp.channels import Channels
from retrieve_cli.serving.mcp.counting import counter_of
from retrieve_cli.serving.mcp.cursors import Place, cursor_of, read_cursor
from retrieve_cli.serving.mcp.outcomes import Outcome, compact_json
from retrieve_cli.serving.mcp.tools import read_arguments, read_budget
from retrieve_cli.serving.mcp.uris import SCHEME, read_uri

_MOST_LETTERS = 16
"""Characters that a token has at most, so that a long text is not counted whole."""
_TITLE = 200
_METADATA = ("license", "group", "keywords", "source")


class _Piece(NamedTuple):
    """A stretch of the text of a record."""

    passage: Passage
    start: int
    end: int
    given: Mapping[str, Json]
    generation: str
    channels: Channels

    @property
    def text(self) -> str:
        return "\n".join(map(clean, self.passage.text[self.start : self.end].split("\n")))

    @property
    def following(self) -> str | None:
        """The cursor behind it; None at the end of the text."""
        if self.end >= len(self.passage.text):
            return None
        return cursor_of(Place(self.generation, self.end), self.given)


def fetch(live: LiveIndex, given: Mapping[str, Json], *, tenant: str | None, channels: Channels) -> Outcome:
    """Return the outcome of reading a record.

    A record that does not fit is read from its beginning on, or from the chunk on that was asked for.

    Raises:
        RetrieveError: an argument cannot be understood, or there is no such record or chunk.
    """
    values = read_arguments(given, "fetch")
    cursor, most = values.pop("cursor", None), read_budget(values.pop("max_tokens", None))
    place = read_cursor(cursor, values)
    address = read_uri(values["id"]) if values["id"].startswith(SCHEME) else None
    index = live.at(place.generation or (address.generation if address else None))
    passage = passage_of(index, address.id if address else values["id"], tenant=tenant)
    count = counter_of(index)
    piece = _Piece(passage, place.offset, len(passage.text), values, index.generation, channels)
    if cursor is None and passage.start and count(_counted(piece)) > most:
        piece = piece._replace(start=passage.start)
    piece = _fitting(piece, most, count)
    return Outcome(_structured(piece, texts=channels.structured or channels.mirrored), _content(piece), _head(piece))


def _fitting(piece: _Piece, most: int, count: Count) -> _Piece:
    """The longest stretch from the same start that fits, up to the end of a line or a word."""
    text, start = piece.passage.text, piece.start
    if start >= len(text) > 0:
        raise UsageError("the cursor is behind the end of the text", hint="omit it to read from the start")
    lengths = range(1, min(len(text) - start, most * _MOST_LETTERS) + 1)
    size = bisect_left(lengths, x=True, key=lambda size: count(_counted(piece._replace(end=start + size))) > most)
    end = start + size
    if end < len(text):
        line, word = text.rfind("\n", start + size // 2, end), text.rfind(" ", start + size // 2, end)
        end = line + 1 if line > 0 else word + 1 if word > 0 else end
    if end <= start < len(text):
        raise UsageError(f"nothing of it fits into {most} tokens", hint="raise max_tokens")
    return piece._replace(end=end)


def _counted(piece: _Piece) -> str:
    """The channel that has the text."""
    return _content(piece) if piece.channels.content else compact_json(_structured(piece, texts=True))


def _structured(piece: _Piece, *, texts: bool) -> dict[str, Json]:
    record = piece.passage.record
    metadata = {key: record[key] for key in _METADATA if record.get(key)}
    return {
        "id": piece.given["id"],
        "title": _title(record),
        "url": record["url"],
        "text": piece.text if texts else "",
        "metadata": metadata,
        "start": piece.start,
        "end": piece.end,
        **known_keys(piece.passage.place(piece.start, piece.end)),
        "length": len(piece.passage.text),
        "generation": piece.generation,
        **({"next_cursor": piece.following} if piece.following else {}),
    }


def _content(piece: _Piece) -> str:
    fence = fence_of(piece.text)
    last = f"\nnext_cursor: {piece.following}" if piece.following else ""
    return f"{_head(piece)}\n{fence}\n{piece.text}\n{fence}{last}"


def _head(piece: _Piece) -> str:
    record, whole = piece.passage.record, len(piece.passage.text)
    part = "" if piece.end - piece.start >= whole else f" (characters {piece.start}-{piece.end} of {whole})"
    parts = (
        _title(record),
        f"[{printable(str(record['id']))}]",
        pages(piece.passage.place(piece.start, piece.end)),
        printable(shortened(str(record["url"] or ""), _TITLE)),
    )
    return " ".join(filter(None, parts)) + part


def _title(record: Mapping[str, Any]) -> str:
    return printable(shortened(str(record["name"]), _TITLE))


def read_resource(live: LiveIndex, uri: str, *, tenant: str | None) -> str:
    """Return the text at the address of a record or chunk.

    Raises:
        NotFound: there is none for the caller.
    """
    if (address := read_uri(uri)) is None:
        raise NotFound(f"there is no resource {printable(shortened(uri))}")
    try:
        index = live.at(address.generation)
    except UsageError:
        raise NotFound(f"there is no resource {printable(shortened(uri))}") from None
    passage = passage_of(index, address.id, tenant=tenant)
    return "\n".join(map(clean, passage.text[passage.start : passage.end].split("\n")))
