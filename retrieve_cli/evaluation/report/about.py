"""Origin of a report: collection, date, version, command and settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from retrieve_cli import __version__
from retrieve_cli.config.settings import Settings
from retrieve_cli.contracts import Json
from retrieve_cli.contracts.terms import figures
from retrieve_cli.frozen import Frozen
from retrieve_cli.ingest.changes import flat
from retrieve_cli.output.run_account import configuration

if TYPE_CHECKING:
    from retrieve_cli.storage.generation import Generation


class About(Frozen):
    """Facts that a reader needs to repeat an evaluation."""

    collection: Sequence[str]
    """The sources of the index with their sizes, or the run files if there is no index."""
    judgments: str
    date: str
    version: str
    command: str
    changed: Mapping[str, Json]
    """Settings by `section.key` that are not the defaults."""
    settings: Mapping[str, Json]
    """Settings that answers depend on, by `section.key`."""

    @classmethod
    def of(cls, generation: Generation | None, settings: Settings, *, runs: Sequence[str], **asked: str) -> About:
        """Return the origin of an evaluation that ends now; `asked` are its `command` and its `judgments`."""
        own, default = (flat(configuration(each)) for each in (settings, Settings()))
        return cls(
            collection=runs if generation is None else list(_collection(generation)),
            date=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
            version=__version__,
            changed={key: value for key, value in own.items() if default.get(key) != value},
            settings=own,
            **asked,
        )


def _collection(generation: Generation) -> Iterator[str]:
    for source in generation.manifest.sources:
        noun = "document" if source.kind == "docs" else "record"
        yield f"{source.name}: {figures.count(source.records, noun)}"
    yield figures.count(len(generation.chunks), "chunk")
