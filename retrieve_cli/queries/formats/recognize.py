"""Format of a file, by its first bytes and, if they do not decide, by its name."""

from __future__ import annotations

from retrieve_cli.queries.formats.header import Unreadable
from retrieve_cli.queries.formats.table import BY_EXTENSION, FORMATS, Format, Magic


def recognized(name: str, head: bytes) -> tuple[Format, tuple[str, ...]]:
    """Return the format of a file, and a problem with its name; if the two disagree, the bytes decide.

    Raises:
        Unreadable: neither decides, or only the name does and the bytes contradict it.
    """
    given = next((known for known in FORMATS if any(_is(magic, head) for magic in known.magics)), None)
    named = named_as(name)
    fitting = [candidate for candidate in named if _fits(candidate, given, head)]
    if fitting:
        return fitting[0], ()
    if given is None and not named:
        raise Unreadable("has no known format, by its name or its first bytes")
    if given is None:
        raise Unreadable(f"is named as {named[0].name} but is not")
    return given, (f"is named as {named[0].name} but contains {given.name}",) if named else ()


def named_as(name: str) -> tuple[Format, ...]:
    """Return the formats of the longest known extension."""
    parts = name.lower().split(".")
    endings = ("." + ".".join(parts[at:]) for at in range(max(len(parts) - 3, 1), len(parts)))
    return next((BY_EXTENSION[ending] for ending in endings if ending in BY_EXTENSION), ())


def _fits(named: Format, given: Format | None, head: bytes) -> bool:
    """Return True if the bytes may be of the format of the name."""
    if given is not None:
        return given is named or given.name in named.inside
    if named.inside or (named.magics and not named.starts):
        return False
    if named.text and b"\0" in head and not head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return False
    return not named.starts or head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(named.starts)


def _is(magic: Magic, head: bytes) -> bool:
    return all(head.startswith(value, offset) for offset, value in magic)
