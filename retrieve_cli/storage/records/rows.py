"""Stored rows of a record and of a chunk, in `records.jsonl` and `chunks.jsonl`."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence

from retrieve_cli.contracts import Chunk, Json, Record
from retrieve_cli.contracts.layout import Place
from retrieve_cli.storage.manifest import canonical

_DESCRIPTION = 4000
"""Characters of a description kept for display; the whole of it is in the chunks."""


def content_digest(record: Record) -> bytes:
    """Return the SHA-1 of the content of a record, independent of its place."""
    import orjson  # ten times as fast as `canonical`, which also takes huge numbers and lone surrogates

    content = [_content(record), record.text, [field.text for field in record.fields]]
    try:
        text = orjson.dumps(content, option=orjson.OPT_SORT_KEYS)
    except TypeError:
        text = canonical(content)
    return hashlib.sha1(text, usedforsecurity=False).digest()


def _content(record: Record) -> dict[str, Json]:
    return {
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


def record_row(record: Record, *, content: bytes) -> dict[str, Json]:
    """Return the stored form of a record: its text is in its chunks, its line in `offsets.pkl`.

    `content` is its `content_digest`; `spans` has the place in that text of each field of a catalog's record, which
    `inspect records` restores.
    """
    place = {"source": record.source, "sha1": content.hex()}
    starts = [record.text.find(field.text) for field in record.fields] if record.kind == "catalog" else []
    spans = [[start, start + len(field.text)] for start, field in zip(starts, record.fields, strict=False)]
    return {**_content(record), **({"spans": spans} if spans and -1 not in starts else {}), **place}


def chunk_rows(record: Record, chunks: Sequence[Chunk]) -> Iterator[dict[str, Json]]:
    """Yield the stored form of a record's chunks; for a catalog with the text before a chunk (`gap`), if it is more
    than a space, and after the last one (`rest`)."""
    end = 0
    for chunk in chunks:
        gap, end = record.text[end : chunk.start], max(end, chunk.end)
        between = {"gap": gap if gap != " " else "", "rest": record.text[end:] if chunk is chunks[-1] else ""}
        kept = {key: text for key, text in between.items() if text and record.kind == "catalog"}
        yield {**chunk_row(record, chunk), **kept}


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
