"""Answers of providers as JSON or XML, within bounds of depth and number; anything else is a failure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NoReturn
from xml.etree.ElementTree import Element, ParseError, fromstring
from xml.parsers import expat

from retrieve_cli.contracts import Json
from retrieve_cli.contracts.websearch import Item, Page, ProviderFailed, Response
from retrieve_cli.errors import printable, shortened
from retrieve_cli.untrusted.foreign_json import DEEPEST, foreign_json

_MOST_ELEMENTS = 500_000
_MOST_ENTRIES = 1000
"""Entries of a list that are read: providers are asked for 100 results, and a work has as many authors at most."""
_EXCERPT = 80


def read_json(response: Response) -> Json:
    """Return the body as JSON. Raises: ProviderFailed: it is not JSON, or is nested too deeply."""
    try:
        return foreign_json(response.body)
    except ValueError:
        return malformed(f"JSON of at most {DEEPEST} levels", response)


def read_object(response: Response) -> Mapping[str, Json]:
    """Return the body as an object of JSON. Raises: ProviderFailed: it is not one."""
    value = read_json(response)
    return value if isinstance(value, dict) else malformed("an object", response)


def read_xml(response: Response) -> Element:
    """Return the root element of the body. A document type may be named, and must not declare anything.

    Raises:
        ProviderFailed: it is not XML, declares entities, or has too many elements or levels.
    """
    depth = count = 0
    parser = expat.ParserCreate()

    def begin(*_: object) -> None:
        nonlocal depth, count
        depth, count = depth + 1, count + 1
        if depth > DEEPEST or count > _MOST_ELEMENTS:
            malformed(f"XML of at most {DEEPEST} levels and {_MOST_ELEMENTS:,} elements", response)

    def end(_: str) -> None:
        nonlocal depth
        depth -= 1

    def declared(*_: object) -> None:
        malformed("XML without declarations of entities", response)

    parser.StartElementHandler, parser.EndElementHandler = begin, end
    parser.EntityDeclHandler = declared
    try:
        parser.Parse(response.body, True)  # noqa: FBT003  it is the last piece
        return fromstring(response.body)  # noqa: S314  its declarations, depth and size were just checked
    except (expat.ExpatError, ParseError, ValueError, LookupError):  # the last two: an unknown encoding
        return malformed("XML", response)


def malformed(expected: str, response: Response) -> NoReturn:
    """Raises: ProviderFailed: the answer is not as `expected`; the message quotes its beginning."""
    beginning = printable(shortened(response.body[: 4 * _EXCERPT].decode("utf-8", "replace"), _EXCERPT))
    said = f"its answer is not {expected}" + (f": “{beginning}”" if beginning else ": it is empty")
    raise ProviderFailed("malformed", said)


def none_listed(total: str | int) -> NoReturn:
    """Raises: ProviderFailed: the answer counts matches and lists none."""
    raise ProviderFailed("malformed", f"its answer counts {total} matches and lists none")


def rate_limited() -> NoReturn:
    """Raises: ProviderFailed: the server permits no further request now, for a time that it does not name."""
    raise ProviderFailed("rate_limited", "it permits no further requests now")


def rejected(reason: str) -> NoReturn:
    """Raises: ProviderFailed: the question or the request is rejected, or cannot be sent."""
    raise ProviderFailed("rejected", reason)


def listed(value: Json, response: Response, name: str) -> list[Mapping[str, Json]]:
    """Return a list of objects that must be there, as much of it as is read.

    Raises:
        ProviderFailed: it is missing, or not a list of objects; `name` is its key.
    """
    if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
        malformed(f"an object with the list `{name}`", response)
    return value[:_MOST_ENTRIES]


def at(value: Json, *path: str) -> Json:
    """Return what an object has at a path of keys; None if there is nothing."""
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def text(value: Json, *path: str) -> str:
    """Return the text at a path of keys in an object; empty if the path has no text. Numbers count as texts."""
    value = at(value, *path)
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return ""
    return str(value)


def number(value: Json, *path: str) -> int | None:
    """Return the number at a path of keys in an object; None if the path has no number, or it is negative."""
    said = text(value, *path)
    return int(said) if said.isascii() and said.isdecimal() and len(said) < 12 else None


def objects(value: Json, *path: str) -> Iterator[Mapping[str, Json]]:
    """Yield the objects of an optional list at a path of keys, as many as are read; nothing if there is no list."""
    value = at(value, *path)
    entries = value[:_MOST_ENTRIES] if isinstance(value, list) else ()
    yield from (entry for entry in entries if isinstance(entry, dict))


def page_of(
    entries: Iterable[Item | None],
    query: str,
    response: Response,
    *,
    k: int,
    total: int | None = None,
    notices: Sequence[str] = (),
) -> Page:
    """Return the first `k` results of an answer; None is one without a title or an identifier.

    Raises:
        ProviderFailed: there are results, and none of them can be read.
    """
    every = list(entries)
    readable = [item for item in every if item]
    if every and not readable:
        malformed("a list of results with titles and identifiers", response)
    unread = len(every) - len(readable)
    what = "result" if unread == 1 else "results"
    skipped = [f"skipped {unread} {what} without a title or an identifier"] if unread else []
    return Page(tuple(readable[:k]), query, total, (*notices, *skipped))


def content(element: Element | None) -> str:
    """Return the text of an element and all within it; empty for None."""
    return "" if element is None else "".join(element.itertext())
