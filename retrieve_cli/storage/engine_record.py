"""`engines.json`: what engines hold of a generation, beside its manifest; and `statistics.pkl`, for their scores.

They are not part of the generation: its id and its answers are the same without them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from retrieve_cli.contracts import Card, Json
from retrieve_cli.contracts.engines import Census, Part
from retrieve_cli.errors import IndexCorrupt, quoted
from retrieve_cli.storage import durable, json_checks
from retrieve_cli.untrusted.files import MANIFEST as LIMIT, read_text

FILE = "engines.json"
STATISTICS = "statistics.pkl"
SIGNED = "signed"
"""Key among the statistics of a part: 1 if a term weight is 0 or below."""
_HINT = "send the index again: retrieve engines push"


class Entry(NamedTuple):
    """Contents of one engine."""

    card: Card
    parts: Sequence[Part]
    files: Sequence[str]
    """Names of files whose blocks it keeps."""
    census: Census

    def part(self, name: str) -> Part | None:
        """Return a part by its name; None if the engine does not hold it."""
        return next((part for part in self.parts if part.name == name), None)


def write(folder: Path, entries: Mapping[str, Entry]) -> None:
    """Write the entries by name of engine, in one step. Raises: OSError."""
    value = {
        name: {
            "card": dict(entry.card),
            "parts": [part._asdict() for part in entry.parts],
            "files": list(entry.files),
            "census": entry.census._asdict() | {"rows": dict(entry.census.rows)},
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
    census = Census(**json_checks.mapping(value["census"], "`census`"))
    counts = json_checks.mapping(census.rows, "`rows`")
    rows = {name: json_checks.count(count, "`rows`") for name, count in counts.items()}
    files = [json_checks.file_name(name) for name in value["files"]]
    json_checks.text(census.sample, "`sample`")
    return Entry(json_checks.mapping(value["card"], "`card`"), parts, files, census._replace(rows=rows))
