"""Digests of values and files, and the manifest that ties a generation's parts together.

A digest is the SHA-1 of canonical JSON (sorted keys, no spaces, UTF-8), never of concatenated text, so two different
values cannot share a digest by moving a boundary. A generation's id is the digest of everything that decides its
answers: schema, recipe, sources, files. Time and place of the build are excluded, so the same input gives the same id
anywhere; they have a separate digest. A manifest may come from anywhere: the type of every value is checked.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from retrieve_cli.contracts import Json
from retrieve_cli.errors import IndexCorrupt, quoted, shortened
from retrieve_cli.frozen import Frozen, asdict
from retrieve_cli.storage.recipe import Recipe
from retrieve_cli.untrusted.files import MANIFEST as LIMIT, open_regular, read_text

SCHEMA_VERSION = 5
ID_LENGTH = 12
MOST_SEGMENTS = 64
"""Segments of a generation; a sync merges them long before."""
Sha1 = Annotated[str, Meta(pattern=r"^[0-9a-f]{40}\Z")]
GenerationId = Annotated[str, Meta(pattern=r"^[0-9a-f]{12}\Z")]
FileName = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*\Z")]
Count = Annotated[int, Meta(ge=0, le=2**53)]
"""A whole number that every JSON reader represents exactly."""
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


def sha1_file(path: Path) -> str:
    """Return the SHA-1 of a file's bytes, 40 hex digits. Raises: OSError: it is unreadable, or not a regular file."""
    with open_regular(path) as file:
        return hashlib.file_digest(file, partial(hashlib.sha1, usedforsecurity=False)).hexdigest()


class FileEntry(Frozen, forbid_unknown_fields=True):
    """One artifact of a generation: opening checks its size and rows, `inspect verify` its digest."""

    sha1: Sha1
    bytes: Count
    rows: Count | None = None
    """Number of rows, if the file has rows; files of one unit must agree."""


class SourceEntry(Frozen, forbid_unknown_fields=True):
    """State of a source when it was read."""

    kind: str
    name: str
    sha1: Sha1
    """Digest of the records read, by id: equal content gives an equal digest under any name of the folder."""
    records: Count
    refused: Count = 0


class Manifest(Frozen, dict=True):
    """Description of a generation. It is written last; a folder without a manifest is not a generation."""

    recipe: Recipe
    """Everything that changes an answer at build time."""
    sources: tuple[SourceEntry, ...]
    files: Mapping[FileName, FileEntry]
    """Files of the folder of this generation."""
    segments: Annotated[tuple[GenerationId, ...], Meta(max_length=MOST_SEGMENTS)] = ()
    """Generations whose segments come first, oldest first; its rows follow them."""
    own_sources: tuple[tuple[str, Count], ...] = ()
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
        return {**asdict(self), "recipe": self.recipe.to_json()}

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
        try:
            value = msgspec.json.decode(text)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise IndexCorrupt(f"{path} is not valid JSON ({shortened(str(error))})", hint=_REBUILD) from error
        version = value.get("schema_version") if isinstance(value, dict) else None
        if version != SCHEMA_VERSION:
            schemas = f"schema {quoted(version)}, not {SCHEMA_VERSION}"
            raise IndexCorrupt(f"{path} was built by another version of retrieve ({schemas})", hint=_REBUILD)
        try:
            recipe = Recipe.from_json(value.pop("recipe", None))
            manifest = msgspec.convert({**value, "recipe": recipe}, cls)
            msgspec.convert(manifest.built, _Circumstances)
            if manifest.rows("records.jsonl") not in (None, sum(count for _, count in manifest.own_sources)):
                raise ValueError("`own_sources` do not have the rows of records.jsonl")
            name, built = manifest.id, sha1(manifest.built)
        except (msgspec.MsgspecError, ValueError) as error:
            reason = shortened(str(error))
            raise IndexCorrupt(f"{path} is not a complete manifest ({reason})", hint=_REBUILD) from error
        if name != value.get("generation") or built != value.get(BUILT_SHA1):
            stated = quoted(value.get("generation"))
            raise IndexCorrupt(f"{path} was altered: its content does not match its id {stated}", hint=_REBUILD)
        return manifest


class _SourceCircumstances(Frozen):
    """State of a source that is excluded from the id."""

    origin: Mapping[str, Json] = {}
    digest: str = ""
    stamp: tuple[int, ...] | None = None
    folders: Mapping[str, tuple[int, str]] = {}
    """Time and SHA-1 of each folder."""


class _Circumstances(Frozen):
    """The known values of `built`."""

    at: str = ""
    version: str = ""
    sequence: Count = 0
    chunks: Count = 0
    changes: Mapping[str, Count] = {}
    reread: tuple[str, ...] = ()
    """SHA-1 of the items that a sync reads again, because a part of each was rejected."""
    prefixes: Mapping[str, str] = {}
    settings: Mapping[str, Json] = {}
    about: Mapping[str, str] = {}
    sources: tuple[_SourceCircumstances, ...] = ()


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
