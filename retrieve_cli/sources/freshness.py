"""Whether a hit still says what its source says: a look at the files, at almost no cost while nothing has changed.

A hit from a folder is held to the digest of its own file. A catalog is held to its size and times; only where those
differ is it read, and only where a line of it differs do its hits count as changed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from retrieve_cli.contracts import Freshness, Item, Json
from retrieve_cli.sources.digests import BOM, file_digest, file_stamp, line_digest
from retrieve_cli.storage.manifest import trace
from retrieve_cli.untrusted import files


class Unwatched:
    """`contracts.Watched` of a source that only a plug-in can read: a query does not look at it, a sync does."""

    def freshness(self, record: Mapping[str, Json], digest: bytes) -> Freshness:  # noqa: ARG002  as promised
        """As it was when it was built."""
        return "fresh"


@dataclass(slots=True)
class WatchedFolder:
    """`contracts.Watched` of a folder of documents."""

    path: Path
    id_prefix: str
    max_mb: float
    """A larger file is not what was read."""
    _seen: dict[str, bytes | None] = field(default_factory=dict)

    def freshness(self, record: Mapping[str, Json], digest: bytes) -> Freshness:
        """By the record's own file, which is read once."""
        source = str(record["source"])
        if source not in self._seen:
            self._seen[source] = self._digest(source)
        now = self._seen[source]
        return "deleted" if now is None else "fresh" if now == digest else "changed"

    def _digest(self, source: str) -> bytes | None:
        try:
            content = files.read_bytes(self.path / source, limit=int(self.max_mb * files.MB))
            return file_digest(source, self.id_prefix, content)
        except FileNotFoundError:
            return None
        except OSError:
            return b""  # it is there and cannot be read: not what was read then


@dataclass
class WatchedCatalog:
    """`contracts.Watched` of a file of JSON Lines, or of the last answer of an endpoint."""

    path: Path
    name: str
    id_prefix: str
    stamp: Json
    """Marks of the file when it was built."""
    digest: str
    """SHA-1 of the traces of its items when it was built."""
    id_paths: Sequence[str]
    """Where an id may stand in a line, as the fields of the catalog were configured."""

    def freshness(self, record: Mapping[str, Json], digest: bytes) -> Freshness:
        """`changed` for every record once the catalog says anything else, `deleted` for those it no longer has."""
        if self._as_built:
            return "fresh"
        name = str(record["id"]).removeprefix(self.id_prefix)
        still = digest in self._lines.values() or name in self._ids
        return "changed" if still else "deleted"

    @cached_property
    def _as_built(self) -> bool:
        try:
            if self.stamp == file_stamp(self.path):
                return True
        except OSError:
            return False
        read = hashlib.sha1(usedforsecurity=False)
        for number, digest in self._lines.items():
            read.update(trace(Item(digest, self.name, number, read=list)))
        return read.hexdigest() == self.digest

    @cached_property
    def _lines(self) -> dict[int, bytes]:
        """Digests of the lines by their number."""
        digest = line_digest(self.name, self.id_prefix)
        return {number: digest(line) for number, line in enumerate(self._content, 1) if line.strip()}

    @cached_property
    def _ids(self) -> set[str]:
        import orjson  # as `fields`: only a catalog that has changed is read

        from retrieve_cli.sources.fields import id_of

        found = set()
        for line in self._content:
            try:
                item = orjson.loads(line)
            except ValueError:
                continue
            if isinstance(item, Mapping):
                found.add(id_of(item, self.id_paths))
        return found

    @cached_property
    def _content(self) -> list[bytes]:
        try:
            with files.open_regular(self.path) as file:
                return file.read().removeprefix(BOM).split(b"\n")
        except OSError:
            return []
