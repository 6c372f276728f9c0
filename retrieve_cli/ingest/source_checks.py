"""Checks of the sources of a build or sync: their files and folders are there, without which nothing is published; and
whether they replace an index of other sources.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from retrieve_cli.config.settings import SourceSetting
from retrieve_cli.contracts import Json, Source
from retrieve_cli.contracts.terms.figures import count, noun_for
from retrieve_cli.errors import SourceFailed
from retrieve_cli.storage.inbox import KIND, Inbox, sequence_of
from retrieve_cli.storage.manifest import Manifest, SourceEntry
from retrieve_cli.storage.store import Store


def check_present(entries: Sequence[SourceSetting], *, listed: bool) -> None:
    """Check that every file and folder can be read; `listed` is True if the configuration names them.

    Raises:
        SourceFailed: one cannot; the hint has the steps if it was moved or deleted.
    """
    for entry in entries:
        if entry.path is None or entry.kind == KIND:
            continue
        try:
            if entry.path.is_dir():
                os.scandir(entry.path).close()
            else:
                entry.path.stat()
                os.close(os.open(entry.path, os.O_RDONLY | os.O_NONBLOCK))
        except OSError as error:
            what = "folder" if entry.kind == "docs" else "catalog" if entry.kind == "catalog" else "source"
            named = f"name all sources that are left: retrieve build {'DIR' if entry.kind == 'docs' else 'FILE'}"
            otherwise = "change `sources:` in config.yaml" if listed else named
            raise SourceFailed(
                f"cannot read the {what} {entry.path.absolute()}: {error.strerror}; nothing was published",
                hint=f"restore it, or mount its disk; if it moved or is gone for good, {otherwise}",
            ) from error


def check_inbox(store: Store, last: Manifest | None) -> None:
    """Check that the inbox, which is part of the artifacts, has everything that the last generation includes of it, for
    any sources of the configuration.

    Raises:
        SourceFailed: it was lost, or is an older one.
    """
    inbox = Inbox(store.path)
    included, there = sequence_of(last) if last else 0, inbox.sequence
    if there < included:
        raise SourceFailed(
            f"the inbox is behind the index (change {there} of {included}); nothing was published",
            hint=f"restore {inbox.path} and {inbox.folder}, or a snapshot: "
            "retrieve snapshot restore FILE; "
            "to lose its documents: retrieve build with the other sources",
        )


_PLACE = ("kind", "name", "path", "url", "endpoint", "command")
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
        names = "; ".join(f"{entry.name}, {count(entry.records, noun_for([entry.kind]))}" for entry in self.sources)
        rollback = f"go back: retrieve sync --rollback {self.generation}{flags}"
        back = rollback if self.kept else "it was removed (store.keep)"
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
