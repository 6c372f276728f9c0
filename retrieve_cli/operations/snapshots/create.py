"""Creation of a snapshot, a listing of snapshots, and removal of the oldest ones."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, BinaryIO, Literal

from retrieve_cli.contracts import Json
from retrieve_cli.errors import IndexCorrupt, Locked, RetrieveError, UsageError
from retrieve_cli.frozen import Frozen, replace
from retrieve_cli.http.addresses import shown
from retrieve_cli.operations.snapshots import archive
from retrieve_cli.operations.snapshots.archive import DAMAGED, FOLDER, SnapshotHeader
from retrieve_cli.storage import database, durable, lock
from retrieve_cli.storage.inbox import Inbox
from retrieve_cli.storage.manifest import FileEntry, sha1, sha1_file
from retrieve_cli.storage.store import MANIFEST, OpenFolders
from retrieve_cli.untrusted.files import MANIFEST as LARGE, read_bytes

if TYPE_CHECKING:
    from retrieve_cli.storage.store import Store

_NAME = re.compile(r"[0-9a-f]{12}-[0-9a-f]{6}\.tar\.zst")
"""Names that `create` chooses: the generation's id, and a mark of the other members."""
_UNFINISHED = ".snapshot.new"
Member = tuple[FileEntry, Path]


class Created(Frozen):
    """A snapshot that was written, or existed already."""

    path: Path
    header: SnapshotHeader
    status: Literal["written", "unchanged"]
    removed: tuple[str, ...] = ()
    """Older snapshots that were deleted."""

    def to_json(self) -> dict[str, Json]:
        size = self.path.stat().st_size
        head = {"schema_version": 1, "status": self.status, "file": str(self.path), "bytes": size}
        return {**head, **self.header.summary(), "removed": list(self.removed)}


def create(store: Store, target: Path, *, generation: str | None = None, force: bool = False) -> Created:
    """Write a snapshot of a generation, by default the current one, to a file, or into a folder.

    In a folder it has the name of the generation and a mark of the other members. An equal snapshot that
    exists there is verified and kept.

    Raises:
        IndexMissing, IndexCorrupt: the generation does not exist, or it is damaged.
        UsageError: the place has something else.
        OSError: it cannot be written.
    """
    stored = store.open(generation)
    manifest = stored.manifest
    with TemporaryDirectory() as scratch:
        members = _members(store, stored, Path(scratch))
        header = SnapshotHeader(
            format=archive.FORMAT,
            generation=manifest.id,
            created=datetime.now(UTC).isoformat(),
            store=origin_of(store.path),
            records=sum(source.records for source in manifest.sources),
            chunks=int(manifest.built.get("chunks", 0)),
            members={name: entry for name, (entry, _) in members.items()},
        )
        path = target
        if target.is_dir():
            others = {name: entry.sha1 for name, (entry, _) in members.items() if FOLDER not in name}
            path = target / f"{manifest.id}-{sha1([others, header.store])[:6]}.tar.zst"
            if path.exists() and not force:
                return Created(path, archive.read(path), "unchanged")
        with _in_place_of(path, force=force) as new:
            archive.write(new, header, {name: file for name, (_, file) in members.items()})
        del stored
        return Created(path, header, "written")


def origin_of(artifacts: Path) -> str:
    """Return a digest of this machine and the folder of an index."""
    return sha1([os.uname().nodename, os.path.realpath(artifacts)])[:12]


def _members(store: Store, stored: OpenFolders, scratch: Path) -> dict[str, Member]:
    """Return the members of a snapshot by name; copies are written into `scratch`.

    Raises: IndexCorrupt: one cannot be read.
    """
    members: dict[str, Member] = {}

    def add(name: str, path: Path, sha1: str = "") -> None:
        members[name] = FileEntry(sha1 or sha1_file(path), path.stat().st_size), path

    copy = scratch / archive.CALIBRATION
    inbox = Inbox(store.path)
    try:
        for folder, manifest in stored.folders:
            place = FOLDER if manifest is stored.manifest else f"{archive.SEGMENTS}{manifest.id}/"
            described = scratch / f"{manifest.id}.json"
            public = replace(manifest, built=_without_secrets(dict(manifest.built)))
            described.write_text(json.dumps(public.to_json(), indent=1, sort_keys=True))
            add(place + MANIFEST, described)
            for name, entry in sorted(manifest.files.items()):
                add(place + name, folder / name, entry.sha1)
        if inbox.sequence:
            documents = inbox.copy_to(scratch)
            add(database.FILE, documents.path)
        if store.calibration.exists():
            copy.write_bytes(read_bytes(store.calibration, limit=LARGE))
            add(archive.CALIBRATION, copy)
    except OSError as error:
        raise IndexCorrupt(f"cannot read {error.filename}: {error.strerror}", hint=DAMAGED) from error
    return members


def _without_secrets(value: Json) -> Json:
    """Return a value without the users and queries of its addresses."""
    if isinstance(value, Mapping):
        return {name: _without_secrets(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_without_secrets(part) for part in value]
    return shown(value) if isinstance(value, str) and "://" in value else value


def remove_old(created: Created, keep: int) -> Created:
    """Delete the oldest snapshots of the same store in the folder beyond the last `keep`.

    The given one stays. Only files with a name and a header as `create` writes them count.

    Raises: OSError: one cannot be deleted.
    """
    others: list[tuple[str, Path]] = []
    for path in created.path.parent.iterdir():
        if _NAME.fullmatch(path.name) and not path.samefile(created.path):
            with suppress(RetrieveError):
                header = archive.read_header(path)
                if header.store == created.header.store:
                    others.append((header.created, path))
    old = [path for _, path in sorted(others, reverse=True)[keep - 1 :]]
    for path in old:
        path.unlink(missing_ok=True)
    return replace(created, removed=tuple(str(path) for path in reversed(old)))


def listing(folder: Path) -> list[dict[str, Json]]:
    """Return the snapshots of a folder, the latest first. Raises: UsageError: it does not exist."""
    if not folder.is_dir():
        raise UsageError(f"there is no folder {folder}", hint="check the path")
    snapshots: list[dict[str, Json]] = []
    for path in sorted(folder.glob("*.tar.zst")):
        snapshots.append({"file": str(path), "bytes": path.stat().st_size})
        try:
            snapshots[-1] |= archive.read_header(path).summary()
        except RetrieveError as error:
            snapshots[-1]["fault"] = error.message
    return sorted(snapshots, key=lambda entry: str(entry.get("created", "")), reverse=True)


@contextmanager
def _in_place_of(path: Path, *, force: bool) -> Iterator[BinaryIO]:
    """Open a file that gets its name once it is complete; after an error it is removed.

    Raises:
        UsageError: the path exists already, or its folder does not.
        Locked: another process writes a snapshot there.
        OSError: it cannot be written.
    """
    path = Path(os.path.realpath(path))
    if not path.parent.is_dir():
        raise UsageError(f"there is no folder {path.parent}", hint=f"make it: mkdir -p {path.parent}")
    if path.exists() and not path.is_file():
        raise UsageError(f"{path} is not a file that a snapshot could replace", hint="name another")
    if path.exists() and not force:
        raise UsageError(f"{path} exists already", hint="--force replaces it; or name another file")
    unfinished = path.with_name(_UNFINISHED)
    descriptor = lock.take(unfinished)
    if descriptor is None:
        raise Locked(f"another process writes a snapshot into {path.parent}", hint="wait for it")
    with os.fdopen(descriptor, "wb") as file:
        try:
            file.truncate(0)
            yield file
            file.flush()
            os.fsync(file.fileno())
            unfinished.replace(path)
        except BaseException:
            unfinished.unlink(missing_ok=True)
            raise
    durable.sync(path.parent)
