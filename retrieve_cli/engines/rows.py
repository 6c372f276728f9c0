"""Names and values of rows as servers store them."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from retrieve_cli.contracts.engines import Equal, Row

LONGEST = 8_000
"""Bytes of the longest keyword that is stored verbatim; Lucene takes 32,766."""
_SIMPLE = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,99}")


def clean(text: str) -> str:
    """Return a text with escapes instead of lone surrogates, which UTF-8 does not have."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def keyword(field: str, value: str) -> str:
    """Return a field and one of its values as one keyword, `field=value`: different pairs have different ones.

    Pairs that are long, that are not Unicode, or that could be read in two ways are replaced by a digest.
    """
    text = f"{field}={value}"
    if clean(text) == text and len(text.encode()) <= LONGEST and "=" not in field and field[:1] not in ("", "#"):
        return text
    return f"#{digest(json.dumps([field, value]))}"


def number_key(field: str) -> str:
    """Return the key of a field with numbers or dates: its name if any server takes it, else a digest."""
    return field if _SIMPLE.fullmatch(field) else f"x-{digest(json.dumps(field))}"


def document(row: Row) -> dict[str, Any]:
    """Return texts and metadata of a row as JSON."""
    texts = {
        "chunk_id": row.id,
        "doc_id": row.record,
        "title": row.title,
        "section": row.section,
        "content": row.text,
        "stored": row.stored,
    }
    fields = [keyword(field, value) for field, values in row.keywords.items() for value in values]
    numbers = {name: numbers_of(group) for name, group in (("numbers", row.numbers), ("dates", row.dates)) if group}
    tenants = [clean(tenant) for tenant in row.tenants]
    return {**{key: clean(text) for key, text in texts.items()}, "tenant_id": tenants, "fields": fields, **numbers}


def numbers_of(group: Mapping[str, Sequence[float]]) -> dict[str, list[float]]:
    """Return numbers or dates by key."""
    return {number_key(field): list(values) for field, values in group.items()}


def keywords_of(given: Equal) -> tuple[str, list[str]]:
    """Return the key of a document and its values of which a filter needs one, each once."""
    key = {"record": "doc_id", "tenants": "tenant_id", "keywords": "fields"}[given.key]
    values = [keyword(given.field, value) if key == "fields" else clean(value) for value in given.values]
    return key, list(dict.fromkeys(values))


def number_fields(rows: Sequence[Row]) -> list[str]:
    """Return the paths of all numbers and dates of some rows, such as `numbers.year`, in order."""
    numbers = {f"numbers.{number_key(field)}" for row in rows for field in row.numbers}
    return sorted(numbers | {f"dates.{number_key(field)}" for row in rows for field in row.dates})


def digest(text: str) -> str:
    """Return a name of any text that every server takes: 40 hex digits."""
    return hashlib.sha1(text.encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest()
