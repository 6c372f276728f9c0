"""The check that the files and folders which a sync follows are there: nothing is published without them."""

from __future__ import annotations

import os
from collections.abc import Sequence

from retrieve_cli.config.settings import SourceSetting
from retrieve_cli.contracts import Source
from retrieve_cli.errors import SourceFailed
from retrieve_cli.storage.inbox import KIND, sequence_of
from retrieve_cli.storage.manifest import Manifest


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
            raise SourceFailed(
                f"cannot read the {what} {entry.path.absolute()}: {error.strerror}; nothing was published",
                hint=f"restore it, or mount its disk; {_without(entry, listed=listed)}",
            ) from error


def check_inbox(sources: Sequence[Source], last: Manifest | None) -> None:
    """Check that the inbox, which is part of the artifacts, has everything that the last generation includes of it.

    Raises:
        SourceFailed: it was lost, or is an older one.
    """
    included = sequence_of(last) if last else 0
    for source in sources:
        if source.origin["kind"] == KIND and (stamp := source.stamp()) and stamp[0] < included:
            raise SourceFailed(
                f"the inbox ends at change {stamp[0]}, and the index has change {included}; nothing was published",
                hint="restore the folder `inbox` of the artifacts; without it: retrieve build with the other sources",
            )


def _without(entry: SourceSetting, *, listed: bool) -> str:
    if listed:
        return "if it moved or is gone for good, change `sources:` in config.yaml"
    place = "DIR" if entry.kind == "docs" else "FILE"
    return f"if it moved or is gone for good, name all sources that are left: retrieve build {place}"
