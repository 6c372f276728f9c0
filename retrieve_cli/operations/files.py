"""View of `inspect files`: SHA-1, records and chunks of each file that the index was built from.

All of it is read from the index, never from the sources. A few records are in memory at a time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from retrieve_cli.contracts.terms import figures
from retrieve_cli.errors import UsageError, printable, quoted
from retrieve_cli.operations.status import noun_of
from retrieve_cli.output.formats import dump

if TYPE_CHECKING:
    from retrieve_cli.contracts import Json
    from retrieve_cli.storage.generation import Generation
    from retrieve_cli.storage.manifest import SourceEntry

SCHEMA_VERSION = 1
_DOCS = "docs"
"""Kind of the sources whose records are whole files."""


@dataclass(slots=True)
class File:
    """A file in the index."""

    source: SourceEntry
    path: str
    """Path within a folder of documents, or name of a catalog, as in its records."""
    sha1: str | None
    """SHA-1 of the path and bytes of a document, see `sources/digests.py`, or of the bytes of a catalog."""
    records: int = 0
    chunks: int = 0
    ids: list[str] = field(default_factory=list)
    """Ids of the chunks of a document."""

    def to_json(self) -> dict[str, Json]:
        return {
            "file": self.path,
            "sha1": self.sha1,
            "source": self.source.name,
            "kind": self.source.kind,
            "records": self.records,
            "chunks": self.chunks,
            **({"chunk_ids": self.ids} if self.source.kind == _DOCS else {}),
        }

    def line(self) -> str:
        """Return the line of a table."""
        first, last = (self.ids[0], self.ids[-1].rpartition("#")[2]) if self.ids else ("", "")
        ids = f"{first}–#{last}" if len(self.ids) > 1 else first
        sha1 = (self.sha1 or "-")[:_DIGITS]
        line = f"{self.records:{_NUMBER},}  {self.chunks:{_NUMBER},}  {sha1:{_DIGITS}}  {self.path}  {ids}"
        return printable(line.rstrip())


_NUMBER, _DIGITS = 9, 12
"""Columns of a number, and of the SHA-1 of which programs get all digits."""
HEADER = f"{'records':>{_NUMBER}}  {'chunks':>{_NUMBER}}  {'sha1':{_DIGITS}}  file  chunk ids"


class Listing:
    """Files of a generation in order, and counts of those listed so far."""

    def __init__(self, generation: Generation, *, source: str | None, group: str | None) -> None:
        """List only files of one source, and only records of one group, if these are given.

        Raises:
            UsageError: the index does not have that source.
        """
        names = [entry.name for entry in generation.manifest.sources]
        if source is not None and source not in names:
            hint = f"sources of the index: {', '.join(names)}"
            raise UsageError(f"the index has no source {quoted(source)}", hint=hint)
        self._generation = generation
        self._source = source
        self._group = group
        self._digests = [source.get("content") for source in generation.manifest.built.get("sources", [])]
        """Digest of each source at the time of the build; empty if the manifest has none."""
        self.files = self.records = self.chunks = 0
        self.groups: Counter[str] = Counter()
        """Chunks by group."""
        self.without_group = 0
        """Chunks of records without a group."""

    @property
    def noun(self) -> str:
        """Noun of the listed records: `document` if they all come from folders."""
        sources = self._generation.manifest.sources
        return noun_of(entry.kind for entry in sources if self._source in (None, entry.name))

    def __iter__(self) -> Iterator[File]:
        order = np.array(self._generation.in_order(), np.int64)
        names = self._generation.source_names
        for number, entry in enumerate(self._generation.manifest.sources):
            if self._source in (None, entry.name) and entry.name in names:
                rows = order[self._generation.row_sources[order] == names.index(entry.name)]
                for file in self._files(entry, rows.tolist(), number):
                    self.files += 1
                    yield file

    def _files(self, entry: SourceEntry, rows: list[int], number: int) -> Iterator[File]:
        """Yield the files of one source, given its records in order."""
        file: File | None = None
        for row in rows:
            record = self._generation.records[row]
            if self._group is not None and record["group"] != self._group:
                continue
            path = str(record["source"])
            if file is None or path != file.path:
                if file is not None:
                    yield file
                whole = self._digests[number] if number < len(self._digests) else None
                sha1 = self._generation.origin(row).hex() if entry.kind == _DOCS else whole
                file = File(entry, path, sha1)
            self._count(file, row, record["group"])
        if file is not None:
            yield file

    def _count(self, file: File, row: int, group: str | None) -> None:
        starts = self._generation.starts
        chunks = int(starts[row + 1]) - int(starts[row])
        file.records += 1
        file.chunks += chunks
        self.records += 1
        self.chunks += chunks
        if group is None:
            self.without_group += chunks
        else:
            self.groups[group] += chunks
        if file.source.kind == _DOCS:
            name = self._generation.record_id(row)
            file.ids += [f"{name}#{index}" for index in range(chunks)]

    def totals(self) -> dict[str, Json]:
        """Return the counts of the listed files."""
        return {
            "total_files": self.files,
            "total_records": self.records,
            "total_chunks": self.chunks,
            "groups": dict(self.groups.most_common()),
            "without_group": self.without_group,
        }


def as_json(listing: Listing, generation: str) -> Iterator[str]:
    """Yield one JSON object in pieces: the files, then the totals."""
    yield f'{{"schema_version":{SCHEMA_VERSION},"generation":{dump(generation)},"files":['
    for place, file in enumerate(listing):
        yield ("," if place else "") + dump(file.to_json())
    yield "]," + dump(listing.totals())[1:] + "\n"


def as_lines(listing: Listing) -> Iterator[str]:
    """Yield a line of JSON for each file."""
    return (dump(file.to_json()) + "\n" for file in listing)


def as_text(listing: Listing) -> Iterator[str]:
    """Yield the lines of a table of files, their totals, and a table of groups."""
    yield HEADER + "\n"
    for file in listing:
        yield file.line() + "\n"
    totals = {"file": listing.files, listing.noun: listing.records, "chunk": listing.chunks}
    yield ", ".join(figures.count(total, noun) for noun, total in totals.items()) + "\n"
    groups = [*listing.groups.most_common(), *([("no group", listing.without_group)] if listing.without_group else [])]
    if listing.groups:
        yield f"\n{'chunks':>{_NUMBER}}  group\n"
        yield from (f"{count:{_NUMBER},}  {printable(name)}\n" for name, count in groups)
