"""A catalog in JSON Lines, read record by record."""

from __future__ import annotations

import stat
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from shlex import quote

from retrieve_cli.contracts import Item, Json, Notice, Record, Refused, SourceKind
from retrieve_cli.errors import UsageError
from retrieve_cli.sources.digests import BOM, file_stamp, line_digest
from retrieve_cli.sources.fields import FieldMap, record_from
from retrieve_cli.sources.places import absolute
from retrieve_cli.untrusted import files

_DEEPEST = 64
"""Levels of nesting that a record may have."""
_OTHERS = (
    (b"\x1f\x8b", "compressed by gzip", "unpack it: gunzip -k"),
    (b"PK\x03\x04", "a zip archive", "unpack it: unzip"),
    (b"\xff\xfe", "UTF-16", "convert it: iconv -f UTF-16 -t UTF-8"),
    (b"\xfe\xff", "UTF-16", "convert it: iconv -f UTF-16 -t UTF-8"),
)
"""How files that are no catalog begin, what they are, and how to make a catalog of them."""
_EXCERPT = 200
"""Characters of a refused line that are kept for people to recognise it."""


class CatalogSource:
    """One record a line, in any of the known spellings, BEIR corpora among them."""

    kind: SourceKind = "catalog"

    def __init__(self, path: Path, fields: FieldMap, *, name: str = "", id_prefix: str = "") -> None:
        """Raises: UsageError where `path` is no file of JSON Lines."""
        self.path = path
        self._place = absolute(path)
        self.name = name or self._place.name
        self._fields = fields
        self._id_prefix = id_prefix
        self._digest = line_digest(self.name, id_prefix)
        _check(path)

    @property
    def card(self) -> Mapping[str, Json]:
        return self._fields.card

    @property
    def origin(self) -> Mapping[str, Json]:
        return {"kind": self.kind, "name": self.name, "path": str(self._place), "id_prefix": self._id_prefix}

    def fetch(self) -> None:
        """Nothing: it is here."""

    def stamp(self) -> list[int]:
        """Raises: UsageError where the file cannot be read."""
        try:
            return file_stamp(self.path)
        except OSError as error:
            raise self._unreadable(error) from error

    def scan(self) -> Iterator[Item | Refused | Notice]:
        """Raises: UsageError where the file cannot be read."""
        try:
            with files.open_regular(self.path) as file:
                for number, raw in enumerate(files.lines(file), 1):
                    line = raw.removeprefix(BOM) if number == 1 else raw
                    if len(line) > files.LINE:
                        yield self._refuse(line, number, f"it is longer than {files.LINE // files.MB} MB")
                    elif line.strip():
                        yield Item(self._digest(line), self.name, number, partial(self._read, line, number))
        except OSError as error:
            raise self._unreadable(error) from error

    def _unreadable(self, error: OSError) -> UsageError:
        return UsageError(f"cannot read {self.path}: {error.strerror}", hint="check the path and its rights")

    def _read(self, line: bytes, number: int) -> tuple[Record | Refused]:
        return (self._parse(line, number),)

    def _parse(self, line: bytes, number: int) -> Record | Refused:
        import orjson

        try:
            item = orjson.loads(line)
        except ValueError as error:
            return self._refuse(line, number, _why_not_json(line, error))
        if _too_deep(line) and _depth(item) > _DEEPEST:
            return self._refuse(line, number, f"it is nested deeper than {_DEEPEST} levels")
        if not isinstance(item, dict):
            return self._refuse(line, number, f"it is a JSON {type(item).__name__}, not an object")
        record = record_from(item, self._fields, source=self.name, line=number)
        if isinstance(record, str):
            return self._refuse(line, number, record)
        return replace(record, id=self._id_prefix + record.id) if self._id_prefix else record

    def _refuse(self, line: bytes, number: int, reason: str) -> Refused:
        return Refused(self.name, number, reason, line[:_EXCERPT].decode("utf-8", "replace").rstrip("\n"))


def _why_not_json(line: bytes, error: ValueError) -> str:
    try:
        line.decode("utf-8")
    except UnicodeDecodeError as undecodable:
        return f"it is not UTF-8 (byte 0x{line[undecodable.start]:02x} at position {undecodable.start})"
    return f"it is not JSON ({error})"


def _too_deep(line: bytes) -> bool:
    """Whether it may be nested too deeply: a cheap look, for the many lines that are not."""
    return line.count(b"[") + line.count(b"{") > _DEEPEST


def _depth(value: Json) -> int:
    """Levels of lists and objects in a value, counted without recursion."""
    deepest, waiting = 0, [(value, 1)]
    while waiting:
        part, depth = waiting.pop()
        if isinstance(part, dict | list):
            deepest = max(deepest, depth)
            waiting += [(inner, depth + 1) for inner in (part.values() if isinstance(part, dict) else part)]
    return deepest


def _check(path: Path) -> None:
    try:
        mode = path.stat().st_mode
        if stat.S_ISREG(mode):
            with files.open_regular(path) as file:
                head = file.read(4096).lstrip()
    except OSError as error:
        hint = "check the path and its rights"
        raise UsageError(f"cannot read the catalog {path}: {error.strerror}", hint=hint) from error
    if stat.S_ISDIR(mode):
        corpus = path / "corpus.jsonl"
        hint = f"--catalog {corpus}" if corpus.is_file() else f"for a folder of documents: --docs-dir {path}"
        raise UsageError(f"{path} is a folder; --catalog takes a file of JSON Lines", hint=hint)
    if not stat.S_ISREG(mode):
        hint = "save it to a file first: a catalog must be the same when it is read again"
        raise UsageError(f"{path} is not a regular file", hint=hint)
    if head.startswith(b"["):
        lines = quote(str(path.with_suffix(".lines.jsonl")))
        hint = f"convert it: jq -c '.[]' {quote(str(path))} > {lines}"
        raise UsageError(f"{path} is a JSON array; a catalog is JSON Lines, one object a line", hint=hint)
    for start, what, remedy in _OTHERS:
        if head.startswith(start):
            raise UsageError(f"{path} is {what}, not JSON Lines", hint=f"{remedy} {quote(str(path))}")
    if b"\0" in head and not head.startswith((b"{", BOM)):
        raise UsageError(f"{path} is a binary file, not JSON Lines", hint="name a file of JSON objects, one a line")
