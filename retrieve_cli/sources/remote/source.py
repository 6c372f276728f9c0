"""A catalog that is kept elsewhere: fetched into a file of JSON Lines here, then read as any catalog."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Protocol

from retrieve_cli.contracts import Item, Json, Notice, Refused, SourceKind
from retrieve_cli.errors import RetrieveError
from retrieve_cli.sources.catalog import CatalogSource
from retrieve_cli.sources.digests import file_stamp
from retrieve_cli.sources.fields import FieldMap
from retrieve_cli.sources.remote.publication import sweep


class Fetcher(Protocol):
    """Leaves a catalog at `target`, in JSON Lines, its SHA-1 beside it."""

    def fetch(self, target: Path) -> None:
        """Raises: SourceFailed; the file that was there is then as it was."""


class RemoteSource:
    """An endpoint that is asked at each sync; between them, its last answer on this machine is the source."""

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
    ) -> None:
        self.name = name
        self.origin = {**origin, "name": name}
        self._fetcher = fetcher
        self._target = target
        self._fields = fields
        self._id_prefix = id_prefix

    @property
    def card(self) -> Mapping[str, Json]:
        return self._fields.card

    def fetch(self) -> None:
        """Raises: SourceFailed where the endpoint does not answer, or not with records."""
        sweep(self._target.parent)
        try:
            self._fetcher.fetch(self._target)
        except RetrieveError as error:
            raise type(error)(f"{self.name}: {error.message}", hint=error.hint) from error

    def stamp(self) -> list[int]:
        """Marks of the file that was fetched."""
        return file_stamp(self._target)

    def count(self) -> int | None:
        """Return the number of records of the last answer. Raises: OSError if it cannot be read."""
        return self._catalog.count()

    def scan(self) -> Iterator[Item | Refused | Notice]:
        """The records of the last answer."""
        return self._catalog.scan()

    @property
    def _catalog(self) -> CatalogSource:
        return CatalogSource(self._target, self._fields, name=self.name, id_prefix=self._id_prefix)
