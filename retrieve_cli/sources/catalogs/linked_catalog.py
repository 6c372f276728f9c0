"""JSON-LD in a catalog: a line that describes one record; a line, or a whole file, that is a graph of records. A line
may as well be a tool's definition, or another envelope of a record.

Both become the same objects that a SPARQL source writes for that graph (`linked`).
"""

from __future__ import annotations

from retrieve_cli.contracts import Json
from retrieve_cli.errors import SourceFailed, UsageError
from retrieve_cli.sources.catalogs.json_ld import TooLarge, has_vocabulary, is_linked, may_have_keywords, triples_of
from retrieve_cli.sources.catalogs.linked import record_of_node, records_of_triples
from retrieve_cli.sources.catalogs.shapes import ENVELOPES, opened
from retrieve_cli.sources.catalogs.tools import DEFINITIONS, is_definition, item_of
from retrieve_cli.sources.values import holds_any, too_deep
from retrieve_cli.storage.manifest import canonical
from retrieve_cli.untrusted import files

_MARKS = tuple(f'"{name}"'.encode() for name in ("@context", "@graph", "@id", "@type"))
"""Keywords that identify a file as one JSON-LD document if they occur in its head."""


class NotRead(Exception):
    """Linked data that cannot be converted to records; the message gives the reason."""


def looks_linked(head: bytes) -> bool:
    """Return True if the beginning of a file contains a keyword of JSON-LD."""
    return any(mark in head for mark in _MARKS)


def record_of_line(item: Json, line: bytes) -> Json:
    """Return the object of a line unchanged or, if it is JSON-LD or an envelope, the object that it describes.

    The values of the object are looked at only if its line may have a keyword.

    Raises:
        NotRead: it has too many values, or describes nothing.
    """
    if isinstance(item, dict) and holds_any(line, DEFINITIONS) and is_definition(item):
        return _tool(item)
    if isinstance(item, dict) and holds_any(line, ENVELOPES):
        return opened(item)
    if not (is_linked(item) if may_have_keywords(line) else has_vocabulary(item)):
        return item
    try:
        record = record_of_node(*triples_of(item))
    except (TooLarge, SourceFailed) as error:
        raise NotRead(str(error)) from error
    if not record:
        raise NotRead("it describes no record")
    return _sorted(record)


def _tool(item: Json) -> Json:
    try:
        return item_of(item)
    except UsageError as error:
        raise NotRead(error.message) from error


def graph_of_line(line: bytes) -> list[Json] | None:
    """Return the records of a line that is a graph of them; None for any other line.

    Raises:
        NotRead: the graph has too many values, or no records.
    """
    if b'"@graph"' not in line and not line.lstrip().startswith(b"["):
        return None
    value = parsed(line)
    return _records(value) if isinstance(value, list) or (isinstance(value, dict) and "@graph" in value) else None


def graph_of_document(content: bytes, path: str) -> list[Json] | None:
    """Return the records of a document of JSON-LD, or of a list of its nodes; None if it is something else.

    Raises:
        UsageError: it is too large, has too many values, or no records.
    """
    if len(content) > files.LINE:
        raise UsageError(f"{path} is one document larger than {files.LINE // files.MB} MB", hint="write JSON Lines")
    try:
        return _records(parsed(content))
    except NotRead as error:
        raise UsageError(f"{path} cannot be read: {error}", hint="a catalog is JSON Lines or JSON-LD") from error


def _records(value: Json) -> list[Json] | None:
    """Return the records of a value; None if it is not a graph. Raises: NotRead: as in `graph_of_line`."""
    if not is_linked(value) or too_deep(value):
        return None
    try:
        records = records_of_triples(triples_of(value)[0])
    except (TooLarge, SourceFailed) as error:
        raise NotRead(str(error)) from error
    if not records:
        raise NotRead("its graph contains no records: no node has an @id or is a SoftwareSourceCode")
    return [_sorted(record) for record in records]


def _sorted(record: Json) -> Json:
    """Return the object with its keys in the order in which a SPARQL source writes them."""
    import orjson

    return orjson.loads(canonical(record))


def parsed(text: bytes) -> Json:
    """Parse a text; return None if it is not JSON."""
    import orjson

    try:
        return orjson.loads(text)
    except ValueError:
        return None
