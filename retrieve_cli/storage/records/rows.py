"""Stored rows of a record and of a chunk, in `records.jsonl` and `chunks.jsonl`."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from retrieve_cli.contracts import Chunk, Json, Record
from retrieve_cli.contracts.layout import Place
from retrieve_cli.storage.manifest import canonical

_DESCRIPTION = 4000
"""Characters of a description kept for display; the whole of it is in the chunks."""


class RecordContent(NamedTuple):
    """The content of a record, independent of its place."""

    values: dict[str, Json]
    """Keys of its stored row."""
    digest: bytes
    """SHA-1 of these and of its text, 20 bytes."""


def content_of(record: Record) -> RecordContent:
    """Return the content of a record."""
    import orjson  # ten times as fast as `canonical`, which also takes huge numbers and lone surrogates

    values = {
        "id": record.id,
        "name": record.name,
        "description": record.description[:_DESCRIPTION].rstrip(),
        "url": record.url,
        "license": record.license,
        "keywords": list(record.keywords),
        "group": record.group,
        "supporting_data": dict(record.supporting_data),
        "metadata": dict(record.metadata),
        "fields": {field.name: field.weight for field in record.fields},
        "kind": record.kind,
    }
    whole = [values, record.text, [field.text for field in record.fields]]
    try:
        text = orjson.dumps(whole, option=orjson.OPT_SORT_KEYS)
    except TypeError:
        text = canonical(whole)
    return RecordContent(values, hashlib.sha1(text, usedforsecurity=False).digest())


def record_row(record: Record, content: RecordContent) -> dict[str, Json]:
    """Return the stored form of a record: its text is in its chunks, its line in `offsets.pkl`.

    `spans` has the place in that text of each field of a catalog's record, which `inspect records` restores.
    """
    row = dict(content.values)
    if record.kind == "catalog":
        starts = [record.text.find(field.text) for field in record.fields]
        if starts and -1 not in starts:
            pairs = zip(starts, record.fields, strict=True)
            row["spans"] = [[start, start + len(field.text)] for start, field in pairs]
    row["source"] = record.source
    row["sha1"] = content.digest.hex()
    return row


def chunk_rows(record: Record, chunks: Sequence[Chunk]) -> Iterator[dict[str, Json]]:
    """Yield the stored form of a record's chunks; for a catalog with the text before a chunk (`gap`), if it is more
    than a space, and after the last one (`rest`)."""
    end = 0
    for chunk in chunks:
        row = chunk_row(record, chunk)
        if record.kind == "catalog":
            gap = record.text[end : chunk.start]
            end = max(end, chunk.end)
            if gap and gap != " ":
                row["gap"] = gap
            if chunk is chunks[-1] and end < len(record.text):
                row["rest"] = record.text[end:]
        yield row


def shown_row(row: Mapping[str, Json]) -> dict[str, Json]:
    """Return a stored record or chunk without the keys that restore the text of a record, and without supporting data
    if these are empty."""
    shown = {key: value for key, value in row.items() if key not in ("spans", "gap", "rest")}
    if not any(row.get("supporting_data", {}).values()):
        shown.pop("supporting_data", None)
    return shown


def chunk_row(record: Record, chunk: Chunk) -> dict[str, Json]:
    """Return the stored form of a chunk, its lines counted from the line of its record.

    `table_header`, `sections`, `facets` and its place are there only if it has them.
    """
    return {
        "id": chunk.id,
        "doc_id": chunk.doc_id,
        "index": chunk.index,
        "text": chunk.text,
        "section": chunk.section,
        "header": chunk.header,
        **({"table_header": chunk.table_header} if chunk.table_header else {}),
        **({"sections": list(chunk.sections)} if chunk.sections else {}),
        "source": record.source,
        "start": chunk.start,
        "end": chunk.end,
        "start_line": chunk.start_line - record.line,
        "end_line": chunk.end_line - record.line,
        "tokens": chunk.tokens,
        **({} if chunk.place is None else place_row(chunk.place)),
        **({"facets": dict(chunk.facets)} if chunk.facets is not None else {}),
    }


def place_row(place: Place) -> dict[str, Json]:
    """Return the stored form of a chunk's place: its pages, anchor and boxes, if any."""
    values = {
        "page": place.page,
        "page_end": place.page_end,
        "page_label": place.page_label,
        "page_label_end": place.page_label_end,
        "anchor": place.anchor,
        "boxes": [list(box) for box in place.boxes] or None,
        "in_lines": True if place.in_lines else None,
    }
    return {"content_type": place.kind, **{key: value for key, value in values.items() if value is not None}}
