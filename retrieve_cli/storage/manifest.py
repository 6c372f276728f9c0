"""Digests of values and files, and the manifest that ties a generation's parts together.

A digest is the SHA-1 of canonical JSON (sorted keys, no spaces, UTF-8), never of concatenated text: two different
values cannot share one by moving a boundary. A generation's id is the digest of all that decides its answers: schema,
recipe, sources, files. When and where it was built stays out, so the same input gives the same id anywhere; that has a
digest of its own. A manifest may come from anywhere: every value is held to its type when it is read.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, field
from functools import partial
from math import isfinite
from pathlib import Path
from typing import NoReturn

from retrieve_cli.contracts import Item, Json, Notice, Refused
from retrieve_cli.errors import IndexCorrupt, quoted, shortened
from retrieve_cli.frozen import dataclass
from retrieve_cli.storage import shapes
from retrieve_cli.storage.recipe import Recipe
from retrieve_cli.untrusted.files import MANIFEST as LIMIT, open_regular, read_text

SCHEMA_VERSION = 2
ID_LENGTH = 12
_REBUILD = "build the index again: retrieve build --catalog FILE (or --docs-dir DIR)"
BUILT_SHA1 = "built_sha1"
"""Key of the digest of the circumstances; manifests of earlier versions have none."""


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
    """SHA-1 of a file's bytes, 40 hex digits. Raises: OSError: it cannot be read, or is not a regular file."""
    with open_regular(path) as file:
        new = partial(hashlib.sha1, usedforsecurity=False)
        return hashlib.file_digest(file, new).hexdigest()


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

    @classmethod
    def of(cls, value: Mapping[str, Json]) -> FileEntry:
        """Return the entry of a manifest. Raises: ValueError, KeyError: it is none."""
        _hold_keys(cls, value)
        rows = value.get("rows")
        return cls(
            shapes.digest(value["sha1"], "`sha1`"),
            shapes.count(value["bytes"], "`bytes`"),
            None if rows is None else shapes.count(rows, "`rows`"),
        )


@dataclass(frozen=True, slots=True)
class SourceEntry:
    """A source as it was when it was read."""

    kind: str
    name: str
    sha1: str
    """Digest of the records read, by id: equal content gives an equal digest whatever the folder is called."""
    records: int
    refused: int = 0

    @classmethod
    def of(cls, value: Mapping[str, Json]) -> SourceEntry:
        """Return the entry of a manifest. Raises: ValueError, KeyError: it is none."""
        _hold_keys(cls, value)
        return cls(
            shapes.text(value["kind"], "`kind`"),
            shapes.text(value["name"], "`name`"),
            shapes.digest(value["sha1"], "`sha1`"),
            shapes.count(value["records"], "`records`"),
            shapes.count(value.get("refused", 0), "`refused`"),
        )


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
        return int(self.built.get("sequence", 0))

    def rows(self, name: str) -> int | None:
        """How many rows a file has; None if it has none, or if there is no such file."""
        entry = self.files.get(name)
        return entry.rows if entry else None

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
        return {"generation": self.id, **self._as_json(), BUILT_SHA1: sha1(self.built)}

    @classmethod
    def read(cls, path: Path) -> Manifest:
        """Reads and checks a manifest.

        Raises:
            IndexCorrupt: the file is absent, not JSON, from another schema, does not carry its own id, or has values
                of another type.
        """
        try:
            text = read_text(path, limit=LIMIT)
        except OSError as error:
            raise IndexCorrupt(f"cannot read {path}: {error.strerror}", hint=_REBUILD) from error
        except ValueError as error:
            raise IndexCorrupt(f"{path} is not valid JSON ({shortened(str(error))})", hint=_REBUILD) from error
        return cls.of_text(text, str(path))

    @classmethod
    def of_text(cls, text: str, path: str) -> Manifest:
        """Reads and checks the text of a manifest; errors name the `path` that it stands at.

        Raises:
            IndexCorrupt: as `read`.
        """
        try:
            value = json.loads(text, parse_constant=_refuse_constant, parse_float=_finite)
            json.dumps(value, ensure_ascii=False).encode()  # no half of a character: it could not be printed
        except (ValueError, RecursionError) as error:
            raise IndexCorrupt(f"{path} is not valid JSON ({shortened(str(error))})", hint=_REBUILD) from error
        version = value.get("schema_version") if isinstance(value, dict) else None
        if version != SCHEMA_VERSION:
            raise IndexCorrupt(
                f"{path} has schema version {quoted(version)}; this retrieve reads {SCHEMA_VERSION}",
                hint="upgrade retrieve, or " + _REBUILD,
            )
        try:
            files = shapes.mapping(value["files"], "`files`")
            manifest = cls(
                recipe=Recipe.from_json(value["recipe"]),
                sources=tuple(SourceEntry.of(entry) for entry in shapes.mappings(value["sources"], "`sources`")),
                files={shapes.file_name(name): FileEntry.of(shapes.mapping(files[name], name)) for name in files},
                built=_built(value.get("built", {})),
            )
            name, built = manifest.id, sha1(manifest.built)
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            what = f"no {error}" if isinstance(error, KeyError) else str(error)
            raise IndexCorrupt(f"{path} is not a complete manifest ({shortened(what)})", hint=_REBUILD) from error
        if name != value.get("generation") or built != value.get(BUILT_SHA1, built):
            given = quoted(value.get("generation"))
            raise IndexCorrupt(f"{path} was altered: its content does not give its id {given}", hint=_REBUILD)
        return manifest


def _hold_keys(kind: type[FileEntry] | type[SourceEntry], value: Mapping[str, Json]) -> None:
    """Raises: ValueError if a key is none of the kind's."""
    for key in value:
        if key not in kind.__slots__:
            raise ValueError(f"{quoted(key)} is no key of an entry")


def _built(value: Json) -> Mapping[str, Json]:
    """The circumstances, what is known of them held to its type. Raises: ValueError."""
    built = shapes.mapping(value, "`built`")
    for name in ("at", "version"):
        shapes.text(built.get(name, ""), f"`{name}`")
    shapes.count(built.get("sequence", 0), "`sequence`")
    for name, number in shapes.mapping(built.get("changes", {}), "`changes`").items():
        shapes.count(number, f"the number of {shortened(name)}")
    for kind, source in shapes.mapping(built.get("prefixes", {}), "`prefixes`").items():
        shapes.text(source, f"the source of the {shortened(kind)} prefix")
    for source in shapes.mappings(built.get("sources", []), "`sources` of `built`"):
        shapes.mapping(source.get("origin", {}), "`origin`")
        shapes.text(source.get("digest", ""), "`digest`")
        if (stamp := source.get("stamp")) is not None and not (
            isinstance(stamp, list) and all(isinstance(part, int) for part in stamp)
        ):
            raise ValueError(f"`stamp` is not a list of numbers: {quoted(stamp)}")
        for mark in shapes.mapping(source.get("folders", {}), "`folders`").values():
            if not isinstance(mark, list) or [type(part) for part in mark] != [int, str]:
                raise ValueError(f"the mark of a folder is not a time and a SHA-1: {quoted(mark)}")
    return built


def faults(folder: Path, manifest: Manifest, names: Sequence[str] | None = None) -> dict[str, str]:
    """What is wrong with the files of a generation, every byte read, or with those of them that are named."""
    from concurrent.futures import ThreadPoolExecutor  # hashing lets go of the interpreter

    from retrieve_cli.progress.tasks import BYTES, task  # nor does a query check every byte

    def fault(name: str) -> str:
        entry = manifest.files[name]
        found = size_fault(folder / name, entry) or digest_fault(folder / name, entry)
        progress.advance(entry.bytes)
        return found

    chosen = list(manifest.files if names is None else names)
    size = sum(manifest.files[name].bytes for name in chosen)
    with task("verifying the index", BYTES, size) as progress, ThreadPoolExecutor(2) as threads:
        return {name: said for name, said in zip(chosen, threads.map(fault, chosen), strict=True) if said}


def size_fault(path: Path, entry: FileEntry) -> str:
    """What is wrong with a file at first sight: it is absent, or has another length; empty where neither is so."""
    try:
        size = path.stat().st_size
    except OSError as error:
        return f"{path} is missing ({error.strerror})"
    return "" if size == entry.bytes else f"{path} has {size} bytes; the manifest says {entry.bytes}"


def digest_fault(path: Path, entry: FileEntry) -> str:
    """What is wrong with a file, every byte read; empty if it is as it was written."""
    try:
        digest = sha1_file(path)
    except OSError as error:
        return f"{path} cannot be read ({error.strerror})"
    return "" if digest == entry.sha1 else f"{path} has SHA-1 {digest}; the manifest says {entry.sha1}"
