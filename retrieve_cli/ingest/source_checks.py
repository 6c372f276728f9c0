"""Checks of the sources of a build or sync: their files and folders are there, without which nothing is published."""

from __future__ import annotations

import os
from collections.abc import Sequence

from retrieve_cli.config.settings import SourceSetting
from retrieve_cli.errors import SourceFailed
from retrieve_cli.storage.inbox import KIND, Inbox, sequence_of
from retrieve_cli.storage.manifest import Manifest
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
            hint=f"restore {inbox.path}, or a snapshot: retrieve snapshot restore FILE; "
            "to lose its documents: retrieve build with the other sources",
        )


def current_manifest(store: Store) -> Manifest | None:
    """Return the manifest of the current generation, though its files may be damaged; None without a generation."""
    return next((kept.manifest for kept in store.kept() if kept.live), None)
