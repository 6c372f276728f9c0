"""Lines of a TREC run: `query Q0 document rank score tag`, separated by white space.

White space, control characters and percent signs of an id are percent-encoded (RFC 3986), so that every id is one word
and decoding restores it.
"""

from __future__ import annotations

from collections.abc import Iterable
from ctypes import c_float
from math import inf

from retrieve_cli.errors import quoted


def encoded(name: str) -> str:
    """Return an id as one word."""
    if _is_word(name) and "%" not in name:
        return name
    from urllib.parse import quote

    return "".join(char if _is_word(char) and char != "%" else quote(char) for char in name)


def lines(query: str, hits: Iterable[tuple[str, float]], *, tag: str, first: int = 1) -> str:
    """Return the lines of a query; `hits` are ids with their scores, from rank `first`.

    Programs that measure a run order it by the scores in single precision, and break ties in
    different ways. So a score that does not fall is written as the next lower number.
    """
    import numpy as np

    written, above = [], inf
    for rank, (document, score) in enumerate(hits, first):
        falls = c_float(score).value < above
        number = score if falls else float(np.nextafter(np.float32(above), np.float32(-inf)))
        above = c_float(number).value
        written.append(f"{encoded(query)} Q0 {encoded(document)} {rank} {number!r} {tag}\n")
    return "".join(written)


def notes(queries: Iterable[str], documents: Iterable[str]) -> list[str]:
    """Return a note on the ids that are encoded, if there are any."""
    changed = [name for kind in (documents, queries) for name in dict.fromkeys(kind) if encoded(name) != name]
    if not changed:
        return []
    what = "1 id is" if len(changed) == 1 else f"{len(changed):,} ids are"
    return [f"{what} percent-encoded in the TREC run ({quoted(changed[0])} as {encoded(changed[0])})"]


def _is_word(text: str) -> bool:
    return text.isprintable() and " " not in text and len(text.split()) == 1
