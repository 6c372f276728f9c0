"""Names and values of rows as servers store them."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from retrieve_cli.contracts.engines import Row

LONGEST = 8_000
"""Bytes of the longest keyword that is stored as it is; Lucene takes 32,766."""
REQUEST_BYTES = 8 << 20
"""Size of a request with rows; servers of some providers accept 10 MB at most."""
_NUMBER_BYTES, _TERM_BYTES = 13, 24
"""Sizes in JSON of a number of a vector, and of a term with its weight."""
_SIMPLE = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,99}")


def clean(text: str) -> str:
    """Return a text with escapes instead of lone surrogates, which UTF-8 does not have."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def keyword(field: str, value: str) -> str:
    """Return a field and one of its values as one keyword, `field=value`: different pairs have different ones.

    Pairs that are long, that are not Unicode, or that could be read in two ways are replaced by a digest.
    """
    text = f"{field}={value}"
    if clean(text) == text and len(text.encode()) <= LONGEST and "=" not in field and field[:1] not in ("", "#"):
        return text
    return f"#{_digest(json.dumps([field, value]))}"


def number_key(field: str) -> str:
    """Return the key of a field with numbers or dates: its name if any server takes it, else a digest."""
    return field if _SIMPLE.fullmatch(field) else f"x-{_digest(json.dumps(field))}"


def numbers_of(row: Row) -> dict[str, dict[str, list[float]]]:
    """Return the numbers and dates of a row by key."""
    groups = {"numbers": row.numbers, "dates": row.dates}
    return {
        name: {number_key(field): list(values) for field, values in group.items()}
        for name, group in groups.items()
        if group
    }


def number_fields(rows: Sequence[Row]) -> list[str]:
    """Return the paths of all numbers and dates of some rows, such as `numbers.year`, in order."""
    paths = {f"{name}.{key}" for row in rows for name, group in numbers_of(row).items() for key in group}
    return sorted(paths)


def requests(rows: Sequence[Row]) -> Iterator[Sequence[Row]]:
    """Yield the rows in slices that fit into a request."""
    start, size = 0, 0
    for index, row in enumerate(rows):
        bytes_of_row = _size(row)
        if index > start and size + bytes_of_row > REQUEST_BYTES:
            yield rows[start:index]
            start, size = index, 0
        size += bytes_of_row
    if start < len(rows):
        yield rows[start:]


def _size(row: Row) -> int:
    texts = len(row.text) + len(row.title) + len(row.stored)
    numbers = sum(len(vector) for vector in row.vectors.values())
    terms = sum(len(weights.terms) for weights in row.weights.values())
    return texts + numbers * _NUMBER_BYTES + terms * _TERM_BYTES


def _digest(text: str) -> str:
    return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
