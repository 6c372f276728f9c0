"""Digests of values and files, and the manifest that ties a generation's parts together.

A digest is the SHA-1 of canonical JSON (sorted keys, no spaces, UTF-8), never of concatenated text: two different
values cannot share one by moving a boundary. A generation's id is the digest of all that decides its answers: schema,
recipe, sources, files. When and where it was built stays out, so the same input gives the same id anywhere.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import isfinite
from pathlib import Path
from typing import NoReturn

from retrieve_cli.contracts import Item, Json, Notice, Refused
from retrieve_cli.errors import IndexCorrupt
from retrieve_cli.storage.recipe import Recipe

SCHEMA_VERSION = 2
ID_LENGTH = 12
_MOST_PUBLICATIONS = 2**53


def canonical(value: Json) -> bytes:
    """The one JSON spelling of `value`: keys sorted, no spaces, UTF-8; lone surrogates escaped, so any text hashes."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", "backslashreplace")


def sha1(value: Json) -> str:
    """SHA-1 of the canonical JSON of `value`, 40 hex digits."""
    return hashlib.sha1(canonical(value), usedforsecurity=False).hexdigest()


def text_key(text: str) -> bytes:
    """The 20 bytes of the SHA-1 of a text, under which its vector is cached."""
    return hashlib.sha1(canonical(text), usedforsecurity=False).digest()


def trace(item: Item | Refused | Notice) -> bytes:
    """What an item adds to the digest of its source: all that decides what a build makes of it."""
    if isinstance(item, Item):
        return item.digest + item.line.to_bytes(8)
    return bytes.fromhex(sha1([item.source, item.line, item.reason])) if isinstance(item, Refused) else b""


def sha1_file(path: Path) -> str:
    """SHA-1 of a file's bytes, 40 hex digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.sha1(usedforsecurity=False)).hexdigest()


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _finite(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise ValueError(f"{text} is too large")
    return number


@dataclass(frozen=True, slots=True)
class FileEntry:
    """One artifact of a generation: every opening holds it to its length and rows, `inspect verify` to its digest."""

    sha1: str
    bytes: int
    rows: int | None = None
    """Rows inside, where the file has rows; files of one unit must agree."""


@dataclass(frozen=True, slots=True)
class SourceEntry:
    """A source as it was when it was read."""

    kind: str
    name: str
    sha1: str
    """Digest of the records read, by id: equal content gives an equal digest whatever the folder is called."""
    records: int
    refused: int = 0


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a generation is made of. Written last; a folder without one is no generation."""

    recipe: Recipe
    """Everything that changes an answer at build time."""
    sources: tuple[SourceEntry, ...]
    files: Mapping[str, FileEntry]
    schema_version: int = SCHEMA_VERSION
    built: Mapping[str, Json] = field(default_factory=dict)
    """Circumstances (time, paths of the sources, program version), outside the id."""

    @property
    def id(self) -> str:
        return sha1(self._identity())[:ID_LENGTH]

    @property
    def sequence(self) -> int:
        """Which publication of its folder this was, from 1; 0 where that is not known."""
        number = self.built.get("sequence")
        return number if isinstance(number, int) and 0 <= number <= _MOST_PUBLICATIONS else 0

    def _identity(self) -> dict[str, Json]:
        value = self._as_json()
        del value["built"]
        return value

    def _as_json(self) -> dict[str, Json]:
        return {
            "recipe": self.recipe.to_json(),
            "sources": [asdict(source) for source in self.sources],
            "files": {name: asdict(file) for name, file in self.files.items()},
            "schema_version": self.schema_version,
            "built": dict(self.built),
        }

    def to_json(self) -> dict[str, Json]:
        return {"generation": self.id, **self._as_json()}

    @classmethod
    def read(cls, path: Path) -> Manifest:
        """Reads and checks a manifest.

        Raises:
            IndexCorrupt: the file is absent, not JSON, from another schema, or does not carry its own id.
        """
        rebuild = "build the index again: retrieve build --catalog FILE (or --docs-dir DIR)"
        try:
            value = json.loads(path.read_text("utf-8"), parse_constant=_refuse_constant, parse_float=_finite)
            json.dumps(value, ensure_ascii=False).encode()  # no half of a character: it could not be printed
        except OSError as error:
            raise IndexCorrupt(f"cannot read {path}: {error.strerror}", hint=rebuild) from error
        except (ValueError, RecursionError) as error:
            raise IndexCorrupt(f"{path} is not valid JSON ({error})", hint=rebuild) from error
        version = value.get("schema_version") if isinstance(value, dict) else None
        if version != SCHEMA_VERSION:
            raise IndexCorrupt(
                f"{path} has schema version {version!r}; this retrieve reads {SCHEMA_VERSION}",
                hint="upgrade retrieve, or " + rebuild,
            )
        try:
            built = value.get("built")
            manifest = cls(
                recipe=Recipe.from_json(value["recipe"]),
                sources=tuple(SourceEntry(**entry) for entry in value["sources"]),
                files={name: FileEntry(**entry) for name, entry in value["files"].items()},
                built=built if isinstance(built, dict) else {},
            )
            name = manifest.id
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise IndexCorrupt(f"{path} is not a complete manifest ({error})", hint=rebuild) from error
        if name != value.get("generation"):
            raise IndexCorrupt(
                f"{path} was altered: its content does not give its id {value.get('generation')!r}", hint=rebuild
            )
        return manifest


def faults(folder: Path, manifest: Manifest, names: Sequence[str] | None = None) -> dict[str, str]:
    """What is wrong with the files of a generation, every byte read, or with those of them that are named."""
    from concurrent.futures import ThreadPoolExecutor  # hashing lets go of the interpreter

    def fault(name: str) -> str:
        entry = manifest.files[name]
        return size_fault(folder / name, entry) or _digest_fault(folder / name, entry)

    chosen = list(manifest.files if names is None else names)
    with ThreadPoolExecutor(2) as threads:
        return {name: said for name, said in zip(chosen, threads.map(fault, chosen), strict=True) if said}


def size_fault(path: Path, entry: FileEntry) -> str:
    """What is wrong with a file at first sight: it is absent, or has another length; empty where neither is so."""
    try:
        size = path.stat().st_size
    except OSError as error:
        return f"{path} is missing ({error.strerror})"
    return "" if size == entry.bytes else f"{path} has {size} bytes; the manifest says {entry.bytes}"


def _digest_fault(path: Path, entry: FileEntry) -> str:
    try:
        digest = sha1_file(path)
    except OSError as error:
        return f"{path} cannot be read ({error.strerror})"
    return "" if digest == entry.sha1 else f"{path} has SHA-1 {digest}; the manifest says {entry.sha1}"
