"""A remote catalog: fetched into a local file of JSON Lines, then read like any catalog."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from retrieve_cli.contracts import Fetched, Item, Json, Notice, Refused
from retrieve_cli.errors import RetrieveError, UsageError
from retrieve_cli.sources.catalogs.catalog import CatalogSource
from retrieve_cli.sources.fields import FieldMap
from retrieve_cli.sources.remote.transfer import sweep


class Fetcher(Protocol):
    """Fetcher that writes a catalog to `target`, in JSON Lines, with its SHA-1 beside it."""

    def fetch(self, target: Path) -> Fetched | None:
        """Update `target`. Raises: SourceFailed; the existing file then stays unchanged."""


class RemoteSource(CatalogSource):
    """An endpoint that each sync fetches; between syncs, its last answer on this machine is the source."""

    def __init__(
        self, fetcher: Fetcher, target: Path, fields: FieldMap, *, origin: Mapping[str, Json], **options: Any
    ) -> None:
        """`options` are arguments of `CatalogSource`."""
        self._fetcher, self._fetched_from = fetcher, origin
        super().__init__(target, fields, **options)

    @property
    def origin(self) -> Mapping[str, Json]:
        return {**self._fetched_from, "name": self.name}

    def check(self) -> None:
        """Do nothing: it is not fetched yet."""

    def fetch(self) -> Fetched | None:
        """Fetch the catalog. Raises: SourceFailed if the endpoint does not answer, or not with records."""
        sweep(self.path.parent)
        try:
            return self._fetcher.fetch(self.path)
        except RetrieveError as error:
            raise type(error)(f"{self.name}: {error.message}", hint=error.hint) from error

    def scan(self) -> Iterator[Item | Refused | Notice]:
        try:
            yield from super().scan()
        except UsageError as error:  # which names the local file
            raise UsageError(f"{self.name}: {error.message}", hint=error.hint) from error
