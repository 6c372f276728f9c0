"""`engines.json`: what engines hold of a generation, beside its manifest.

It is not part of the generation: its id is the same without it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from retrieve_cli.contracts import Card, Json
from retrieve_cli.contracts.engines import Part
from retrieve_cli.errors import IndexCorrupt, quoted
from retrieve_cli.storage import durable, json_checks
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
        value = json_checks.mapping(json.loads(read_text(path, limit=LIMIT)), FILE)
        return {name: _entry(json_checks.mapping(entry, name)) for name, entry in value.items()}
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise IndexCorrupt(f"cannot read {path}: {error.strerror}", hint=_HINT) from error
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise IndexCorrupt(f"{path} is not a record of engines ({quoted(error)})", hint=_HINT) from error


def _entry(value: Mapping[str, Json]) -> Entry:
    parts = [Part(**part) for part in json_checks.mappings(value["parts"], "`parts`")]
    for part in parts:
        json_checks.text(part.name, "`name`")
        json_checks.count(part.rows, "`rows`")
        if part.unit not in ("record", "chunk"):
            raise ValueError(f"{quoted(part.unit)} is not a unit")
        if part.dim is not None:
            json_checks.count(part.dim, "`dim`")
    return Entry(json_checks.mapping(value["card"], "`card`"), parts)
