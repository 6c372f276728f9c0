"""The tools that read without searching: `fetch`, `list_fields` and `explain`; and the texts of resources.

`fetch` returns the text of a record, from a result on, as much of it as fits.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from retrieve_cli.api.asked import read_asked
from retrieve_cli.api.contents import FieldValues, Passage, fields_of, passage_of
from retrieve_cli.api.live import LiveIndex
from retrieve_cli.contracts import Json
from retrieve_cli.errors import NotFound, UsageError, printable, shortened
from retrieve_cli.operations.why import why
from retrieve_cli.output.compact import Count, clean, fields_line, own_fields
from retrieve_cli.output.places import fence_of, known_keys, pages
from retrieve_cli.server.mcp.addresses import SCHEME, CursorPlace, cursor_of, read_cursor, read_uri
from retrieve_cli.server.mcp.outcomes import Channels, ToolOutcome, compact_json
from retrieve_cli.server.mcp.tools import READ_TOKENS, counter_of, read_arguments, read_budget, read_names

_MOST_LETTERS = 16
"""Characters that a token has at most, so that a long text is not counted whole."""
_TITLE = 200
_ROOM = 4000
"""Most characters of a record's fields."""


class _Piece(NamedTuple):
    """A stretch of the text of a record."""

    passage: Passage
    start: int
    end: int
    given: Mapping[str, Json]
    generation: str
    channels: Channels
    fields: Mapping[str, Json]

    @property
    def text(self) -> str:
        return "\n".join(map(clean, self.passage.text[self.start : self.end].split("\n")))

    @property
    def following(self) -> str | None:
        """The cursor behind it; None at the end of the text."""
        if self.end >= len(self.passage.text):
            return None
        return cursor_of(CursorPlace(self.generation, self.end), self.given)


def fetch(live: LiveIndex, given: Mapping[str, Json], *, tenant: str | None, channels: Channels) -> ToolOutcome:
    """Return the outcome of reading a record.

    A record that does not fit is read from its beginning on, or from the chunk on that was asked for.

    Raises:
        RetrieveError: an argument cannot be understood, or the record or chunk does not exist.
    """
    values = read_arguments(given, "fetch")
    cursor, most = values.pop("cursor", None), read_budget(values.pop("max_tokens", None), default=READ_TOKENS)
    place = read_cursor(cursor, values)
    address = read_uri(values["id"]) if values["id"].startswith(SCHEME) else None
    index = live.at(place.generation or (address.generation if address else None))
    passage = passage_of(index, address.id if address else values["id"], tenant=tenant)
    count = counter_of(index)
    names = read_names(values.get("fields"))
    fields = own_fields(passage.record, names, min(_ROOM, most)) if cursor is None else {}
    piece = _Piece(passage, place.offset, len(passage.text), values, index.generation, channels, fields)
    if cursor is None and passage.start and count(_counted(piece)) > most:
        piece = piece._replace(start=passage.start)
    piece = _fitting(piece, most, count)
    structured = _structured(piece, texts=channels.structured or channels.mirrored)
    return ToolOutcome(structured, _content(piece), _head(piece))


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
    return {
        "id": piece.given["id"],
        "title": _title(record),
        "url": record["url"],
        "text": piece.text if texts else "",
        "metadata": {**piece.fields, "source": record["source"]},
        "start": piece.start,
        "end": piece.end,
        **known_keys(piece.passage.place(piece.start, piece.end)),
        "length": len(piece.passage.text),
        "generation": piece.generation,
        **({"next_cursor": piece.following} if piece.following else {}),
    }


def _content(piece: _Piece) -> str:
    fence = fence_of(f"{fields_line(piece.fields)}\n{piece.text}")
    last = f"\nnext_cursor: {piece.following}" if piece.following else ""
    fields = f"{line}\n\n" if (line := fields_line(piece.fields)) else ""
    return f"{_head(piece)}\n{fence}\n{fields}{piece.text}\n{fence}{last}"


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
    """Return the text at the address of a record or chunk. Raises: NotFound: it does not exist for the caller."""
    missing = NotFound(f"there is no resource {printable(shortened(uri))}")
    if (address := read_uri(uri)) is None:
        raise missing
    try:
        index = live.at(address.generation)
    except UsageError:
        raise missing from None
    passage = passage_of(index, address.id, tenant=tenant)
    text = "\n".join(map(clean, passage.text[passage.start : passage.end].split("\n")))
    fields = own_fields(passage.record, (), _ROOM) if address.generation is None else {}
    return "\n".join([*(fields_line({name: value}) for name, value in fields.items()), *([""] if fields else []), text])


# ------------------------------------------------------------------------------------------------- list_fields, explain


_FEW, _MANY = 5, 100
"""Values of each field, and of the one that is asked for."""
_EXPLAINED: Sequence[str] = ("id", "verdict", "in_index", "rank", "may_be_found", "filters")
_LONGEST = 60
"""Characters of a value."""


def list_fields(live: LiveIndex, given: Mapping[str, Json], *, tenant: str | None, channels: Channels) -> ToolOutcome:
    """Return the outcome of listing the fields of the caller's records.

    Raises:
        RetrieveError: an argument cannot be understood, or no record of the caller has the field.
    """
    values = read_arguments(given, "list_fields")
    cursor, most = values.pop("cursor", None), read_budget(values.pop("max_tokens", None))
    place, field = read_cursor(cursor, values), values.get("field")
    index = live.at(place.generation)
    count = counter_of(index)
    names, examples = ([field], _MANY) if field else ([], _FEW)
    fields = [
        each._replace(values=[(printable(shortened(value, _LONGEST)), records) for value, records in each.values])
        for each in fields_of(index, tenant=tenant, names=names, examples=examples)
    ]
    left = fields[place.offset :]

    def page(shown: Sequence[FieldValues]) -> tuple[dict[str, Json], str]:
        after = place.offset + len(shown)
        following = cursor_of(CursorPlace(index.generation, after), values) if after < len(fields) else None
        more = {"next_cursor": following} if following else {}
        structured = {"fields": [each.to_json() for each in shown], "generation": index.generation, **more}
        return structured, "\n".join(field.line() for field in shown) + (
            f"\nnext_cursor: {following}" if following else ""
        )

    def size(shown: Sequence[FieldValues]) -> int:
        structured, text = page(shown)
        return count(text if channels.content else compact_json(structured))

    shown = left[:1]
    while len(shown) == 1 and size(shown) > most and len(shown[0].values) > 1:
        kept = shown[0].values[: len(shown[0].values) // 2]
        shown = [shown[0]._replace(values=kept, others=shown[0].others + len(shown[0].values) - len(kept))]
    while len(shown) < len(left) and size([*shown, left[len(shown)]]) <= most:
        shown = [*shown, left[len(shown)]]
    structured, text = page(shown)
    return ToolOutcome(structured, text or "no record has a field", f"{len(shown)} fields in structuredContent")


def explain(live: LiveIndex, given: Mapping[str, Json], *, tenant: str | None, channels: Channels) -> ToolOutcome:
    """Return the outcome of explaining the rank of a record, or of a chunk.

    Raises:
        RetrieveError: an argument cannot be understood, or the search fails.
    """
    del channels
    values = read_arguments(given, "explain")
    asked = read_asked({"query": values["query"]}, where="explain", tenant=tenant)
    view, notices = why(live.index.opened, asked.request, values["id"])
    structured: dict[str, Any] = {
        **{key: view[key] for key in _EXPLAINED if key in view},
        "retrievers": view.get("retrievers", {}),
        "stages": view.get("stages", []),
        **({"notices": list(notices)} if notices else {}),
    }
    lines = [printable(f"{view['id']}: {view['verdict']}")]
    ranks = {name: standing["rank"] for name, standing in structured["retrievers"].items()}
    lines += [f"{name}: {'no match' if rank is None else f'rank {rank}'}" for name, rank in ranks.items()]
    lines += [f"{stage['stage']}: rank {stage['rank'] or '-'} of {stage['hits']}" for stage in structured["stages"]]
    return ToolOutcome(structured, "\n".join(lines), str(view["verdict"]))
