"""A remote catalog: fetched into a local file of JSON Lines, then read like any catalog."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Protocol

from retrieve_cli.contracts import Item, Json, Notice, Refused, SourceKind
from retrieve_cli.errors import RetrieveError
from retrieve_cli.sources.catalogs.catalog import CatalogSource
from retrieve_cli.sources.digests import file_stamp
from retrieve_cli.sources.fields import FieldMap
from retrieve_cli.sources.remote.transfer import sweep


class Fetcher(Protocol):
    """Fetcher that writes a catalog to `target`, in JSON Lines, with its SHA-1 beside it."""

    def fetch(self, target: Path) -> None:
        """Update `target`. Raises: SourceFailed; the existing file then stays unchanged."""


class RemoteSource:
    """An endpoint that each sync fetches; between syncs, its last answer on this machine is the source."""

    kind: SourceKind = "catalog"

    def __init__(
        self,
        fetcher: Fetcher,
        target: Path,
        fields: FieldMap,
        *,
        name: str,
        id_prefix: str,
        origin: Mapping[str, Json],
        own: Mapping[str, Json] = {},
    ) -> None:
        self.name = name
        self.origin = {**origin, "name": name}
        self._fetcher = fetcher
        self._target = target
        self._fields = fields
        self._id_prefix = id_prefix
        self._own = own
        self._read: CatalogSource | None = None

    @property
    def card(self) -> Mapping[str, Json]:
        return self._fields.card

    def fetch(self) -> None:
        """Fetch the catalog. Raises: SourceFailed if the endpoint does not answer, or not with records."""
        sweep(self._target.parent)
        try:
            self._fetcher.fetch(self._target)
        except RetrieveError as error:
            raise type(error)(f"{self.name}: {error.message}", hint=error.hint) from error

    def stamp(self) -> list[int]:
        """Return the marks of the fetched file."""
        return file_stamp(self._target)

    def count(self) -> int | None:
        """Return the number of records of the last answer. Raises: OSError if it cannot be read."""
        return self._catalog.count()

    def scan(self) -> Iterator[Item | Refused | Notice]:
        """Yield the records of the last answer."""
        self._read = self._catalog
        return self._read.scan()

    def mapping(self) -> Mapping[str, Json]:
        """Return the keys that the last scan read under other names."""
        return self._read.mapping() if self._read else {}

    @property
    def _catalog(self) -> CatalogSource:
        return CatalogSource(self._target, self._fields, name=self.name, id_prefix=self._id_prefix, own=self._own)
