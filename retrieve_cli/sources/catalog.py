"""A catalog in JSON Lines, read record by record."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from retrieve_cli.contracts import Json, Notice, Record, Refused
from retrieve_cli.errors import UsageError
from retrieve_cli.sources.fields import FieldMap, record_from

_BOM = b"\xef\xbb\xbf"
_EXCERPT = 200
"""Characters of a refused line that are kept for people to recognise it."""


class CatalogSource:
    """One record a line, in any of the known spellings, BEIR corpora among them."""

    kind = "catalog"

    def __init__(self, path: Path, fields: FieldMap) -> None:
        """Raises: UsageError where `path` is no file of JSON Lines."""
        self.path = path
        self.location = str(path.resolve())
        self.name = path.name
        self._fields = fields
        _check(path)

    @property
    def card(self) -> Mapping[str, Json]:
        known = {name: list(paths) for name, paths in self._fields.spellings.items()}
        return {"kind": self.kind, "spellings": known, "weights": list(self._fields.weights.items())}

    def read(self) -> Iterator[Record | Refused | Notice]:
        """Raises: UsageError where the file cannot be read."""
        try:
            with self.path.open("rb") as file:
                for number, raw in enumerate(file, 1):
                    line = raw.removeprefix(_BOM) if number == 1 else raw
                    if line.strip():
                        yield self._parse(line, number)
        except OSError as error:
            raise UsageError(
                f"cannot read {self.path}: {error.strerror}", hint="check the path and its rights"
            ) from error

    def _parse(self, line: bytes, number: int) -> Record | Refused:
        import orjson

        try:
            item = orjson.loads(line)
        except ValueError as error:
            return self._refuse(line, number, _why_not_json(line, error))
        if not isinstance(item, dict):
            return self._refuse(line, number, f"it is a JSON {type(item).__name__}, not an object")
        record = record_from(item, self._fields, source=self.name, line=number)
        return self._refuse(line, number, record) if isinstance(record, str) else record

    def _refuse(self, line: bytes, number: int, reason: str) -> Refused:
        return Refused(self.name, number, reason, line[:_EXCERPT].decode("utf-8", "replace").rstrip("\n"))


def _why_not_json(line: bytes, error: ValueError) -> str:
    try:
        line.decode("utf-8")
    except UnicodeDecodeError as undecodable:
        return f"it is not UTF-8 (byte 0x{line[undecodable.start]:02x} at position {undecodable.start})"
    return f"it is not JSON ({error})"


def _check(path: Path) -> None:
    if path.is_dir():
        corpus = path / "corpus.jsonl"
        hint = f"--catalog {corpus}" if corpus.is_file() else f"for a folder of documents: --docs-dir {path}"
        raise UsageError(f"{path} is a folder; --catalog takes a file of JSON Lines", hint=hint)
    try:
        with path.open("rb") as file:
            head = file.read(4096).lstrip()
    except OSError as error:
        raise UsageError(
            f"cannot read the catalog {path}: {error.strerror}", hint="check the path and its rights"
        ) from error
    if head.startswith(b"["):
        raise UsageError(
            f"{path} is a JSON array; a catalog is JSON Lines, one object a line",
            hint=f"convert it: jq -c '.[]' {path} > {path.with_suffix('.jsonl')}",
        )
