"""Stored rows of a record and of a chunk, in `records.jsonl` and `chunks.jsonl`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate

from retrieve_cli.contracts import Chunk, Json, Record
from retrieve_cli.layout.layout import Place
from retrieve_cli.storage.manifest import sha1

_DESCRIPTION = 4000
"""Characters of a description kept for display; the whole of it is in the chunks."""


def content_digest(record: Record) -> bytes:
    """Return the SHA-1 of the content of a record, independent of its place."""
    return bytes.fromhex(sha1([_content(record), record.text, [field.text for field in record.fields]]))


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


def record_row(record: Record, chunks: Sequence[Chunk] = (), *, content: bytes | None = None) -> dict[str, Json]:
    """Return a record as it is kept; its whole text is in its chunks. `content` is its `content_digest`, if known."""
    place = {"source": record.source, "line": record.line, "sha1": (content or content_digest(record)).hex()}
    return {**_content(record), **_divided(record, chunks), **place}


def _divided(record: Record, chunks: Sequence[Chunk]) -> dict[str, Json]:
    """Return where the fields of a catalog's record are in its text, and the text between its chunks if that is more
    than spaces one at a time: from these and the chunks `inspect records` restores the fields."""
    if record.kind != "catalog" or not record.fields:
        return {}
    starts = [record.text.find(field.text) for field in record.fields]
    spans = [[start, start + len(field.text)] for start, field in zip(starts, record.fields, strict=True)]
    ends = accumulate((chunk.end for chunk in chunks), max, initial=0)
    begins = [*(chunk.start for chunk in chunks), len(record.text)]
    gaps = [record.text[end:start] for end, start in zip(ends, begins, strict=True)]
    plain = not gaps[-1] and set(gaps) <= {"", " "}
    return {**({} if -1 in starts else {"spans": spans}), **({} if plain or not chunks else {"gaps": gaps})}


def shown_row(row: Mapping[str, Json]) -> dict[str, Json]:
    """Return a record as it is kept without the places of its fields."""
    return {key: value for key, value in row.items() if key not in ("spans", "gaps")}


def chunk_row(record: Record, chunk: Chunk) -> dict[str, Json]:
    """Return a chunk as it is kept; `table_header`, `sections`, `facets` and its place only if it has them."""
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
        "start_line": chunk.start_line,
        "end_line": chunk.end_line,
        "tokens": chunk.tokens,
        **({} if chunk.place is None else place_row(chunk.place)),
        **({"facets": dict(chunk.facets)} if chunk.facets else {}),
    }


def place_row(place: Place) -> dict[str, Json]:
    """Return the place of a chunk as it is kept: what it has of pages, anchor and boxes."""
    values = {
        "page": place.page,
        "page_end": place.page_end,
        "page_label": place.page_label,
        "page_label_end": place.page_label_end,
        "anchor": place.anchor,
        "boxes": [list(box) for box in place.boxes] or None,
    }
    return {"content_type": place.kind, **{key: value for key, value in values.items() if value is not None}}
