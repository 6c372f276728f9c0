"""Texts in the values of a catalog's objects, which may be texts, numbers, lists and objects."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from retrieve_cli.contracts import Json

DEEPEST = 64
"""Maximum levels of nesting in a record or a graph."""
ADDRESS = re.compile(r"^[a-z][a-z0-9+.-]*://", re.IGNORECASE)
"""Beginning of an address."""


def strings(value: Json) -> list[str]:
    """Return the strings in a value of a catalog: a string, a number, a list, objects with a name or a url."""
    if isinstance(value, str):
        text = value.replace("\0", " ").strip()
        return [text] if text else []
    if isinstance(value, bool) or value is None:
        return []
    if isinstance(value, int | float):
        return [str(value)]
    if isinstance(value, Mapping):
        for key in ("name", "@value", "value", "@id", "id", "url"):
            if texts := strings(value.get(key)):
                return texts
        return []
    if isinstance(value, Iterable):
        return list(dict.fromkeys(text for part in value for text in strings(part)))
    return [str(value)]


def first(texts: list[str]) -> str:
    """Return the first of the texts, or an empty string."""
    return texts[0] if texts else ""


def first_at(item: Mapping[str, Json], paths: Iterable[str]) -> str:
    """Return the first string in the values at some paths of an object, or an empty string."""
    for path in paths:
        value = item[path] if path in item else value_at(item, path) if "." in path else None
        if value is not None and (texts := strings(value)):
            return texts[0]
    return ""


def addresses(value: Json) -> list[str]:
    """Return the addresses in a value: texts that are URLs, and ids of objects."""
    if isinstance(value, Mapping):
        value = value.get("@id", value.get("id"))
    if isinstance(value, list):
        return [text for part in value for text in addresses(part)]
    return [text for text in strings(value) if ADDRESS.match(text)] if isinstance(value, str) else []


def value_at(value: Json, path: str) -> Json:
    for step in path.split("."):
        if isinstance(value, Mapping):
            value = value.get(step)
        elif isinstance(value, list):
            value = [part[step] for part in value if isinstance(part, Mapping) and step in part]
        else:
            return None
    return value


def holds_any(line: bytes, marks: Iterable[bytes]) -> bool:
    """Return True if a line contains one of the marks. A loop: every line of a catalog passes here three times, and a
    generator takes longer than the search."""
    for mark in marks:  # noqa: SIM110
        if mark in line:
            return True
    return False


def too_deep(value: Json, levels: int = DEEPEST) -> bool:
    """Return True if a value is nested deeper than `levels`, by default the limit of a record. Does not recurse."""
    waiting = [(value, 1)]
    while waiting:
        part, depth = waiting.pop()
        if isinstance(part, dict | list):
            if depth > levels:
                return True
            waiting += [(inner, depth + 1) for inner in (part.values() if isinstance(part, dict) else part)]
    return False
