"""The inbox of a generation: its documents change only by a sync, and files that were sent are kept as they were."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from retrieve_cli.contracts import Json
from retrieve_cli.sources.freshness import Unwatched
from retrieve_cli.storage.inbox_files import StoredFile, path_of
from retrieve_cli.untrusted.files import MB, read_bytes


class WatchedInbox(Unwatched):
    """`contracts.Watched` of the inbox in a folder."""

    def __init__(self, folder: Path, max_mb: float) -> None:
        """`max_mb` is the size of the largest file that is read."""
        self._folder = folder
        self._max_bytes = int(max_mb * MB)

    def original(self, record: Mapping[str, Json], digest: bytes) -> bytes | None:  # noqa: ARG002  its name is a digest
        """Return the bytes of a file that was sent. Raises: OSError if it is gone."""
        file = StoredFile.of(record["metadata"].get("file"))
        if file is None:
            return None
        content = read_bytes(path_of(self._folder, file.sha1), limit=self._max_bytes)
        return content if hashlib.sha1(content, usedforsecurity=False).hexdigest() == file.sha1 else None
