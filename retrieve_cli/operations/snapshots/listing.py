"""The snapshots of a folder, and the generations of a store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from retrieve_cli.contracts import Json
from retrieve_cli.errors import RetrieveError, UsageError
from retrieve_cli.operations.snapshots.create import summary
from retrieve_cli.operations.snapshots.form import SUFFIX
from retrieve_cli.operations.snapshots.reading import read_header

if TYPE_CHECKING:
    from retrieve_cli.storage.store import Store

SCHEMA_VERSION = 1


def listing(store: Store, folder: Path) -> dict[str, Json]:
    """Return the snapshots of a folder and the generations of a store, the latest first.

    Raises:
        UsageError: the folder does not exist.
    """
    try:
        paths = sorted(path for path in folder.iterdir() if path.name.endswith(SUFFIX) and path.is_file())
    except OSError as error:
        raise UsageError(f"cannot read the folder {folder}: {error.strerror}", hint="check the path") from error
    snapshots = sorted((_of(path) for path in paths), key=lambda entry: str(entry.get("created", "")), reverse=True)
    return {"schema_version": SCHEMA_VERSION, "snapshots": snapshots, "generations": list(_generations(store))}


def _of(path: Path) -> dict[str, Json]:
    """Return the description of a snapshot; for another file, the fault."""
    entry: dict[str, Json] = {"file": str(path), "bytes": path.stat().st_size}
    try:
        return {**entry, **summary(read_header(path))}
    except RetrieveError as error:
        return {**entry, "fault": error.message}


def _generations(store: Store) -> Iterator[dict[str, Json]]:
    for kept in reversed(store.kept()):
        yield {
            "generation": kept.manifest.id,
            "current": kept.live,
            "at": kept.manifest.built.get("at"),
            "bytes": kept.bytes,
        }
