"""Records in JSON as other programs write it: a list within an object, and a record within an envelope."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from shlex import quote
from typing import Final

from retrieve_cli.contracts import Json
from retrieve_cli.errors import UsageError, shortened
from retrieve_cli.sources.catalogs.inferred import is_named

ENVELOPES: Final = (b'"function"', b'"lc"', b'"__data__"', b'"text_resource"')
"""Keys of which one is in the line of a record that is within an envelope."""
_DEEPEST: Final = 3
"""Levels of objects in which a list of records is looked for."""


def opened(item: Mapping[str, Json]) -> Mapping[str, Json]:
    """Return the record within an object: a function for language models, a document of LangChain or LlamaIndex."""
    inner = item.get("function")
    if item.get("type") == "function" and isinstance(inner, dict):
        return {**{key: value for key, value in item.items() if key not in ("type", "function")}, **inner}
    for key, mark in (("kwargs", "lc"), ("__data__", "__data__")):
        if mark in item and isinstance(inner := item.get(key), dict):
            item = inner
    resource = item.get("text_resource")
    if isinstance(resource, dict) and "text" not in item:
        return {**item, "text": resource.get("text")}
    return item


def is_around_records(item: Json) -> bool:
    """Return True if an object, which has neither a name nor words, is around a list of records."""
    if not isinstance(item, dict) or any(isinstance(value, str) and " " in value for value in item.values()):
        return False
    lists = dict(_lists(item))
    return len(lists) == 1 and not _is_record(item) and (_described(lists) or "id" not in item)


def records_in(item: Json, path: str) -> tuple[list[Json], str]:
    """Return the records of the only value in a file of JSON, and the keys that lead to them; the value itself, and an
    empty text, if it is one.

    Raises:
        UsageError: it has several lists, or its list does not hold objects.
    """
    if not isinstance(item, dict):
        return [item], ""
    if records := _of_frame(item):
        return records, "."
    lists = dict(_lists({"": item}))
    nearest = min((keys.count(".") for keys in lists), default=0)
    near = {keys or ".": entries for keys, entries in lists.items() if keys.count(".") == nearest}
    own = [_has(item, "name"), _has(item, "description"), isinstance(item.get("id"), str)]
    if not near or all(own[:2]) or (any(own) and not _described(near)):
        return [item], ""
    ((keys, records), *others) = near.items()
    if not others and isinstance(records[0], dict):
        return records, keys
    named = ", ".join(f"`{shortened(keys, 40)}` ({len(entries):,})" for keys, entries in near.items())
    what = f"several lists of records: {named}" if others else f"a list of lists, not of objects: {named}"
    message = f"{path} is one object of JSON with {what}"
    raise UsageError(message, hint=f"write one list of objects: jq '{keys}' {quote(path)} > records.json")


def _of_frame(item: Mapping[str, Json]) -> list[Json]:
    """Return the rows of a table that pandas wrote by columns; an empty list for any other object."""
    names, rows = item.get("columns"), item.get("data")
    if isinstance(names, list) and isinstance(rows, list) and all(isinstance(row, list) for row in rows):
        return [dict(zip(map(str, names), row, strict=False)) for row in rows]
    columns = [value for value in item.values() if isinstance(value, dict)]
    numbers = list(columns[0]) if columns and len(columns) == len(item) else []
    if (
        not columns
        or not all(number.isdigit() for number in numbers)
        or any(list(column) != numbers for column in columns)
    ):
        return []
    return [{name: column[number] for name, column in item.items() if isinstance(column, dict)} for number in numbers]


def _lists(item: Mapping[str, Json], above: str = "", depth: int = 0) -> Iterator[tuple[str, list[Json]]]:
    """Yield the lists of objects, or of lists, within an object, and its mappings of ids to objects, by the keys that
    lead to them."""
    for key, value in item.items():
        kinds = {type(part) for part in value} if isinstance(value, list) else set()
        if kinds in ({dict}, {list}):
            yield above + key, value
        elif isinstance(value, dict) and value and all(map(_is_record, value.values())):
            yield above + key, [_with_id(name, part) for name, part in value.items() if isinstance(part, dict)]
        elif isinstance(value, dict) and depth < _DEEPEST:
            yield from _lists(value, f"{above}{key}.", depth + 1)


def _with_id(name: str, item: Mapping[str, Json]) -> dict[str, Json]:
    """Return the record under a name, which is its id unless it is the number of a row."""
    return {**({} if name.isdigit() else {"id": name}), **opened(item)}


def _described(lists: Mapping[str, list[Json]]) -> bool:
    return any(_has(entry, "description") for entries in lists.values() for entry in entries)


def _is_record(item: Json) -> bool:
    return _has(item, "name") or _has(item, "description")


def _has(item: Json, field: str) -> bool:
    """Return True if an object has a key whose name is one of a field, with a text or null."""
    if not isinstance(item, dict):
        return False
    return any(is_named(key, field) and _may_be_text(value) for key, value in opened(item).items())


def _may_be_text(value: Json) -> bool:
    return value is None or isinstance(value[0] if isinstance(value, list) and value else value, str)
