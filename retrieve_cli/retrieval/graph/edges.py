"""Nodes and edges from files that people keep beside a catalog: JSON Lines, CSV and TSV, KGX spellings included."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from pathlib import Path

from retrieve_cli.contracts import Json
from retrieve_cli.errors import UsageError, quoted
from retrieve_cli.frozen import Frozen
from retrieve_cli.untrusted import files

_SPELLINGS: Mapping[str, tuple[str, ...]] = {
    "source": ("source", "subject", "from"),
    "target": ("target", "object", "to"),
    "kind": ("kind", "predicate", "relation", "type"),
    "weight": ("weight",),
    "id": ("id", "_id"),
    "label": ("label", "name"),
}
"""Names of each part, best first; `subject`, `predicate` and `object` are the names of KGX."""
_EXPECTED = "a line is an edge {source, target, kind, weight} or a node {id, label}"
_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_LARGEST = 1e30
"""Weight of an edge; they are stored in single precision."""
_LINES = frozenset({".jsonl", ".ndjson"})


class GraphNode(Frozen):
    """Something that edges may name and that is neither a record nor one of its values."""

    id: str
    names: tuple[str, ...] = ()
    """Its other names: a value of one of them, or of the id itself, is this node."""


class GraphEdge(Frozen):
    """An edge in a file, between two nodes by their names."""

    source: str
    target: str
    kind: str
    weight: float = 1.0


def read_edges(path: Path) -> Iterator[GraphNode | GraphEdge]:
    """The nodes and edges of a file, in its order.

    Raises:
        UsageError: the file cannot be read, or one of its lines is neither; the line is named.
    """
    suffix = path.suffix.casefold()
    if suffix not in _LINES and suffix not in _DELIMITERS:
        raise UsageError(f"{path} is not a file of nodes and edges", hint="give .jsonl, .csv or .tsv")
    try:
        for line, item in _json_lines(path) if suffix in _LINES else _table(path, _DELIMITERS[suffix]):
            yield _read(item, f"{path}:{line}")
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"cannot read {path}: {reason}", hint=_EXPECTED) from error


def checked(weight: float, place: str) -> float:
    """Return the weight of the edge at `place`. Raises: UsageError: the weight is invalid."""
    if not 0 <= weight <= _LARGEST:
        raise UsageError(f"{place}: an edge cannot have the weight {weight}", hint="a weight is a number from 0 on")
    return weight


def _json_lines(path: Path) -> Iterator[tuple[int, Json]]:
    import orjson

    with files.open_regular(path, limit=files.JUDGMENTS) as file:
        for line, text in enumerate(files.lines(file), 1):
            if not text.strip():
                continue
            if len(text) > files.LINE:
                raise UsageError(f"{path}:{line}: longer than {files.LINE // files.MB} MB", hint=_EXPECTED)
            try:
                yield line, orjson.loads(text)
            except orjson.JSONDecodeError as error:
                raise UsageError(f"{path}:{line}: not JSON ({error})", hint=_EXPECTED) from error


def _table(path: Path, delimiter: str) -> Iterator[tuple[int, Json]]:
    with (
        files.open_regular(path, limit=files.JUDGMENTS) as binary,
        io.TextIOWrapper(binary, encoding="utf-8-sig", newline="") as file,
    ):
        rows = csv.DictReader(file, delimiter=delimiter)
        for row in rows:
            yield rows.line_num, row


def _read(item: Json, place: str) -> GraphNode | GraphEdge:
    if not isinstance(item, Mapping):
        raise UsageError(f"{place}: neither a node nor an edge", hint=_EXPECTED)
    parts = {name: _part(item, keys, place) for name, keys in _SPELLINGS.items()}
    if parts["source"] and parts["target"]:
        if not parts["kind"]:
            raise UsageError(f"{place}: the edge has no kind", hint=_EXPECTED)
        weight = checked(_number(parts["weight"], place), place)
        return GraphEdge(parts["source"], parts["target"], parts["kind"], weight)
    if parts["id"] and not (parts["source"] or parts["target"]):
        return GraphNode(parts["id"], (parts["label"],) if parts["label"] else ())
    raise UsageError(f"{place}: neither a node nor an edge", hint=_EXPECTED)


def _part(item: Mapping[str, Json], keys: tuple[str, ...], place: str) -> str:
    found = next((item[key] for key in keys if item.get(key) is not None), "")
    if isinstance(found, list | dict):
        raise UsageError(f"{place}: `{keys[0]}` is {quoted(found)}, not a text", hint=_EXPECTED)
    return str(found).strip()


def _number(text: str, place: str) -> float:
    try:
        return float(text) if text else 1.0
    except ValueError as error:
        raise UsageError(f"{place}: the weight {quoted(text)} is not a number", hint="0 or more") from error
