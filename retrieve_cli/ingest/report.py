"""The report of a build or sync, its messages, and the limits beyond which it does not publish."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, Protocol

from retrieve_cli.contracts import Json, Refused, Source
from retrieve_cli.contracts.terms.figures import count, noun_for
from retrieve_cli.errors import Exit, SourceFailed, printable, shortened
from retrieve_cli.frozen import Frozen, field
from retrieve_cli.ingest.changes import Changes
from retrieve_cli.storage.inbox import KIND
from retrieve_cli.storage.manifest import Manifest

if TYPE_CHECKING:
    from retrieve_cli.ingest.facets import FacetCounts


_ROUNDING = 1e-9
"""Less than a record: a share such as 0.7 has no exact binary form."""

_SHARE, _FEW = 0.05, 20
"""The default limit of rejected items: this share if there are at least so many, of which it is one; of fewer, any."""

Status = Literal["published", "unchanged", "partial", "failed", "planned"]


class Report(Frozen):
    """The outcome of a build or a sync."""

    status: Status
    generation: str | None
    """The generation that is current now."""
    records: int
    chunks: int
    embedded: int = 0
    """Texts that went through the encoder; the others were in the cache."""
    changes: Changes = field(default_factory=Changes)
    """Against the generation that was current before."""
    kinds: frozenset[str] = frozenset()
    """Kinds of the sources: a folder holds documents, a catalog records."""
    quarantined: int = 0
    rejected_new: int = 0
    """Rejected items that the previous run did not have."""
    rejected: Sequence[Refused] = ()
    """Rejected items of this run; a sync with nothing to do has read nothing."""
    max_fail: float | None = 0.0
    """The limit of rejected items that held; None: the default."""
    seconds: float = 0.0
    facets: FacetCounts | None = None
    """Facets of chunks, if they are configured."""
    skipped: Sequence[str] = ()
    """Configured parts that could not be built here, as sentences."""
    notices: Sequence[str] = ()
    """Sentences on keys of records with text that no field reads."""
    recipe: Mapping[str, tuple[Json, Json]] = {}
    """Keys of the recipe that differ, of a dry run: their value before and after."""
    same: bool = False
    """True if the generation was current already, though some items were rejected."""
    failures: Sequence[str] = ()
    """Sentences on parts of sources that could not be read, of which the index has the last state."""

    def __repr__(self) -> str:
        return printable(f"Report({self.sentence()})")

    def to_json(self) -> dict[str, Json]:
        optional: dict[str, Json] = {
            "skipped": list(self.skipped),
            "notices": list(self.notices),
            "failures": list(self.failures),
        }
        if self.facets is not None:
            optional["facets"] = self.facets.to_json()
        if self.status == "failed":
            hint = "fix them, or allow more: --max-fail N" if self.records else "fix them"
            message = self.sentence()
            optional["error"] = {"code": int(Exit.PARTIAL), "kind": "rejected", "message": message, "hint": hint}
        planned: dict[str, Json] = {}
        if self.status == "planned":
            ids = {name: list(getattr(self.changes, name)) for name in ("added", "changed", "removed")}
            planned = {"ids": ids, "recipe": {key: list(values) for key, values in self.recipe.items()}}
        return {
            "status": self.status,
            "generation": self.generation,
            **self.changes.counts,
            "records": self.records,
            "chunks": self.chunks,
            "embedded": self.embedded,
            "quarantined": self.quarantined,
            "rejected_new": self.rejected_new,
            "seconds": self.seconds,
            **planned,
            **{key: value for key, value in optional.items() if value},
        }

    def plan(self) -> list[str]:
        """Return sentences on the changes before they are made."""
        against = f"compared with generation {self.generation}" if self.generation else "there is no index yet"
        rejected = f", {self.quarantined} rejected" if self.quarantined else ""
        recipe = [
            f"recipe: {key}: {shortened(str(old), 60)} -> {shortened(str(new), 60)}"
            for key, (old, new) in self.recipe.items()
        ]
        return [f"plan: {self.changes}{rejected} ({against})", *recipe]

    def sentence(self, verb: str = "") -> str:
        """Return one line for people: `published 97636fac83da: 134 documents (+0 ~1 −63), 1,995 chunks, …`."""
        items = noun_for(self.kinds)
        if self.status == "failed":
            still = f"generation {self.generation} stays current" if self.generation else "there is no index yet"
            read = count(self.records + self.quarantined, items)
            share = _SHARE if self.max_fail is None else self.max_fail
            limit = f" (limit: --max-fail {share:g})" if self.records else ""
            return f"nothing published: {self.quarantined:,} of {read} rejected{limit}; {still}"
        same = self.same or self.status == "unchanged"
        first = not (self.changes.kept or self.changes.changed or self.changes.removed)
        parts = [
            count(self.records, items) + ("" if same or first else f" ({self.changes.signs})"),
            count(self.chunks, "chunk"),
            *([] if verb or (same and not self.embedded) else [f"{self.embedded:,} embedded"]),
            *([f"{self.quarantined:,} rejected"] if self.quarantined else []),
            f"{self.seconds:.1f} s",
        ]
        return f"{verb or ('unchanged' if same else 'published')} {self.generation}: {', '.join(parts)}"


def fetch_all(sources: Iterable[Source], say: Callable[[str], None]) -> list[str]:
    """Fetch remote sources into local files, and return sentences on the parts of sources that failed.

    Raises:
        SourceFailed: a source failed as a whole.
    """
    failures: list[str] = []
    for source in sources:
        if fetched := source.fetch():
            failures += [f"{source.name}: {sentence}" for sentence in fetched.failures]
            for sentence in fetched.notes:
                say(printable(f"{source.name}: {sentence}"))
    return failures


class Progress(Protocol):
    """Receives messages while a build is under way; `retrieve_cli.contracts` counts how far it is."""

    def say(self, sentence: str) -> None:
        """Show a message to the user."""


class LossLimits(Frozen):
    """Limits beyond which nothing is published, the wait for another writer, and the number of generations to keep."""

    max_fail: float | None
    """The most rejected items: up to 1 a share of all, above 1 a number; None: a share, unless there are few items."""
    max_shrink: float = 1.0
    """Largest share of its records that a source may lose at once."""
    keep: int = 3
    wait: float = 0.0
    """Seconds."""

    def check_loss(self, current: Manifest, records: Mapping[str, int]) -> None:
        """Compare the number of records of each source with the previous one, except for an inbox, whose documents are
        removed one by one.

        Raises:
            SourceFailed: one has suddenly lost too many.
        """
        for source in current.sources:
            number = source.records if source.kind == KIND else records.get(source.name, source.records)
            if number < (1.0 - self.max_shrink) * source.records - _ROUNDING:
                items = noun_for([source.kind])
                now = f"{source.name} has {count(number, items)} now" if number else f"{source.name} is empty now"
                was = count(source.records, items) if not number else f"{source.records:,}"
                lost = f"{100 * (1.0 - number / source.records):.0f} %"
                limit = f"limit: --max-shrink {self.max_shrink:g}"
                raise SourceFailed(
                    f"{now} (was {was}); refusing to publish a loss of {lost} ({limit})",
                    hint="nothing was published; if this is intended: retrieve sync --max-shrink 1",
                )

    def tolerates(self, rejected: int, records: int) -> bool:
        """Return True if so many rejected items are few enough to publish the records."""
        if self.max_fail is None and records + rejected < _FEW:
            return records > 0 or not rejected
        limit = _SHARE if self.max_fail is None else self.max_fail
        return rejected <= (limit if limit > 1 else limit * (records + rejected)) + _ROUNDING
