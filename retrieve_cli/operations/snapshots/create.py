"""Creation of a snapshot from a generation, and removal of the oldest snapshots."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from retrieve_cli import __version__
from retrieve_cli.contracts import Json
from retrieve_cli.contracts.progress import BYTES, task
from retrieve_cli.errors import RetrieveError, UsageError
from retrieve_cli.frozen import Frozen
from retrieve_cli.operations.snapshots import configuration
from retrieve_cli.operations.snapshots.form import (
    CALIBRATION,
    CONFIG_FILE,
    CONFIGURATION,
    EXTRAS,
    FOLDER,
    HEADER,
    MANIFEST,
    NAME,
    SUFFIX,
    SnapshotHeader,
)
from retrieve_cli.operations.snapshots.reading import read_header, verify
from retrieve_cli.operations.snapshots.writing import SnapshotWriter, check_target, in_place_of, sweep
from retrieve_cli.storage.generation import CHUNKS, RECORDS
from retrieve_cli.storage.manifest import sha1
from retrieve_cli.untrusted.files import MANIFEST as LARGE, read_bytes

if TYPE_CHECKING:
    from retrieve_cli.config.settings import Settings
    from retrieve_cli.storage.manifest import Manifest
    from retrieve_cli.storage.store import Store

SCHEMA_VERSION = 1
_MARK = 6


class Created(Frozen):
    """A snapshot that was written, or existed already."""

    path: Path
    header: SnapshotHeader
    status: Literal["written", "unchanged"]
    bytes: int
    """Size of the file."""
    removed: tuple[str, ...] = ()
    """Older snapshots that were deleted."""

    def to_json(self) -> dict[str, Json]:
        return {
            "schema_version": SCHEMA_VERSION,
            "status": self.status,
            "file": str(self.path),
            "bytes": self.bytes,
            **summary(self.header),
            "removed": list(self.removed),
        }


def summary(header: SnapshotHeader) -> dict[str, Json]:
    """Return the description of a snapshot, for people and programs."""
    return {
        "generation": header.generation,
        "created": header.created,
        "records": header.records,
        "chunks": header.chunks,
        "index_bytes": header.index_bytes,
        "members": [name for name in EXTRAS if name in header.extras],
    }


def create(
    store: Store,
    settings: Settings,
    target: Path,
    *,
    config: Path | None,
    generation: str | None = None,
    force: bool = False,
) -> Created:
    """Write a snapshot of a generation, by default the current one, to a file, or into a folder under its own name.

    In a folder, an equal snapshot that exists is verified to the last byte and kept unchanged; if a snapshot of the
    same generation with another calibration or configuration has the name, a mark is added. `config` is the
    configuration file, if there is one.

    Raises:
        IndexMissing, IndexCorrupt: the generation does not exist, or it or the existing snapshot is damaged.
        UsageError: the place has something else.
        RetrieveError: it cannot be written.
    """
    folder, manifest, hold = store.open(generation)
    extras = _extras(store, settings, config)
    header = _header(store, manifest, extras)
    path = target
    if target.is_dir():
        sweep(target)
        path = _named(target, header, force=force)
        if path.exists() and not force:
            verify(path)
            return Created(path, read_header(path), "unchanged", path.stat().st_size)
    with in_place_of(path, force=force) as file:
        writer = SnapshotWriter(file, int(datetime.fromisoformat(header.created).timestamp()))
        writer.add(HEADER, _dumped(header.to_json()))
        writer.add(MANIFEST, _dumped(configuration.public_manifest(manifest).to_json()))
        with task("writing the snapshot", BYTES, header.index_bytes) as progress:
            for name, entry in sorted(manifest.files.items()):
                writer.add_file(FOLDER + name, folder / name, entry, progress)
        for name, content in extras.items():
            writer.add(name, content)
        writer.finish()
    del hold
    return Created(path, header, "written", path.stat().st_size)


def remove_old(created: Created, keep: int) -> Created:
    """Delete the oldest snapshots of the same store in the folder beyond the last `keep`, never the one given.

    Only files with a name and a header as `create` writes them count.

    Raises:
        RetrieveError: one cannot be deleted.
    """
    others: list[tuple[str, Path]] = []
    for path in created.path.parent.iterdir():
        if NAME.fullmatch(path.name) and path.is_file() and not path.samefile(created.path):
            try:
                header = read_header(path)
            except RetrieveError:
                continue
            if header.store == created.header.store and path.name.startswith(header.generation):
                others.append((header.created, path))
    old = [path for _, path in sorted(others, reverse=True)[max(keep - 1, 0) :]]
    for path in old:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            message = f"cannot delete {path}: {error.strerror}"
            raise RetrieveError(message, hint="fix the permissions of the folder, or delete it by hand") from error
    removed = tuple(str(path) for path in reversed(old))
    return Created(created.path, created.header, created.status, created.bytes, removed)


def _named(folder: Path, header: SnapshotHeader, *, force: bool) -> Path:
    """Return the file of a snapshot in a folder.

    Raises:
        UsageError: something else has its name.
        IndexCorrupt: the snapshot of that name is damaged.
    """
    path = folder / f"{header.generation}{SUFFIX}"
    if force or not os.path.lexists(path):
        return path
    check_target(path, force=True)
    existing = read_header(path)
    if existing.generation != header.generation:
        raise UsageError(f"{path} is a snapshot of generation {existing.generation}", hint="--force replaces it")
    if existing.extras == header.extras and existing.store == header.store:
        return path
    return folder / f"{header.generation}-{sha1([dict(header.extras), header.store])[:_MARK]}{SUFFIX}"


def _extras(store: Store, settings: Settings, config: Path | None) -> dict[str, bytes]:
    """Return the small members beside the generation."""
    extras = {CONFIGURATION: configuration.decisive(settings)}
    if config is not None:
        extras[CONFIG_FILE] = configuration.config_text(config)
    try:
        extras[CALIBRATION] = read_bytes(store.calibration, limit=LARGE)
    except FileNotFoundError:
        pass
    except OSError as error:
        hint = "calibrate again: retrieve eval --gold FILE --calibrate; or remove it"
        raise UsageError(f"cannot read {store.calibration}: {error.strerror}", hint=hint) from error
    for name, content in extras.items():
        if len(content) > EXTRAS[name]:
            raise UsageError(f"{name} has {len(content)} bytes, too many for a snapshot", hint="make it smaller")
    return {name: extras[name] for name in EXTRAS if name in extras}


def _header(store: Store, manifest: Manifest, extras: Mapping[str, bytes]) -> SnapshotHeader:
    return SnapshotHeader(
        generation=manifest.id,
        created=datetime.now(UTC).isoformat(),
        version=__version__,
        store=sha1([os.uname().nodename, os.path.realpath(store.path)])[:12],
        records=manifest.rows(RECORDS) or 0,
        chunks=manifest.rows(CHUNKS) or 0,
        index_bytes=sum(entry.bytes for entry in manifest.files.values()),
        extras={name: hashlib.sha256(content).hexdigest() for name, content in extras.items()},
    )


def _dumped(value: Json) -> bytes:
    return (json.dumps(value, indent=1, sort_keys=True) + "\n").encode()
