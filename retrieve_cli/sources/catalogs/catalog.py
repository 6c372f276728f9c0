"""A catalog in JSON Lines, one document of JSON-LD, or a table, read record by record."""

from __future__ import annotations

import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain, islice
from pathlib import Path
from shlex import quote

from retrieve_cli.contracts import Fetched, Item, Json, Notice, Record, Refused, SourceKind
from retrieve_cli.contracts.tools import is_tool
from retrieve_cli.errors import UsageError, quoted
from retrieve_cli.frozen import Frozen, replace
from retrieve_cli.sources.catalogs.inferred import LOOKED_AT, infer
from retrieve_cli.sources.catalogs.keys import CatalogKey, find_key, sentences, with_key
from retrieve_cli.sources.catalogs.linked_catalog import NotRead, graph_of_line, parsed, record_of_line
from retrieve_cli.sources.catalogs.tables import Row, TableLayout, lines_of, rows_of, table_of
from retrieve_cli.sources.catalogs.tool_lists import LISTS, items_in
from retrieve_cli.sources.digests import BOM, WHITE, absolute, file_stamp, line_digest
from retrieve_cli.sources.fields import FieldMap, as_renamed_item, has_id, id_of, is_stored, record_from
from retrieve_cli.sources.values import DEEPEST, holds_any, too_deep
from retrieve_cli.storage.manifest import canonical, sha1, sha1_file
from retrieve_cli.untrusted import files

_OTHERS = (
    (b"\x1f\x8b", "compressed by gzip", "unpack it: gunzip -k"),
    (b"PK\x03\x04", "a zip archive", "unpack it: unzip"),
    (b"\xff\xfe", "UTF-16", "convert it: iconv -f UTF-16 -t UTF-8"),
    (b"\xfe\xff", "UTF-16", "convert it: iconv -f UTF-16 -t UTF-8"),
)
"""First bytes of files that are not catalogs, with the kind of file and the command that converts it."""
_EXCERPT = 200
"""Characters of a rejected line that the quarantine file keeps."""
_SHOWN = 20
"""Columns that an error names."""
_COUNTED = 8 << 20
"""Bytes whose lines are counted."""


class CatalogSource:
    """A catalog with one record per line or row, in any known spelling (BEIR included), or of JSON-LD graphs."""

    kind: SourceKind = "catalog"

    def __init__(
        self,
        path: Path,
        fields: FieldMap,
        *,
        name: str = "",
        id_prefix: str = "",
        layout: TableLayout = TableLayout(),
        own: Mapping[str, Json] = {},
    ) -> None:
        """Raises: UsageError if `path` is not a file of JSON Lines or a table."""
        self.path = path
        self._place = absolute(path)
        self.name = name or self._place.name
        self._reading = CatalogReading(fields)
        self._layout = layout
        self._id_prefix = id_prefix
        self._own, self._column = own, str(own.get("id", ""))
        self.check()

    @property
    def card(self) -> Mapping[str, Json]:
        return self._reading.fields.card

    @property
    def origin(self) -> Mapping[str, Json]:
        place = {"kind": self.kind, "name": self.name, "path": str(self._place), "id_prefix": self._id_prefix}
        return {**place, **self._own}

    def mapping(self) -> Mapping[str, Json]:
        """Return the keys that the last scan read under other names, whether they were inferred, the column of the key
        if records have no id, a digest of these rules, and sentences on key, title and body."""
        reading = self._reading
        renames = [list(pair) for pair in reading.fields.renames.items()]
        found: dict[str, Json] = {"fields": renames, "inferred": reading.inferred} if renames else {}
        key = {} if reading.key is None else {"key": reading.key.column}
        rules = {"rules": reading.rules} if reading.rules else {}
        return {**found, **key, **rules, "reading": list(reading.sentences)} if reading.sentences else found

    def check(self) -> None:
        """Raises: UsageError: it is not a file of JSON Lines or a table."""
        path = self.path
        try:
            mode = path.stat().st_mode
            if stat.S_ISREG(mode):
                with files.open_regular(path) as file:
                    head = file.read(4096).lstrip()
        except OSError as error:
            hint = "check the path and its permissions"
            raise UsageError(f"cannot read the catalog {path}: {error.strerror}", hint=hint) from error
        if stat.S_ISDIR(mode):
            corpus = path / "corpus.jsonl"
            hint = f"--catalog {corpus}" if corpus.is_file() else f"for a folder of documents: --docs-dir {path}"
            raise UsageError(f"{path} is a folder; --catalog takes a file", hint=hint)
        if not stat.S_ISREG(mode):
            hint = "save it to a file first: a catalog must be the same when it is read again"
            raise UsageError(f"{path} is not a regular file", hint=hint)
        if table_of(path, self._layout) is not None:
            return
        for start, what, remedy in _OTHERS:
            if head.startswith(start):
                raise UsageError(f"{path} is {what}, not JSON Lines", hint=f"{remedy} {quote(str(path))}")
        if b"\0" in head and not head.startswith((b"{", BOM)):
            raise UsageError(
                f"{path} is a binary file, not JSON Lines", hint="pass a file with one JSON object per line"
            )

    def fetch(self) -> Fetched | None:
        """Do nothing: the file is local."""
        return None

    def stamp(self) -> list[int]:
        """Return size and times of the file. Raises: UsageError if it cannot be read."""
        try:
            return file_stamp(self.path)
        except OSError as error:
            raise self._unreadable(error) from error

    def content_sha1(self) -> str:
        """Return the SHA-1 of the file, 40 hex digits. Raises: UsageError if it cannot be read."""
        try:
            return sha1_file(self.path)
        except OSError as error:
            raise self._unreadable(error) from error

    def scan(self) -> Iterator[Item | Refused | Notice]:
        """Yield one item per line or row, which may hold several records. Raises: UsageError if the file cannot be
        read."""
        try:
            rows = self._prepared()
            copy = line_digest(self.name, self._id_prefix, self._reading.rules).copy
            name, read = self.name, self._read
            for row in rows:  # a million times: this loop is the cost of finding what has changed
                if isinstance(row, str):
                    yield Notice(name, row)
                    continue
                number, line, reason = row
                if reason or len(line) > files.LINE:
                    reason = reason or f"it is longer than {files.LINE // files.MB} MB"
                    yield self._reject(line, number, reason)
                elif content := line.strip(WHITE):
                    digest = copy()
                    digest.update(content)
                    yield Item(digest.digest(), name, number, partial(read, line, number))
        except OSError as error:
            raise self._unreadable(error) from error

    def count(self) -> int | None:
        """Return the number of lines; of a large file an estimate from its beginning. None if it is no file of lines.

        Raises:
            OSError: it cannot be read.
        """
        table, size = table_of(self.path, self._layout), self.path.stat().st_size
        if table is not None and (table.packed or table.kind != "csv"):
            return None
        with files.open_regular(self.path) as file:
            head = file.read(_COUNTED)
        lines = head.count(b"\n") + (len(head) == size and not head.endswith(b"\n"))
        return lines if len(head) >= size else round(lines * size / len(head))

    def _prepared(self) -> Iterator[Row | str]:
        """Return the rows, after inferring from the first ones which keys are fields, and from all the key of records
        that have no id."""
        rows, first = catalog_rows(self.path, self._layout), list[Row | str]()
        objects = list(_objects(rows, first))
        again = []

        def others() -> Iterator[Mapping[str, Json]]:
            again.append(True)
            yield from _objects(rows, None)

        fields = self._reading.fields
        self._reading = CatalogReading.of(objects, fields, others=others, column=self._column, where=str(self.path))
        return catalog_rows(self.path, self._layout) if again else chain(first, rows)

    def _unreadable(self, error: OSError) -> UsageError:
        return UsageError(f"cannot read {self.path}: {error.strerror}", hint="check the path and its permissions")

    def _read(self, line: bytes, number: int) -> Iterator[Record | Refused]:
        for part, reason in parts_of(line):
            record = reason or read_record(part, self._reading, source=self.name, number=number)
            if isinstance(record, str):
                yield self._reject(part, number, record)
            else:
                yield replace(record, id=self._id_prefix + record.id) if self._id_prefix else record

    def _reject(self, line: bytes, number: int, reason: str) -> Refused:
        return Refused(self.name, number, reason, line[:_EXCERPT].decode("utf-8", "replace").rstrip("\n"))


class CatalogReading(Frozen):
    """Rules that read the objects of a catalog: its fields, and the key of objects without an id."""

    fields: FieldMap
    key: CatalogKey | None = None
    inferred: bool = False
    """True if the names of its keys were guessed."""
    sentences: Sequence[str] = ()
    """Key, title and body in words."""

    @classmethod
    def of(
        cls,
        first: Sequence[Mapping[str, Json]],
        fields: FieldMap,
        *,
        others: Callable[[], Iterable[Mapping[str, Json]]] = tuple,
        column: str = "",
        known: Collection[str] = (),
        where: str = "",
    ) -> CatalogReading:
        """Return the rules for the first objects of a catalog, and the `others` if a key has to be found.

        `column` is the key if it is configured; `known` are ids of records that these may replace.

        Raises:
            UsageError: that column is missing.
        """
        inferred = False
        if not fields.configured:
            renames = infer(item for item in first if not (is_stored(item) or is_tool(item)))
            fields, inferred = replace(fields, renames=renames), bool(renames)
        items, key = [as_renamed_item(item, fields) for item in first], None
        if column:
            column = fields.renames.get(column, column)
            if items and not any(column in item for item in items):
                hint = f"its columns are {', '.join(list(items[0])[:_SHOWN])}"
                raise UsageError(f"{where} has no column {quoted(column)}, which is its id", hint=hint)
            key = CatalogKey(column, forced=True)
        elif not all(has_id(item, fields) for item in items):
            key = find_key(chain(items, (as_renamed_item(item, fields) for item in others())), fields, known)
        said = sentences(items[:LOOKED_AT], fields, key) if items else []
        return cls(fields, key, inferred, said)

    def keyed(self, item: Mapping[str, Json]) -> Mapping[str, Json]:
        """Return an object with its key as `id`."""
        return item if self.key is None else with_key(item, self.fields, self.key)

    @property
    def rules(self) -> str:
        """A digest of everything outside a line that decides its record, except the configuration; empty if there is
        nothing."""
        key = self.key
        if not self.fields.renames and key is None:
            return ""
        keyed = None if key is None else [key.column, key.forced, sorted(map(list, key.shared))]
        return sha1([list(map(list, self.fields.renames.items())), keyed])


def _described(line: bytes) -> Json:
    """Return the object of a line, or the one that its JSON-LD describes. Raises: ValueError, NotRead."""
    import orjson

    item = orjson.loads(line)
    return record_of_line(item, line) if isinstance(item, dict) and not is_stored(item) else item


def catalog_rows(path: Path, layout: TableLayout = TableLayout()) -> Iterator[Row | str]:
    """Yield the rows of a table, or the lines of a catalog.

    Raises:
        OSError, UsageError, Unavailable: as a table's rows do.
    """
    table = table_of(path, layout)
    with files.open_regular(path) as file:
        yield from lines_of(file) if table is None else table.rows()


def parts_of(line: bytes) -> list[tuple[bytes, str]]:
    """Return the records of a line, each as a line, with the reason to reject it if there is one: of a list of tools or
    a graph, all of them."""
    if holds_any(line, LISTS) and (items := items_in(parsed(line))) is not None:
        return [(part, reason) for _, part, reason in rows_of(items)]
    try:
        graph = graph_of_line(line)
    except NotRead as error:
        return [(line, str(error))]
    return [(line, "")] if graph is None else [(canonical(record), "") for record in graph]


def _objects(rows: Iterator[Row | str], taken: list[Row | str] | None) -> Iterator[dict[str, Json]]:
    """Yield the objects of the first rows, which are added to `taken`, or of all."""
    size = 0
    for row in rows if taken is None else islice(rows, LOOKED_AT):
        if taken is not None:
            taken.append(row)
        if not isinstance(row, str) and not row[2] and len(row[1]) <= files.LINE:
            yield from objects_of(row[1])
            size += len(row[1])
        if taken is not None and size > files.LINE:
            return


def objects_of(line: bytes) -> Iterator[dict[str, Json]]:
    """Yield the objects of a line, one at a time."""
    for part, _ in parts_of(line):
        with suppress(ValueError, NotRead):
            item = _described(part)
            if isinstance(item, dict):
                yield item


def ids_of(line: bytes, reading: CatalogReading) -> Iterator[str]:
    """Yield the ids that the records of a line may have, which depend on whether others share their key."""
    for item in objects_of(line):
        for keyed in (reading.keyed(item), item):
            yield id_of(as_renamed_item(keyed, reading.fields), reading.fields.spellings["id"])


def read_record(line: bytes, reading: CatalogReading, *, source: str, number: int) -> Record | str:
    """Return the record of one line of a catalog, or the reason why it is rejected."""
    import orjson

    try:
        item = orjson.loads(line)
    except ValueError as error:
        return _why_not_json(line, error)
    stored = isinstance(item, dict) and is_stored(item)
    may_be_deep = line.count(b"[") + line.count(b"{") > DEEPEST  # a cheap test that most lines pass
    if may_be_deep and too_deep(item, DEEPEST + stored):  # in a stored record, metadata are one level down
        return f"it is nested deeper than {DEEPEST} levels"
    if not isinstance(item, dict):
        return f"it is a JSON {type(item).__name__}, not an object"
    try:
        item = item if stored else record_of_line(item, line)
    except NotRead as error:
        return str(error)
    return record_from(reading.keyed(item), reading.fields, source=source, line=number)


def _why_not_json(line: bytes, error: ValueError) -> str:
    try:
        line.decode("utf-8")
    except UnicodeDecodeError as undecodable:
        return f"it is not UTF-8 (byte 0x{line[undecodable.start]:02x} at position {undecodable.start})"
    return f"it is not JSON ({error})"
