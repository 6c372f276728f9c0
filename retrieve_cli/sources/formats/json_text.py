"""JSON and JSON Lines as plain text; catalogs are not read."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from itertools import islice

from retrieve_cli.contracts import Json, Parsed
from retrieve_cli.contracts.layout import Block, Layout
from retrieve_cli.errors import NotADocument, printable, shortened
from retrieve_cli.sources.formats.formats import ParsingLimits
from retrieve_cli.sources.formats.markdown import decoded

NAMES = frozenset(("name", "title"))
TEXTS = frozenset(("description", "text", "abstract"))
"""Keys of records of a catalog, as catalogs are read without configuration."""
_SAMPLE = 20
"""Number of records by which a catalog is recognised."""
_DECODER = json.JSONDecoder()
_GAP = re.compile(r"[\s,]*+")


def parse(content: bytes, *, name: str, limits: ParsingLimits, on_page: Callable[[int], None]) -> Parsed:  # noqa: ARG001
    """Return the text of the file unchanged.

    Raises:
        NotADocument: it is a catalog, or has no text.
        BadDocument: it is not a text.
    """
    text, notices = decoded(content)
    if _is_catalog(text):
        hint = f"retrieve build --catalog {shortened(printable(name))}"
        raise NotADocument("it looks like a catalog of records, not like a document", hint=hint)
    if not any(char.isalnum() for char in text):
        raise NotADocument("it has no text")
    notices = (*notices, "JSON is indexed as plain text")
    return Parsed(text, Layout([Block(0, len(text), "code")], in_lines=True), notices=notices)


def _is_catalog(text: str) -> bool:
    try:
        records = list(islice(_values(text), _SAMPLE))
    except (ValueError, RecursionError):
        return False
    keys = [record.keys() if isinstance(record, dict) else set() for record in records]
    return bool(keys) and all(NAMES & names and TEXTS & names for names in keys)


def _values(text: str) -> Iterator[Json]:
    """Yield the elements of an array, or the values of lines; nothing of an object over several lines."""
    array = text.lstrip().startswith("[")
    place = text.index("[") + 1 if array else 0
    while (start := _GAP.match(text, place).end()) < len(text) and text[start] != "]":  # type: ignore[union-attr]
        value, place = _DECODER.raw_decode(text, start)
        if not array and "\n" in text[start:place]:
            return
        yield value
