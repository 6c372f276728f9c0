"""Collections in engines with the rows of a generation: `engines.json` beside its manifest, not part of it.

The rows that a push is about to change are noted before it begins, in a file of the index's folder: the next push
repairs what an interruption left.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from retrieve_cli.contracts import Json
from retrieve_cli.errors import IndexCorrupt, quoted
from retrieve_cli.storage import durable, json_checks
from retrieve_cli.storage.segment import ENGINES
from retrieve_cli.untrusted.files import MANIFEST as LIMIT, read_text

_PENDING = "pushing.json"
_HINT = "send the index again: retrieve engines push"


class Entry(NamedTuple):
    """The collection of one engine."""

    collection: str
    card: str
    """SHA-1 of everything that decides what its rows are made of."""
    retrievers: tuple[str, ...]
    mean_length: float = 1.0
    """Mean number of words of a row when the collection was made, by which term weights of BM25 are computed."""


def write(folder: Path, entries: Mapping[str, Entry]) -> None:
    """Write the entries by name of engine, in one step. Raises: OSError."""
    value = {name: entry._asdict() for name, entry in entries.items()}
    durable.replace(folder / ENGINES, json.dumps(value, indent=1, sort_keys=True) + "\n")


def read(folder: Path) -> dict[str, Entry]:
    """Return the entries by name of engine; none if there is no file. Raises: IndexCorrupt: the file cannot be read."""
    path = folder / ENGINES
    try:
        value = json_checks.mapping(json.loads(read_text(path, limit=LIMIT)), ENGINES)
        return {name: _entry(json_checks.mapping(entry, name)) for name, entry in value.items()}
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise IndexCorrupt(f"cannot read {path}: {error.strerror}", hint=_HINT) from error
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise IndexCorrupt(f"{path} is not a record of engines ({quoted(error)})", hint=_HINT) from error


def _entry(value: Mapping[str, Json]) -> Entry:
    collection, card = (json_checks.text(value[key], f"`{key}`") for key in ("collection", "card"))
    return Entry(collection, card, tuple(map(str, value["retrievers"])), float(value["mean_length"]))


class Pending(NamedTuple):
    """A push into a collection, which may have been interrupted, or whose generation may not have been published."""

    former: str
    """Generation that the collection held before."""
    target: str
    """Generation that it holds afterwards."""
    ids: Sequence[str]
    """Rows that are sent or removed."""


def pending(folder: Path, collection: str) -> Pending | None:
    """Return the last push into a collection; None if nothing was changed since it was made.

    Raises:
        IndexCorrupt: the note cannot be read.
    """
    try:
        return _pending(folder).get(collection)
    except (OSError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise IndexCorrupt(f"{folder / _PENDING} cannot be read", hint="retrieve engines push --again") from error


def note_pending(folder: Path, collection: str, push: Pending) -> None:
    """Note a push before it begins. Raises: OSError."""
    durable.replace(folder / _PENDING, json.dumps({**_pending(folder), collection: push}))


def _pending(folder: Path) -> dict[str, Pending]:
    if not (folder / _PENDING).exists():
        return {}
    value = json.loads(read_text(folder / _PENDING, limit=64 * LIMIT))
    pushes = {str(name): Pending(*push) for name, push in value.items()}
    return {
        name: Pending(str(push.former), str(push.target), list(map(str, push.ids))) for name, push in pushes.items()
    }
