"""The door for JSON of other programs: bounded in depth and numbers; an error names the server."""

from __future__ import annotations

from retrieve_cli.contracts.values import Json
from retrieve_cli.errors import Unavailable

DEEPEST = 60
"""Levels of lists and objects that are read; Python's own recursion ends at about 1,000."""


def foreign_json(body: bytes | str) -> Json:
    """Return a body as JSON of at most `DEEPEST` levels, in which every number fits into a double or 64 bits.

    Raises:
        ValueError: it is something else; the message has the reason.
    """
    import orjson

    value = orjson.loads(body)  # neither NaN nor Infinity, nor a number that a double cannot hold
    if is_deeper(value, DEEPEST):
        raise ValueError(f"more than {DEEPEST} levels of lists and objects")
    return value


def is_deeper(value: Json, most: int) -> bool:
    """Return True if a value has more than `most` levels of lists and objects. It does not recurse."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(most):
        inner = (part for outer in level for part in (outer.values() if isinstance(outer, dict) else outer))
        level = [part for part in inner if isinstance(part, dict | list)]
    return bool(level)


def foreign_object(body: bytes | str, server: str, hint: str) -> dict[str, Json]:
    """Return the answer of a server as an object of JSON.

    Raises:
        Unavailable: it is something else; names the server.
    """
    try:
        value = foreign_json(body)
    except ValueError as error:
        raise Unavailable(f"the answer of {server} is not usable JSON: {str(error)[:80]}", hint=hint) from None
    if not isinstance(value, dict):
        raise Unavailable(f"the answer of {server} is not an object of JSON", hint=hint)
    return value
