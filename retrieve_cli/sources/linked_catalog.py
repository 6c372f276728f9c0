"""JSON-LD in a catalog: a line that describes one record; a line, or a whole file, that is a graph of records.

Either becomes the objects that a SPARQL source writes for the same graph (`linked`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from io import BufferedReader

from retrieve_cli.contracts import Json
from retrieve_cli.errors import SourceFailed
from retrieve_cli.sources.digests import BOM
from retrieve_cli.sources.json_ld import TooLarge, is_linked, triples_of
from retrieve_cli.sources.linked import record_of_node, records_of_triples
from retrieve_cli.storage.manifest import canonical
from retrieve_cli.untrusted import files

DEEPEST = 64
"""Levels of nesting that a record or a graph may have."""
_HEAD = 4096
"""Bytes at the beginning of a file that tell what it is."""
_MARKS = tuple(f'"{name}"'.encode() for name in ("@context", "@graph", "@id", "@type"))
"""Marks in the head of a file that is one document of JSON-LD."""


class NotRead(Exception):
    """Linked data that cannot be made into records; the message says why."""


def looks_linked(head: bytes) -> bool:
    """Return True if the beginning of a file holds a keyword of JSON-LD."""
    return any(mark in head for mark in _MARKS)


def record_of_line(item: Json) -> Json:
    """Return an object as it is, or if it is JSON-LD, the object of the node that it describes.

    Raises:
        NotRead: it has too many values, or describes nothing.
    """
    if not is_linked(item):
        return item
    try:
        record = record_of_node(*triples_of(item))
    except (TooLarge, SourceFailed) as error:
        raise NotRead(str(error)) from error
    if not record:
        raise NotRead("it says nothing of any record")
    return _sorted(record)


def graph_of_line(line: bytes) -> list[Json] | None:
    """Return the records of a line that is a graph of them; None for any other line.

    Raises:
        NotRead: the graph has too many values, or no record.
    """
    if b'"@graph"' not in line and not line.lstrip().startswith(b"["):
        return None
    value = _parsed(line)
    return _records(value) if isinstance(value, list) or (isinstance(value, dict) and "@graph" in value) else None


def graph_of_file(file: BufferedReader) -> list[Json] | None:
    """Return the records of a file that is one document of JSON-LD over several lines, or a list; None if its lines
    are to be read one by one. The file is then at its beginning.

    Raises:
        NotRead: it is a list of something else, has too many values, or no record.
        OSError: it cannot be read.
    """
    head = file.read(_HEAD)
    start = head.removeprefix(BOM).lstrip()
    file.seek(0)
    listed = start.startswith(b"[")
    first, newline, _ = start.partition(b"\n")
    if not looks_linked(head) or not (listed or (start.startswith(b"{") and newline and _parsed(first) is None)):
        return None
    if os.fstat(file.fileno()).st_size > files.LINE:
        if listed:
            raise NotRead(f"it is one list of more than {files.LINE // files.MB} MB")
        return None
    value = _parsed(file.read(files.LINE + 1).removeprefix(BOM))
    file.seek(0)
    if not is_linked(value):
        if listed:
            raise NotRead("it is a JSON array" if isinstance(value, list) else "it is not JSON")
        return None
    return _records(value)


def lines_of(content: bytes) -> list[bytes]:
    """Return the lines of a catalog, with a line for each record in the place of a graph of them."""
    value = _parsed(content) if looks_linked(content[:_HEAD]) else None
    lines = content.split(b"\n") if not is_linked(value) else [canonical(value)]
    return [each for line in lines for each in _expanded(line)]


def too_deep(value: Json) -> bool:
    """Return True if a value is nested deeper than a record may be; counted without recursion."""
    waiting = [(value, 1)]
    while waiting:
        part, depth = waiting.pop()
        if isinstance(part, dict | list):
            if depth > DEEPEST:
                return True
            waiting += [(inner, depth + 1) for inner in (part.values() if isinstance(part, dict) else part)]
    return False


def _expanded(line: bytes) -> Iterator[bytes]:
    try:
        records = graph_of_line(line)
    except NotRead:
        records = None
    yield from [line] if records is None else map(canonical, records)


def _records(value: Json) -> list[Json] | None:
    """The records of a graph; None if it is none.

    Raises:
        NotRead: as `graph_of_line` says.
    """
    if not is_linked(value) or too_deep(value):
        return None
    try:
        records = records_of_triples(triples_of(value)[0])
    except (TooLarge, SourceFailed) as error:
        raise NotRead(str(error)) from error
    if not records:
        raise NotRead("its graph has no record: nothing in it has an @id or is a SoftwareSourceCode")
    return [_sorted(record) for record in records]


def _sorted(record: Json) -> Json:
    """The object with its keys in the order in which a SPARQL source writes them."""
    import orjson

    return orjson.loads(canonical(record))


def _parsed(text: bytes) -> Json:
    """The value that a text is; None if it is not JSON."""
    import orjson

    try:
        return orjson.loads(text)
    except ValueError:
        return None
