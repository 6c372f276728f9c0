"""Which format a file is: by its first bytes, and by its name where they leave that open."""

from __future__ import annotations

from retrieve_cli.queries.formats.header import Unreadable
from retrieve_cli.queries.formats.table import BY_EXTENSION, FORMATS, Format, Magic


def recognized(name: str, head: bytes) -> tuple[Format, tuple[str, ...]]:
    """The format of a file, and what is wrong with its name; where the two disagree, the bytes are believed.

    Raises:
        Unreadable: neither tells, or the name is all there is and the bytes are not that.
    """
    given = next((each for each in FORMATS if any(_is(magic, head) for magic in each.magics)), None)
    named = named_as(name)
    fitting = [each for each in named if _fits(each, given, head)]
    if fitting:
        return fitting[0], ()
    if given is None and not named:
        raise Unreadable("is of no format that is known, by its name or its first bytes")
    if given is None:
        raise Unreadable(f"is named as {named[0].name} and is not")
    return given, (f"is named as {named[0].name} and holds {given.name}",) if named else ()


def named_as(name: str) -> tuple[Format, ...]:
    """The formats of the longest extension that is known."""
    parts = name.lower().split(".")
    endings = ("." + ".".join(parts[at:]) for at in range(max(len(parts) - 3, 1), len(parts)))
    return next((BY_EXTENSION[ending] for ending in endings if ending in BY_EXTENSION), ())


def _fits(named: Format, given: Format | None, head: bytes) -> bool:
    """Whether the bytes may be of the format that the name says."""
    if given is not None:
        return given is named or given.name in named.inside
    if named.inside or (named.magics and not named.starts):
        return False
    if named.text and b"\0" in head and not head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return False
    return not named.starts or head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(named.starts)


def _is(magic: Magic, head: bytes) -> bool:
    return all(head.startswith(value, offset) for offset, value in magic)
