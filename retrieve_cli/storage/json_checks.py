"""Checks of the types of JSON values: an artifact may come from anywhere."""

from __future__ import annotations

import re
from collections.abc import Mapping

from retrieve_cli.contracts import Json
from retrieve_cli.errors import quoted

MOST = 2**53
"""The largest whole number that every JSON reader represents exactly."""
_SHA1 = re.compile(r"[0-9a-f]{40}")


def text(value: Json, name: str) -> str:
    """Return a text. Raises: ValueError: it is not a text."""
    if not isinstance(value, str):
        raise _unlike(name, "a text", value)
    return value


def digest(value: Json, name: str) -> str:
    """Return a SHA-1 of 40 hex digits. Raises: ValueError: it is not a SHA-1."""
    if not isinstance(value, str) or not _SHA1.fullmatch(value):
        raise _unlike(name, "a SHA-1", value)
    return value


def count(value: Json, name: str) -> int:
    """Return a whole number from 0 to `MOST`. Raises: ValueError: it is not such a number."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MOST:
        raise _unlike(name, "a whole number of 0 or more", value)
    return value


def mapping(value: Json, name: str) -> Mapping[str, Json]:
    """Return an object. Raises: ValueError: it is not an object."""
    if not isinstance(value, Mapping):
        raise _unlike(name, "an object", value)
    return value


def mappings(value: Json, name: str) -> list[Mapping[str, Json]]:
    """Return a list of objects. Raises: ValueError: it is not a list of objects."""
    if not isinstance(value, list):
        raise _unlike(name, "a list", value)
    return [mapping(item, f"an entry of {name}") for item in value]


def file_name(value: str) -> str:
    """Return the name of a file within a folder. Raises: ValueError: it leads elsewhere."""
    if not value or value.startswith(".") or "/" in value or not value.isprintable():
        raise _unlike("the name of a file", "a name within its folder", value)
    return value


def _unlike(name: str, kind: str, value: Json) -> ValueError:
    return ValueError(f"{name} is not {kind}: {quoted(value)}")
