"""Values by which a row of `records.jsonl` can be filtered: fields with their values as text, some of them numbers.

Limits apply to one record, never to the catalog: the values of a record do not depend on the others, so that a row can
be taken over from an older generation, and the columns stay a fraction of the records.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from math import isfinite

from retrieve_cli.contracts import Json
from retrieve_cli.contracts.terms.tenants import KEYS, TENANT

LONGEST_VALUE = 200
"""Characters of a value; longer texts are prose. Ids, names and paths have no limit."""
MOST_VALUES = 100
"""Values of one field of a record; a field with more is data (a vector, a table) and is skipped."""
MOST_FIELDS = 200
"""Fields that a record's metadata may have."""
LONGEST_NAME = 100
DEEPEST = 8
"""Levels of objects in metadata."""

OMITTED = ""
"""The field whose values are the names of fields with skipped values."""
PATHS = frozenset({"path", "source"})
"""Fields in which a glob's `*` stays within a folder."""
FIELDS = frozenset("id name license group keyword kind source path modality dimension format".split())
"""Fields that any record may have, in addition to the fields of its metadata."""
_SPELLINGS = {
    **{name: name for name in FIELDS},
    "keywords": "keyword",
    "modalities": "modality",
    "dimensions": "dimension",
    "dims": "dimension",
    "dim": "dimension",
    "formats": "format",
}
_METADATA = "metadata."
"""In front of the name of a field in metadata that is called like one of `FIELDS`."""
_SUPPORTING = {"modality": "modalities", "dimension": "dimensions", "format": "formats"}
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_DIMENSION = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*+(?:-\s*+)?[dD]")


def known_as(name: str) -> str:
    """Return the field that an alias names, if any record may have it; else the name itself."""
    return TENANT if name.casefold() in KEYS else _SPELLINGS.get(name.casefold(), name)


def number_of(field: str, value: str) -> float | None:
    """Return the number that a value is, if it is one; a dimension may be written 3D."""
    if field == "dimension" and (match := _DIMENSION.fullmatch(value)):
        value = match[1]
    number = float(value) if _NUMBER.fullmatch(value) else None
    return number if number is not None and isfinite(number) else None


def values_of(row: Mapping[str, Json]) -> dict[str, list[str]]:
    """Return the values of each field of a record, distinct without regard to case; under `OMITTED` the skipped fields.

    A field that the record itself does not have is taken from its metadata, if there is one of that name.
    """
    fields: dict[str, list[str]] = {name: [row[name]] for name in ("id", "name", "kind", "source")}
    fields["path"] = fields["id"] if row["kind"] == "catalog" else fields["source"]
    omitted: dict[str, None] = {}
    supporting = row["supporting_data"]
    limited = [(name, row[name]) for name in ("license", "group")]
    limited += [("keyword", row["keywords"])]
    limited += [(name, supporting.get(key)) for name, key in _SUPPORTING.items()]
    metadata = list(_leaves(row["metadata"], "", DEEPEST))
    omitted |= dict.fromkeys(name[:LONGEST_NAME] for name, _ in metadata[MOST_FIELDS : 2 * MOST_FIELDS])
    for name, value in (*limited, *metadata[:MOST_FIELDS]):
        texts, complete = _texts(value)
        if not complete or len(name) > LONGEST_NAME:
            omitted[name[:LONGEST_NAME]] = None
        if texts and len(name) <= LONGEST_NAME:
            fields[name] = fields[name] + texts if name in fields else texts
    for name in [name for name in fields if name.startswith(_METADATA)]:
        if (shadowing := known_as(name.removeprefix(_METADATA))) in FIELDS:
            fields.setdefault(shadowing, fields[name])
    fields = _with_tenants(fields)
    values = {name: _distinct(texts) for name, texts in fields.items() if texts[0]}
    return {**values, OMITTED: list(omitted)} if omitted else values


def _with_tenants(fields: dict[str, list[str]]) -> dict[str, list[str]]:
    """Return the fields with the tenants that every key names. With keys that disagree, a record has no tenant."""
    named = [fields[key] for key in KEYS if key in fields]
    shared = [text for text in named[0] if all(text in others for others in named)] if named else []
    others = {name: texts for name, texts in fields.items() if name != TENANT}
    return {**others, TENANT: shared} if shared else others


def _leaves(value: Mapping[str, Json], prefix: str, levels: int) -> Iterator[tuple[str, Json]]:
    """Yield name and value of everything in metadata that is not an object, names joined by dots."""
    for key, part in value.items():
        name = prefix + key.strip()
        if isinstance(part, Mapping) and levels > 1:
            yield from _leaves(part, name + ".", levels - 1)
        elif part is not None:
            yield (name if name and name.casefold() not in _SPELLINGS else _METADATA + name), part


def _texts(value: Json) -> tuple[list[str], bool]:
    """Return the values as text, and whether these are all."""
    parts = value if isinstance(value, list | tuple) else [value]
    if len(parts) > MOST_VALUES:
        return [], False
    texts = [_text(part) for part in parts if part is not None]
    return [text for text in texts if text], None not in texts


def _text(value: Json) -> str | None:
    """Return one value as text; empty if it is blank, None if it does not belong in a column."""
    if isinstance(value, str):
        text = value.strip()
        return text if len(text) <= LONGEST_VALUE else None
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else None


def _distinct(texts: list[str]) -> list[str]:
    if len(texts) == 1:
        return texts
    first: dict[str, str] = {}
    for text in texts:
        first.setdefault(text.casefold(), text)
    return list(first.values())
