"""Values by which a row of `records.jsonl` can be filtered: fields with their values as text, some of them numbers.

Limits apply to one record, never to the catalog: the values of a record do not depend on the others, so that a record
has the same values in every segment, and the columns stay a fraction of the records.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from retrieve_cli.contracts import Json
from retrieve_cli.contracts.canonical import canonical, number_of as canonical_number
from retrieve_cli.contracts.terms.tenants import KEYS, TENANT
from retrieve_cli.contracts.tools import columns_in

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
NOTE = "\x01"
"""The field of the names by which a note in Markdown is linked: its path and its file's name, without the suffix."""
HIDDEN = frozenset({OMITTED, NOTE})
"""Fields that no request can name."""
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
_PLAIN = (str, int, float, type(None))
_NOTES = frozenset({"md", "markdown"})
_METADATA = "metadata."
"""In front of the name of a field in metadata that is called like one of `FIELDS`."""
_SUPPORTING = {"modality": "modalities", "dimension": "dimensions", "format": "formats"}
_DIMENSION = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*+(?:-\s*+)?[dD]")


def known_as(name: str) -> str:
    """Return the field that an alias names, if any record may have it; else the name itself."""
    return TENANT if name.casefold() in KEYS else _SPELLINGS.get(name.casefold(), name)


def number_of(field: str, value: str) -> float | None:
    """Return the number that a value is, if it is one; a dimension may be written 3D."""
    if field == "dimension" and (match := _DIMENSION.fullmatch(value)):
        value = match[1]
    return canonical_number(value)


def values_of(row: Mapping[str, Json]) -> dict[str, list[str]]:
    """Return the distinct values of each field of a record, by canonical form; under `OMITTED` the skipped fields.

    A field that the record itself does not have is taken from its metadata, if there is one of that name.
    """
    fields: dict[str, list[str]] = {name: [row[name]] for name in ("id", "name", "kind", "source")}
    fields["path"] = fields["id"] if row["kind"] == "catalog" else fields["source"]
    omitted: dict[str, None] = {}
    supporting = row["supporting_data"]
    limited = [("license", row["metadata"].get("licenses") or row["license"]), ("group", row["group"])]
    limited += [("keyword", row["keywords"])]
    limited += [(name, supporting.get(key)) for name, key in _SUPPORTING.items()]
    metadata = list(_leaves(columns_in(row["metadata"]), "", DEEPEST)) if row["metadata"] else []
    omitted |= dict.fromkeys(name[:LONGEST_NAME] for name, _ in metadata[MOST_FIELDS : 2 * MOST_FIELDS])
    for name, value in (*limited, *metadata[:MOST_FIELDS]):
        if value is None or value == []:
            continue
        texts, complete = _texts(value)
        if not complete or len(name) > LONGEST_NAME:
            omitted[name[:LONGEST_NAME]] = None
        if texts and len(name) <= LONGEST_NAME:
            fields[name] = fields[name] + texts if name in fields else texts
    for name, _ in metadata:
        if name.startswith(_METADATA) and name in fields:
            shadowing = known_as(name.removeprefix(_METADATA))
            if shadowing in FIELDS:
                fields.setdefault(shadowing, fields[name])
    # A record has the tenants that every key names: with keys that disagree, none.
    named = [fields[key] for key in KEYS if key in fields]
    fields.pop(TENANT, None)
    shared = [text for text in named[0] if all(text in others for others in named)] if named else []
    if shared:
        fields[TENANT] = shared
    values = {name: texts if len(texts) == 1 else _distinct(texts) for name, texts in fields.items() if texts[0]}
    path, _, suffix = row["id"].rpartition(".")
    if path and suffix in _NOTES:
        values[NOTE] = _distinct([path, path.rpartition("/")[2] or path])
    return {**values, OMITTED: list(omitted)} if omitted else values


def _leaves(value: Mapping[str, Json], prefix: str, levels: int) -> Iterator[tuple[str, Json]]:
    """Yield name and value of everything in metadata that is not an object, names joined by dots; an object in a list
    is read like an object alone."""
    for key, part in value.items():
        name = prefix + key.strip()
        objects, others = _apart(part)
        for inner in objects if levels > 1 else ():
            yield from _leaves(inner, name + ".", levels - 1)
        left = part if levels == 1 else others
        if left is not None:
            is_own = name in HIDDEN or name.casefold() in _SPELLINGS
            yield (_METADATA + name if is_own else name), left


def _apart(value: Json) -> tuple[Sequence[Mapping[str, Json]], Json]:
    """Return the objects of a value, which may be a list, and what else is in it; None without anything else."""
    if isinstance(value, _PLAIN):
        return [], value
    if isinstance(value, Mapping):
        return [value], None
    if not isinstance(value, list | tuple) or not any(isinstance(part, Mapping) for part in value):
        return [], value
    objects = [part for part in value if isinstance(part, Mapping)]
    return objects, [part for part in value if not isinstance(part, Mapping)] or None


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
    first: dict[str, str] = {}
    for text in texts:
        first.setdefault(canonical(text), text)
    return list(first.values())
