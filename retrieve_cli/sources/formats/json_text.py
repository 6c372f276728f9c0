"""JSON and JSON Lines as plain text; catalogs are not read."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice

from retrieve_cli.contracts import Json, Parsed
from retrieve_cli.errors import NotADocument, printable, shortened
from retrieve_cli.sources.formats.formats import MB, ParsingLimits
from retrieve_cli.sources.formats.markdown import utf8

NAMES = ("name", "title")
TEXTS = ("description", "text", "abstract")
"""Keys of records of a catalog, as catalogs are read without configuration."""
_SAMPLE = 20
"""Number of records by which a catalog is recognised."""
_CHECKED = 16 * MB
"""Characters of the largest file whose syntax is checked."""
_DECODER = json.JSONDecoder()


def parse(content: bytes, *, name: str, limits: ParsingLimits, on_page: Callable[[int], None]) -> Parsed:  # noqa: ARG001
    """Return the text of the file unchanged.

    Raises:
        NotADocument: it is a catalog, or has no text.
        BadDocument: it is not UTF-8.
    """
    text = utf8(content)
    start = 1 if text.startswith("\ufeff") else 0
    try:
        records = list(islice(_elements(text[start:]), _SAMPLE))
    except (ValueError, RecursionError):
        records = []
    if records and all(map(_is_record, records)):
        hint = f"retrieve build --catalog {shortened(printable(name))}"
        raise NotADocument("it looks like a catalog of records, not like a document", hint=hint)
    if not any(char.isalnum() for char in text):
        raise NotADocument("it has no text")
    problem = _problem(text[start:])
    notice = f"it is not valid JSON ({problem}): indexed as text" if problem else "JSON is indexed as plain text"
    return Parsed(text, body_start=start, notices=(notice,))


def _is_record(value: Json) -> bool:
    return isinstance(value, dict) and any(key in value for key in NAMES) and any(key in value for key in TEXTS)


def _elements(text: str) -> Iterator[Json]:
    """Yield the elements of an array, or the values of lines that are JSON each; a single object has none.

    Raises:
        ValueError: it is not JSON.
    """
    place = _skip(text, 0)
    if text.startswith("[", place):
        place = _skip(text, place + 1)
        while not text.startswith("]", place):
            value, place = _DECODER.raw_decode(text, place)
            yield value
            place = _skip(text, place)
            if not text.startswith(",", place):
                return
            place = _skip(text, place + 1)
        return
    first, end = _DECODER.raw_decode(text, place)
    if "\n" in text[place:end]:  # an object over several lines
        return
    yield first
    position = end
    while position < len(text):
        stop = text.find("\n", position)
        stop = len(text) if stop < 0 else stop
        if line := text[position:stop].strip():
            yield json.loads(line)
        position = stop + 1


def _skip(text: str, place: int) -> int:
    """Return the place of the next character that is not white space."""
    while place < len(text) and text[place].isspace():
        place += 1
    return place


def _problem(text: str) -> str:
    """Return the syntax error; empty if the text is JSON or JSON Lines, or too long to check."""
    if len(text) > _CHECKED:
        return ""
    try:
        json.loads(text)
    except RecursionError:
        return "nested too deeply"
    except json.JSONDecodeError as error:
        if error.msg == "Extra data":
            with suppress(ValueError, RecursionError):
                for line in filter(str.strip, text.splitlines()):
                    json.loads(line)
                return ""
        return f"line {error.lineno}, column {error.colno}: {error.msg}"
    except ValueError:  # a number with thousands of digits
        return "a number is too long"
    return ""
