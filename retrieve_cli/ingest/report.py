"""The report of a build or sync, its progress, and the limits beyond which it does not publish."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from retrieve_cli.contracts import Json, Refused
from retrieve_cli.errors import SourceFailed
from retrieve_cli.ingest.changes import Changes
from retrieve_cli.storage.manifest import Manifest

_ROUNDING = 1e-9
"""Less than a record: a share such as 0.7 is no exact number."""

Status = Literal["published", "unchanged", "partial", "failed"]


@dataclass(frozen=True, slots=True)
class Report:
    """The outcome of a build or a sync."""

    status: Status
    generation: str | None
    """The generation that is live now."""
    records: int
    chunks: int
    embedded: int = 0
    """Texts that went through the encoder; the others were in the cache."""
    changes: Changes = field(default_factory=Changes)
    """Against the generation that was live before."""
    quarantined: int = 0
    refused: Sequence[Refused] = ()
    """Rejected items of this run; a sync with nothing to do has read nothing."""
    seconds: float = 0.0
    skipped: Sequence[str] = ()
    """Sentences on what is configured and could not be built here."""

    def to_json(self) -> dict[str, Json]:
        return {
            "status": self.status,
            "generation": self.generation,
            **self.changes.counts,
            "records": self.records,
            "chunks": self.chunks,
            "embedded": self.embedded,
            "quarantined": self.quarantined,
            "seconds": self.seconds,
            **({"skipped": list(self.skipped)} if self.skipped else {}),
        }

    def sentence(self) -> str:
        """The same for people."""
        size = f"{self.records} records, {self.chunks} chunks, {self.embedded} embedded, {self.seconds:.1f} s"
        if self.status == "failed":
            still = f"generation {self.generation} stays live" if self.generation else "there is no index yet"
            return f"nothing published, too much was refused (--max-fail allows more): {still} ({size})"
        what = {"published": "is live", "partial": "is live, in part", "unchanged": "was live already"}[self.status]
        return f"generation {self.generation} {what}: {size}"


class Progress(Protocol):
    """Receives how far a build is."""

    def step(self, records: int, chunks: int) -> None:
        """So many records were read and so many chunks encoded."""

    def say(self, sentence: str) -> None:
        """Something the user should know."""


@dataclass(frozen=True, slots=True)
class Limits:
    """When not to publish, how long to wait for another writer, and how many generations stay."""

    max_fail: float
    """The most rejected items: up to 1 a share of all, above 1 a number."""
    max_shrink: float = 1.0
    """Largest share of its records that a source may lose at once."""
    keep: int = 3
    wait: float = 0.0
    """Seconds."""

    def check_loss(self, live: Manifest, records: Mapping[str, int]) -> None:
        """Holds the number of records of each source to what it had.

        Raises:
            SourceFailed: one has suddenly lost too many.
        """
        for source in live.sources:
            count = records.get(source.name, source.records)
            if count < (1.0 - self.max_shrink) * source.records - _ROUNDING:
                raise SourceFailed(
                    f"{source.name} has {count} records and had {source.records}: it lost "
                    f"{1.0 - count / source.records:.0%}, and more than {self.max_shrink:.0%} is not believed",
                    hint="nothing was published; if that is right: retrieve sync --max-shrink 1",
                )

    def tolerates(self, refused: int, records: int) -> bool:
        """True if so many rejected items are few enough to publish the records."""
        return refused <= (self.max_fail if self.max_fail > 1 else self.max_fail * (records + refused)) + _ROUNDING
