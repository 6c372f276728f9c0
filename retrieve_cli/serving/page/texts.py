"""Text of records for the page: cut, divided at matched words, linked only if its address is safe."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple
from urllib.parse import urlsplit

from retrieve_cli.errors import printable
from retrieve_cli.output.page import address

TITLE = 160
"""Characters of a title."""
_LONGEST_LINK = 2000
_SCHEMES = ("http://", "https://")


class Part(NamedTuple):
    """A stretch of text, matched or not."""

    text: str
    marked: bool = False


class Link(NamedTuple):
    """An address outside, and the server that it leads to."""

    url: str
    host: str


def parts(text: str, marks: Iterable[Sequence[int]]) -> list[Part]:
    """Return the text divided at its marks, which are pairs of offsets; those that overlap are one."""
    found: list[Part] = []
    done = 0
    for start, end in sorted((int(start), int(end)) for start, end in marks):
        if end <= done or start >= end or end > len(text):
            continue
        if start > done:
            found.append(Part(text[done:start]))
        found.append(Part(text[max(start, done) : end], marked=True))
        done = end
    return [*found, Part(text[done:])] if done < len(text) else found


def link(text: object) -> Link | None:
    """Return an address as a link if it leads to a web server; None for any other scheme, or what is not an address."""
    if not isinstance(text, str) or len(text) > _LONGEST_LINK:
        return None
    stripped = text.strip()
    if not stripped.casefold().startswith(_SCHEMES) or printable(stripped) != stripped or " " in stripped:
        return None
    try:
        host = urlsplit(stripped).hostname
    except ValueError:
        return None
    return Link(address(stripped), host) if host else None


def cut(text: object, most: int = TITLE) -> str:
    """Return the text as one line of at most `most` characters."""
    line = " ".join(str(text)[: most * 4].split())
    return line if len(line) <= most and len(str(text)) <= most * 4 else line[: most - 1].rstrip() + "…"


def leaves(value: object, name: str = "", *, depth: int = 6) -> Iterator[tuple[str, list[object]]]:
    """Yield the values of nested data with their path: `supportingData.bodySite` and its list."""
    if isinstance(value, dict) and depth:
        for key, inner in value.items():
            yield from leaves(inner, f"{name}.{key}" if name else str(key), depth=depth - 1)
    elif isinstance(value, list) and depth and any(isinstance(each, dict | list) for each in value):
        for each in value:
            yield from leaves(each, name, depth=depth - 1)
    elif value not in (None, "", [], {}):
        yield name, value if isinstance(value, list) else [value]
