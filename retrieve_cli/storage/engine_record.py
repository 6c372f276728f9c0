"""Collections that an index made in engines: `engines.json` in its folder, the oldest first."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from retrieve_cli.errors import IndexCorrupt, quoted
from retrieve_cli.frozen import Frozen
from retrieve_cli.storage import durable
from retrieve_cli.storage.segment import ENGINES
from retrieve_cli.untrusted.files import MANIFEST, read_text

_LIMIT = 64 * MANIFEST


class EngineCollection(Frozen):
    """A collection, and the last push into it, which may have been interrupted or not published."""

    engine: str
    name: str
    card: str
    """SHA-1 of everything that decides what its rows are made of."""
    retrievers: tuple[str, ...]
    mean_length: float = 1.0
    """Mean number of words of a row when it was made, by which term weights of BM25 are computed."""
    generations: tuple[str, ...] = ()
    """Generations that are read from it, the last one that was pushed at the end; none until all rows are there."""
    former: str = ""
    """Generation that it held before the last push."""
    sent: tuple[str, ...] | None = ()
    """Ids of the rows that the last push sent or removed; None: too many to note."""


def write(artifacts: Path, collections: Sequence[EngineCollection]) -> None:
    """Write the collections in one step. Raises: OSError."""
    durable.replace(artifacts / ENGINES, msgspec.json.encode(collections).decode() + "\n")


def read(artifacts: Path) -> list[EngineCollection]:
    """Return the collections; none if there is no file. Raises: IndexCorrupt: the file cannot be read."""
    path = artifacts / ENGINES
    try:
        return msgspec.json.decode(read_text(path, limit=_LIMIT), type=list[EngineCollection])
    except FileNotFoundError:
        return []
    except (OSError, ValueError, RecursionError) as error:
        hint = f"remove {path}, and send the index again: retrieve engines push"
        raise IndexCorrupt(f"{path} cannot be read ({quoted(error)})", hint=hint) from error


def find(generation: Path, engine: str) -> EngineCollection | None:
    """Return the newest collection of an engine with the rows of a generation, which is named by its folder; None if
    it was not sent there. Raises: IndexCorrupt: as `read` does."""
    held = [one for one in read(generation.parents[1]) if one.engine == engine and generation.name in one.generations]
    return held[-1] if held else None
