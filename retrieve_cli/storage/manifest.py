"""Digests of values and files, and the manifest that ties a generation's parts together.

A digest is the SHA-1 of canonical JSON (sorted keys, no spaces, UTF-8), never of concatenated text, so two different
values cannot share a digest by moving a boundary. A generation's id is the digest of everything that decides its
answers: schema, recipe, sources, files. Time and place of the build are excluded, so the same input gives the same id
anywhere; they have a separate digest. A manifest may come from anywhere: the type of every value is checked.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache, partial
from math import isfinite
from pathlib import Path
from typing import NoReturn

from retrieve_cli.contracts import Item, Json, Notice, Refused
from retrieve_cli.errors import IndexCorrupt, quoted, shortened
from retrieve_cli.frozen import Frozen, asdict
from retrieve_cli.storage import json_checks
from retrieve_cli.storage.recipe import Recipe
from retrieve_cli.untrusted.files import MANIFEST as LIMIT, open_regular, read_text

SCHEMA_VERSION = 4
ID_LENGTH = 12
_ID = re.compile(r"[0-9a-f]{12}")
MOST_SEGMENTS = 64
"""Segments of a generation; a sync merges them long before."""
_REBUILD = "run retrieve build"
BUILT_SHA1 = "built_sha1"
"""Key of the digest of the build's circumstances."""


def canonical(value: Json) -> bytes:
    """Return the canonical JSON of `value`: keys sorted, no spaces, UTF-8, lone surrogates escaped."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", "backslashreplace")


def sha1(value: Json) -> str:
    """Return the SHA-1 of the canonical JSON of `value`, 40 hex digits."""
    return hashlib.sha1(canonical(value), usedforsecurity=False).hexdigest()


def text_key(text: str) -> bytes:
    """Return the SHA-1 of a text, 20 bytes: its key in the caches."""
    return hashlib.sha1(text.encode("utf-8", "surrogatepass"), usedforsecurity=False).digest()


def trace(item: Item | Refused | Notice) -> bytes:
    """Return an item's part of the digest of its source: everything that decides what a build makes of it."""
    if isinstance(item, Item):
        return item.digest + item.line.to_bytes(8)
    return bytes.fromhex(sha1([item.source, item.line, item.reason])) if isinstance(item, Refused) else b""


def sha1_file(path: Path) -> str:
    """Return the SHA-1 of a file's bytes, 40 hex digits. Raises: OSError: it is unreadable, or not a regular file."""
    with open_regular(path) as file:
        return hashlib.file_digest(file, partial(hashlib.sha1, usedforsecurity=False)).hexdigest()


def _reject_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise ValueError(f"{text} is too large")
    return number


class FileEntry(Frozen):
    """One artifact of a generation: opening checks its size and rows, `inspect verify` its digest."""

    sha1: str
    bytes: int
    rows: int | None = None
    """Number of rows, if the file has rows; files of one unit must agree."""

    @classmethod
    def of(cls, value: Mapping[str, Json]) -> FileEntry:
        """Return the entry of a manifest. Raises: ValueError, KeyError: it is invalid."""
        _check_keys(cls, value)
        rows = value.get("rows")
        return cls(
            json_checks.digest(value["sha1"], "`sha1`"),
            json_checks.count(value["bytes"], "`bytes`"),
            None if rows is None else json_checks.count(rows, "`rows`"),
        )


class SourceEntry(Frozen):
    """State of a source when it was read."""

    kind: str
    name: str
    sha1: str
    """Digest of the records read, by id: equal content gives an equal digest under any name of the folder."""
    records: int
    refused: int = 0

    @classmethod
    def of(cls, value: Mapping[str, Json]) -> SourceEntry:
        """Return the entry of a manifest. Raises: ValueError, KeyError: it is invalid."""
        _check_keys(cls, value)
        return cls(
            json_checks.text(value["kind"], "`kind`"),
            json_checks.text(value["name"], "`name`"),
            json_checks.digest(value["sha1"], "`sha1`"),
            json_checks.count(value["records"], "`records`"),
            json_checks.count(value.get("refused", 0), "`refused`"),
        )


class Manifest(Frozen, dict=True):
    """Description of a generation. It is written last; a folder without a manifest is not a generation."""

    recipe: Recipe
    """Everything that changes an answer at build time."""
    sources: tuple[SourceEntry, ...]
    files: Mapping[str, FileEntry]
    """Files of the folder of this generation."""
    segments: tuple[str, ...] = ()
    """Generations whose segments come first, oldest first; its rows follow them."""
    own_sources: tuple[tuple[str, int], ...] = ()
    """Names of the sources of the rows that it added, in order, with the number of these records."""
    schema_version: int = SCHEMA_VERSION
    built: Mapping[str, Json] = {}
    """Circumstances (time, paths of the sources, program version), excluded from the id."""

    @cached_property
    def id(self) -> str:
        value = self._as_json()
        del value["built"]
        return sha1(value)[:ID_LENGTH]

    @property
    def sequence(self) -> int:
        """Number of this publication in its folder, from 1; 0 if unknown."""
        return int(self.built.get("sequence", 0))

    def rows(self, name: str) -> int | None:
        """Return the number of rows of a file; None if it has no rows, or does not exist."""
        entry = self.files.get(name)
        return entry.rows if entry else None

    def _as_json(self) -> dict[str, Json]:
        return {
            "recipe": self.recipe.to_json(),
            "sources": [asdict(source) for source in self.sources],
            "files": {name: asdict(file) for name, file in self.files.items()},
            "segments": list(self.segments),
            "own_sources": [list(pair) for pair in self.own_sources],
            "schema_version": self.schema_version,
            "built": dict(self.built),
        }

    def to_json(self) -> dict[str, Json]:
        return {"generation": self.id, **self._as_json(), BUILT_SHA1: sha1(self.built)}

    @classmethod
    def read(cls, path: Path) -> Manifest:
        """Read and check a manifest.

        Raises:
            IndexCorrupt: the file is missing, not JSON, from another schema, has the id of other contents, or has
                values of the wrong type.
        """
        try:
            text = read_text(path, limit=LIMIT)
        except OSError as error:
            raise IndexCorrupt(f"cannot read {path}: {error.strerror}", hint=_REBUILD) from error
        except ValueError as error:
            raise IndexCorrupt(f"{path} is not valid JSON ({shortened(str(error))})", hint=_REBUILD) from error
        return cls.of_text(text, str(path))

    @classmethod
    @lru_cache(maxsize=64)
    def of_text(cls, text: str, path: str) -> Manifest:
        """Parse and check the text of a manifest; errors name its `path`. Raises: IndexCorrupt: as in `read`."""
        import orjson

        try:
            value = json.loads(text, parse_constant=_reject_constant, parse_float=_finite)
            orjson.dumps(value)  # reject lone surrogates and integers of more than 64 bits, which cannot be printed
        except (ValueError, TypeError, RecursionError) as error:
            raise IndexCorrupt(f"{path} is not valid JSON ({shortened(str(error))})", hint=_REBUILD) from error
        version = value.get("schema_version") if isinstance(value, dict) else None
        if version != SCHEMA_VERSION:
            schemas = f"schema {quoted(version)}, not {SCHEMA_VERSION}"
            raise IndexCorrupt(f"{path} was built by another version of retrieve ({schemas})", hint=_REBUILD)
        try:
            files = json_checks.mapping(value["files"], "`files`")
            manifest = cls(
                recipe=Recipe.from_json(value["recipe"]),
                sources=tuple(SourceEntry.of(entry) for entry in json_checks.mappings(value["sources"], "`sources`")),
                files={
                    json_checks.file_name(name): FileEntry.of(json_checks.mapping(files[name], name)) for name in files
                },
                segments=tuple(_segments(value["segments"])),
                own_sources=tuple(_pairs(value["own_sources"])),
                built=_built(value.get("built", {})),
            )
            if manifest.rows("records.jsonl") not in (None, sum(count for _, count in manifest.own_sources)):
                raise ValueError("`own_sources` do not have the rows of records.jsonl")
            name, built = manifest.id, sha1(manifest.built)
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            reason = f"no {error}" if isinstance(error, KeyError) else str(error)
            raise IndexCorrupt(f"{path} is not a complete manifest ({shortened(reason)})", hint=_REBUILD) from error
        if name != value.get("generation") or built != value.get(BUILT_SHA1):
            stated = quoted(value.get("generation"))
            raise IndexCorrupt(f"{path} was altered: its content does not match its id {stated}", hint=_REBUILD)
        return manifest


def _check_keys(kind: type[FileEntry] | type[SourceEntry], value: Mapping[str, Json]) -> None:
    for key in value:
        if key not in kind.__struct_fields__:
            raise ValueError(f"{quoted(key)} is not a key of an entry")


def _segments(value: Json) -> list[str]:
    """Return the ids of the older generations. Raises: ValueError."""
    if not isinstance(value, list) or len(value) > MOST_SEGMENTS or len(set(map(str, value))) < len(value):
        raise ValueError(f"`segments` is not a list of generations: {quoted(value)}")
    names = [json_checks.text(name, "an entry of `segments`") for name in value]
    if not all(_ID.fullmatch(name) for name in names):
        raise ValueError(f"`segments` does not name generations: {quoted(value)}")
    return names


def _pairs(value: Json) -> list[tuple[str, int]]:
    """Return names with counts. Raises: ValueError."""
    if not isinstance(value, list) or not all(isinstance(pair, list) and len(pair) == 2 for pair in value):
        raise ValueError(f"`own_sources` is not a list of pairs: {quoted(value)}")
    return [
        (json_checks.text(name, "a name of `own_sources`"), json_checks.count(count, "a number of `own_sources`"))
        for name, count in value
    ]


def _built(value: Json) -> Mapping[str, Json]:
    """Return the circumstances after checking the types of the known ones. Raises: ValueError."""
    built = json_checks.mapping(value, "`built`")
    for name in ("at", "version"):
        json_checks.text(built.get(name, ""), f"`{name}`")
    for name in ("sequence", "chunks"):
        json_checks.count(built.get(name, 0), f"`{name}`")
    for name, number in json_checks.mapping(built.get("changes", {}), "`changes`").items():
        json_checks.count(number, f"the number of {shortened(name)}")
    for kind, source in json_checks.mapping(built.get("prefixes", {}), "`prefixes`").items():
        json_checks.text(source, f"the source of the {shortened(kind)} prefix")
    json_checks.mapping(built.get("settings", {}), "`settings`")
    for name, text in json_checks.mapping(built.get("about", {}), "`about`").items():
        json_checks.text(text, f"`{shortened(name)}` of `about`")
    for source in json_checks.mappings(built.get("sources", []), "`sources` of `built`"):
        json_checks.mapping(source.get("origin", {}), "`origin`")
        json_checks.text(source.get("digest", ""), "`digest`")
        if (stamp := source.get("stamp")) is not None and not (
            isinstance(stamp, list) and all(isinstance(part, int) for part in stamp)
        ):
            raise ValueError(f"`stamp` is not a list of numbers: {quoted(stamp)}")
        for mark in json_checks.mapping(source.get("folders", {}), "`folders`").values():
            if not isinstance(mark, list) or [type(part) for part in mark] != [int, str]:
                raise ValueError(f"the mark of a folder is not a time and a SHA-1: {quoted(mark)}")
    return built


def faults(folder: Path, manifest: Manifest, names: Sequence[str] | None = None) -> dict[str, str]:
    """Return the faults of a generation's files, or of the named ones, after reading every byte."""
    from concurrent.futures import ThreadPoolExecutor  # hashing releases the interpreter

    from retrieve_cli.contracts.progress import BYTES, task  # nor does a query check every byte

    def fault(name: str) -> str:
        entry = manifest.files[name]
        text = size_fault(folder / name, entry) or digest_fault(folder / name, entry)
        progress.advance(entry.bytes)
        return text

    chosen = list(manifest.files if names is None else names)
    size = sum(manifest.files[name].bytes for name in chosen)
    with task("verifying the index", BYTES, size) as progress, ThreadPoolExecutor(2) as threads:
        return {name: text for name, text in zip(chosen, threads.map(fault, chosen), strict=True) if text}


def size_fault(path: Path, entry: FileEntry) -> str:
    """Return the obvious fault of a file: missing, or of another length; empty if it has no fault."""
    try:
        size = path.stat().st_size
    except OSError as error:
        return f"{path} is missing ({error.strerror})"
    return "" if size == entry.bytes else f"{path} has {size} bytes; the manifest has {entry.bytes}"


def digest_fault(path: Path, entry: FileEntry) -> str:
    """Return the fault of a file after reading every byte; empty if it is as written."""
    try:
        digest = sha1_file(path)
    except OSError as error:
        return f"{path} cannot be read ({error.strerror})"
    return "" if digest == entry.sha1 else f"{path} has SHA-1 {digest}; the manifest has {entry.sha1}"
