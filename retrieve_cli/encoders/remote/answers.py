"""What a server answered: its JSON, its complaint in an error, and the beginning of either for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress

from retrieve_cli.contracts import Json
from retrieve_cli.web.failures import Passing

MOST = 4096
"""Characters that are looked at."""


def parsed(body: bytes, headers: Mapping[str, str]) -> Json:
    """The body as JSON; neither NaN nor Infinity is a number.

    Raises:
        Passing: it is not JSON, and nothing said how long it should have been.
        ValueError: it is not JSON.
    """
    import orjson

    if "Content-Length" in headers or "Transfer-Encoding" in headers:
        return orjson.loads(body)
    with suppress(ValueError):
        return orjson.loads(body)
    raise Passing("the answer was cut short")


def complaint(body: bytes) -> str:
    """Return the message in the body of an error: from the usual places, or else the whole body."""
    import orjson

    with suppress(ValueError):
        said = orjson.loads(body)
        while isinstance(said, dict):
            said = next((said[key] for key in ("error", "message", "detail") if said.get(key)), None)
        if said and isinstance(said, str):
            return said
    return body.decode("utf-8", "replace")


def beginning(said: Json) -> str:
    """The first characters of a value as Python writes it; a text stands as it is.

    `str` would recurse into an answer of 1,000 nested lists until the interpreter gives up, and spell out 128 MB.
    """
    if isinstance(said, str):
        return said[:MOST]
    text = ""
    for piece in _pieces(said):
        text += piece
        if len(text) >= MOST:
            break
    return text[:MOST]


def _pieces(value: Json) -> Iterator[str]:
    """What `repr` would give, level by level, each text cut."""
    levels: list[tuple[Iterator[tuple[str, Json]], str]] = [(iter([("", value)]), "")]
    while levels:
        items, end = levels[-1]
        before, item = next(items, (end, levels))
        yield before
        if item is levels:
            levels.pop()
        elif isinstance(item, dict):
            yield "{"
            pairs = enumerate(item.items())
            levels.append((((f"{', ' if at else ''}{key[:MOST]!r}: ", inner) for at, (key, inner) in pairs), "}"))
        elif isinstance(item, list):
            yield "["
            levels.append((((", " if at else "", inner) for at, inner in enumerate(item)), "]"))
        else:
            yield repr(item[:MOST] if isinstance(item, str) else item)
