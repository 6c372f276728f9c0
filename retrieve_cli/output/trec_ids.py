"""Ids in a TREC run, whose columns are separated by white space.

White space, control characters and percent signs of an id are percent-encoded (RFC 3986), so that every id is one word
and decoding restores it.
"""

from __future__ import annotations

from collections.abc import Iterable

from retrieve_cli.errors import quoted


def encoded(name: str) -> str:
    """Return an id as one word."""
    if _is_word(name) and "%" not in name:
        return name
    from urllib.parse import quote

    return "".join(char if _is_word(char) and char != "%" else quote(char) for char in name)


def notes(queries: Iterable[str], documents: Iterable[str]) -> list[str]:
    """Return a note on the ids that are encoded, if there are any."""
    changed = [name for kind in (documents, queries) for name in dict.fromkeys(kind) if encoded(name) != name]
    if not changed:
        return []
    what = "1 id is" if len(changed) == 1 else f"{len(changed):,} ids are"
    return [f"{what} percent-encoded in the TREC run ({quoted(changed[0])} as {encoded(changed[0])})"]


def _is_word(text: str) -> bool:
    return text.isprintable() and " " not in text and len(text.split()) == 1
