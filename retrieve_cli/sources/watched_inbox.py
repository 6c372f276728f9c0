"""The inbox of a generation: its documents change only by a sync, and files that were sent are kept as they were."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from retrieve_cli.contracts import DocumentFile, Json
from retrieve_cli.sources.freshness import Unwatched
from retrieve_cli.storage.inbox_files import StoredFile, path_of
from retrieve_cli.untrusted import files


class WatchedInbox(Unwatched):
    """`contracts.Watched` of the inbox in a folder."""

    def __init__(self, folder: Path, max_mb: float) -> None:
        """`max_mb` is the size of the largest file that is read."""
        self._folder = folder
        self._max_bytes = int(max_mb * files.MB)

    def original(self, record: Mapping[str, Json], digest: bytes) -> DocumentFile | None:  # noqa: ARG002  its name is a digest
        """Return a file that was sent. Raises: OSError if it is gone."""
        file = StoredFile.of(record["metadata"].get("file"))
        if file is None:
            return None
        place = path_of(self._folder, file.sha1)
        sha1 = files.sha1_of(place, limit=self._max_bytes)
        return DocumentFile(place, sha1) if sha1.hex() == file.sha1 else None
