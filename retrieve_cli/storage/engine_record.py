"""`engines.json`: what engines hold of a generation, beside its manifest.

It is not part of the generation: its id is the same without it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from retrieve_cli.contracts import Card, Unit
from retrieve_cli.contracts.engines import Part
from retrieve_cli.errors import IndexCorrupt, quoted
from retrieve_cli.frozen import Frozen
from retrieve_cli.storage import durable
from retrieve_cli.storage.manifest import Count
from retrieve_cli.untrusted.files import MANIFEST as LIMIT, read_text

FILE = "engines.json"
_HINT = "send the index again: retrieve engines push"


class Entry(NamedTuple):
    """Contents of one engine."""

    card: Card
    parts: Sequence[Part]

    def part(self, name: str) -> Part | None:
        """Return a part by its name; None if the engine does not hold it."""
        return next((part for part in self.parts if part.name == name), None)


class _StoredPart(Frozen):
    name: str
    unit: Unit
    rows: Count
    dim: Count | None = None


class _StoredEntry(Frozen):
    card: Card
    parts: tuple[_StoredPart, ...]


def write(folder: Path, entries: Mapping[str, Entry]) -> None:
    """Write the entries by name of engine, in one step. Raises: OSError."""
    value = {
        name: {
            "card": dict(entry.card),
            "parts": [part._asdict() for part in entry.parts],
        }
        for name, entry in entries.items()
    }
    durable.replace(folder / FILE, json.dumps(value, indent=1, sort_keys=True) + "\n")


def read(folder: Path) -> dict[str, Entry]:
    """Return the entries by name of engine; none if there is no file. Raises: IndexCorrupt: the file cannot be read."""
    path = folder / FILE
    try:
        stored = msgspec.json.decode(read_text(path, limit=LIMIT), type=dict[str, _StoredEntry])
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise IndexCorrupt(f"cannot read {path}: {error.strerror}", hint=_HINT) from error
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise IndexCorrupt(f"{path} is not a record of engines ({quoted(error)})", hint=_HINT) from error
    return {
        name: Entry(entry.card, [Part(part.name, part.unit, part.rows, part.dim) for part in entry.parts])
        for name, entry in stored.items()
    }
