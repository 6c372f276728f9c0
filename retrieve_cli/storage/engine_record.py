"""Collections in engines with the rows of a generation: `engines.json` beside its manifest, not part of it.

The rows that a push is about to change are noted before it begins, in a file of the index's folder: the next push
repairs what an interruption left.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

import msgspec

from retrieve_cli.errors import IndexCorrupt, quoted
from retrieve_cli.frozen import Frozen
from retrieve_cli.storage import durable
from retrieve_cli.storage.segment import ENGINES
from retrieve_cli.storage.store import PENDING
from retrieve_cli.untrusted.files import MANIFEST, read_text

T = TypeVar("T")
_LIMIT = 64 * MANIFEST


class Entry(Frozen):
    """The collection of one engine."""

    collection: str
    card: str
    """SHA-1 of everything that decides what its rows are made of."""
    retrievers: tuple[str, ...]
    mean_length: float = 1.0
    """Mean number of words of a row when the collection was made, by which term weights of BM25 are computed."""


class PendingPush(Frozen):
    """A push into a collection, which may have been interrupted, or whose generation may not have been published."""

    former: str
    """Generation that the collection held before."""
    target: str
    """Generation that it holds afterwards."""
    ids: tuple[str, ...]
    """Rows that are sent or removed."""


def write(folder: Path, entries: Mapping[str, Entry]) -> None:
    """Write the entries by name of engine, in one step. Raises: OSError."""
    durable.replace(folder / ENGINES, msgspec.json.encode(dict(entries), order="sorted").decode() + "\n")


def read(folder: Path) -> dict[str, Entry]:
    """Return the entries by name of engine; none if there is no file. Raises: IndexCorrupt: the file cannot be read."""
    return _read(folder / ENGINES, Entry)


def pending(folder: Path) -> dict[str, PendingPush]:
    """Return the last push into each collection, unless nothing was changed. Raises: IndexCorrupt: as `read` does."""
    return _read(folder / PENDING, PendingPush)


def note_pending(folder: Path, collection: str, push: PendingPush) -> None:
    """Note a push before it begins. Raises: OSError."""
    pushes = {**pending(folder), collection: push}
    durable.replace(folder / PENDING, msgspec.json.encode(pushes).decode())


def _read(path: Path, kind: type[T]) -> dict[str, T]:
    try:
        return msgspec.json.decode(read_text(path, limit=_LIMIT), type=dict[str, kind])  # type: ignore[valid-type]
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        hint = "send the index again: retrieve engines push --again"
        raise IndexCorrupt(f"{path} cannot be read ({quoted(error)})", hint=hint) from error
