"""The index that a build from other sources replaces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from retrieve_cli.contracts import Json, Source
from retrieve_cli.ingest.counts import counted, noun
from retrieve_cli.storage.manifest import Manifest, SourceEntry
from retrieve_cli.storage.store import Store

_PLACE = ("kind", "name", "path", "url", "endpoint")
"""Keys of an origin that identify its source."""


class Replaced(NamedTuple):
    """A generation of other sources that was current until now."""

    generation: str
    sources: tuple[SourceEntry, ...]
    kept: bool
    """True if it is still on the disk, so that `retrieve sync --rollback` can make it current again."""

    def to_json(self) -> dict[str, Json]:
        listed = [{"name": source.name, "kind": source.kind, "records": source.records} for source in self.sources]
        return {"generation": self.generation, "sources": listed, "kept": self.kept}

    def sentence(self, flags: str = "") -> str:
        """Return a sentence for people; `flags` are those with which a command finds this index."""
        names = "; ".join(f"{entry.name}, {counted(entry.records, noun([entry.kind]))}" for entry in self.sources)
        back = (
            f"go back: retrieve sync --rollback {self.generation}{flags}"
            if self.kept
            else "it was removed (store.keep)"
        )
        return f"replaces generation {self.generation} ({names}); {back}"


def current_manifest(store: Store) -> Manifest | None:
    """Return the manifest of the current generation, though its files may be damaged; None without a generation."""
    return next((kept.manifest for kept in store.kept() if kept.live), None)


def replaced_by(
    sources: Sequence[Source], generation: str | None, before: Manifest | None, store: Store
) -> Replaced | None:
    """Return the generation that was current before, if this one replaced it and has other sources."""
    if before is None or generation in (None, before.id):
        return None
    if _places_of(before) == sorted(_place(source.origin) for source in sources):
        return None
    return Replaced(before.id, before.sources, store.has(before.id))


def _places_of(manifest: Manifest) -> list[list[str]] | None:
    """Return the places of a generation's sources in order, None if its manifest has no places."""
    try:
        return sorted(_place(source["origin"]) for source in manifest.built["sources"])
    except (KeyError, TypeError, AttributeError):
        return None


def _place(origin: Mapping[str, Json]) -> list[str]:
    return [str(origin.get(key)) for key in _PLACE]
