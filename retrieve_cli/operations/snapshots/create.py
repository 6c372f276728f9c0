"""Creation of a snapshot from a generation, and removal of the oldest snapshots.

A snapshot is written member by member into a temporary file, which is renamed when all of it is on the disk.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Literal

from retrieve_cli.contracts import Json
from retrieve_cli.contracts.progress import BYTES, Task, counting, task
from retrieve_cli.errors import IndexCorrupt, Locked, RetrieveError, UsageError
from retrieve_cli.frozen import Frozen
from retrieve_cli.operations.snapshots import form
from retrieve_cli.operations.snapshots.reading import read_header, verify
from retrieve_cli.storage import durable
from retrieve_cli.storage.generation import CHUNKS, RECORDS
from retrieve_cli.storage.manifest import FileEntry, sha1
from retrieve_cli.untrusted.files import MANIFEST as LARGE, open_regular, read_bytes, regular_descriptor
from retrieve_cli.version import __version__

if TYPE_CHECKING:
    from retrieve_cli.config.settings import Settings
    from retrieve_cli.storage.store import Store

SCHEMA_VERSION = 1
_MARK = 6


class Created(Frozen):
    """A snapshot that was written, or existed already."""

    path: Path
    header: form.SnapshotHeader
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
            **form.summary(self.header),
            "removed": list(self.removed),
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
    header = form.SnapshotHeader(
        generation=manifest.id,
        created=datetime.now(UTC).isoformat(),
        version=__version__,
        store=sha1([os.uname().nodename, os.path.realpath(store.path)])[:12],
        records=manifest.rows(RECORDS) or 0,
        chunks=manifest.rows(CHUNKS) or 0,
        index_bytes=sum(entry.bytes for entry in manifest.files.values()),
        extras={name: hashlib.sha256(content).hexdigest() for name, content in extras.items()},
    )
    path = target
    if target.is_dir():
        sweep(target)
        path = _named(target, header, force=force)
        if path.exists() and not force:
            verify(path)
            return Created(path, read_header(path), "unchanged", path.stat().st_size)
    with in_place_of(path, force=force) as file:
        writer = SnapshotWriter(file, int(datetime.fromisoformat(header.created).timestamp()))
        writer.add(form.HEADER, _dumped(header.to_json()))
        writer.add(form.MANIFEST, _dumped(form.public_manifest(manifest).to_json()))
        with task("writing the snapshot", BYTES, header.index_bytes) as progress:
            for name, entry in sorted(manifest.files.items()):
                writer.add_file(form.FOLDER + name, folder / name, entry, progress)
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
        if form.NAME.fullmatch(path.name) and path.is_file() and not path.samefile(created.path):
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


def _named(folder: Path, header: form.SnapshotHeader, *, force: bool) -> Path:
    """Return the file of a snapshot in a folder.

    Raises:
        UsageError: something else has its name.
        IndexCorrupt: the snapshot of that name is damaged.
    """
    path = folder / f"{header.generation}{form.SUFFIX}"
    if force or not os.path.lexists(path):
        return path
    check_target(path, force=True)
    existing = read_header(path)
    if existing.generation != header.generation:
        raise UsageError(f"{path} is a snapshot of generation {existing.generation}", hint="--force replaces it")
    if existing.extras == header.extras and existing.store == header.store:
        return path
    return folder / f"{header.generation}-{sha1([dict(header.extras), header.store])[:_MARK]}{form.SUFFIX}"


def _extras(store: Store, settings: Settings, config: Path | None) -> dict[str, bytes]:
    """Return the small members beside the generation."""
    extras = {form.CONFIGURATION: form.decisive(settings)}
    if config is not None:
        extras[form.CONFIG_FILE] = form.config_text(config)
    try:
        extras[form.CALIBRATION] = read_bytes(store.calibration, limit=LARGE)
    except FileNotFoundError:
        pass
    except OSError as error:
        hint = "calibrate again: retrieve eval --gold FILE --calibrate; or remove it"
        raise UsageError(f"cannot read {store.calibration}: {error.strerror}", hint=hint) from error
    for name, content in extras.items():
        if len(content) > form.EXTRAS[name]:
            raise UsageError(f"{name} has {len(content)} bytes, too many for a snapshot", hint="make it smaller")
    return {name: extras[name] for name in form.EXTRAS if name in extras}


def _dumped(value: Json) -> bytes:
    return (json.dumps(value, indent=1, sort_keys=True) + "\n").encode()


_LEVEL = 3
_PIECE = 1 << 20
"""Bytes of a file in memory at a time."""
_NEW = ".new"
_DAMAGED = "list the damaged files: retrieve inspect verify; then build again: retrieve build"


class SnapshotWriter:
    """Appends members to an archive; the last one lists the SHA-256 of all others."""

    def __init__(self, file: BinaryIO, mtime: int) -> None:
        packer = form.zstd().ZstdCompressor(level=_LEVEL, write_checksum=True, write_content_size=False)
        self._out = packer.stream_writer(file, closefd=False)
        self._mtime = mtime
        self._sums: list[str] = []

    def add(self, name: str, content: bytes) -> None:
        """Append a small member."""
        self._begin(name, len(content))
        self._out.write(content)
        self._end(name, len(content), hashlib.sha256(content).hexdigest())

    def add_file(self, name: str, path: Path, entry: FileEntry, progress: Task) -> None:
        """Append a file of the generation, and count its bytes.

        Raises:
            IndexCorrupt: it does not match the manifest.
        """
        sha1, sha256, left = hashlib.sha1(usedforsecurity=False), hashlib.sha256(), entry.bytes
        self._begin(name, entry.bytes)
        for piece in counting(_pieces(path), progress):
            left -= len(piece)
            if left < 0:
                break
            self._out.write(piece)
            sha1.update(piece)
            sha256.update(piece)
        if left or sha1.hexdigest() != entry.sha1:
            raise IndexCorrupt(f"{path} does not match the manifest", hint=_DAMAGED)
        self._end(name, entry.bytes, sha256.hexdigest())

    def finish(self) -> None:
        """Append the checksums and the end of the archive."""
        self.add(form.SUMS, "".join(self._sums).encode())
        self._out.write(bytes(2 * form.BLOCK))
        self._out.close()

    def _begin(self, name: str, size: int) -> None:
        self._out.write(form.tar_header(name, size, self._mtime))

    def _end(self, name: str, size: int, sha256: str) -> None:
        self._out.write(bytes(-size % form.BLOCK))
        self._sums.append(f"{sha256}  {name}\n")


def _pieces(path: Path) -> Iterator[bytes]:
    """Yield the bytes of a file. Raises: IndexCorrupt: it cannot be read."""
    try:
        with open_regular(path) as file:
            while piece := file.read(_PIECE):
                yield piece
    except OSError as error:
        raise IndexCorrupt(f"cannot read {path}: {error.strerror}", hint=_DAMAGED) from error


@contextmanager
def in_place_of(path: Path, *, force: bool) -> Iterator[BinaryIO]:
    """Open a file that is synced and renamed to `path` at the end of this context; after an error it is removed. An
    existing file is replaced only with `force`.

    Raises:
        UsageError: the path exists already, or its folder does not exist.
        Locked: another process writes the same snapshot.
        RetrieveError: it cannot be written.
    """
    path = Path(os.path.realpath(path))
    check_target(path, force=force)
    new = path.with_name(f".{path.name}{_NEW}")
    try:
        with _alone(new) as file:
            try:
                yield file
                file.flush()
                os.fsync(file.fileno())
                check_target(path, force=force)
                new.replace(path)
            except BaseException:
                new.unlink(missing_ok=True)
                raise
        durable.sync(path.parent)
    except OSError as error:
        hint = "free disk space, fix the permissions, or name another folder: --to DIR"
        raise RetrieveError(f"cannot write {path}: {error.strerror}", hint=hint) from error


def check_target(path: Path, *, force: bool) -> None:
    """Raises: UsageError if a snapshot cannot be put there, or only with `force`."""
    if not path.parent.is_dir():
        raise UsageError(f"there is no folder {path.parent}", hint=f"make it: mkdir -p {path.parent}")
    if path.is_dir() or (os.path.lexists(path) and not path.is_file()):
        raise UsageError(f"{path} is not a file that a snapshot could replace", hint="name another file")
    if not force and path.exists():
        raise UsageError(f"{path} exists already", hint="--force replaces it; or name another file")


def sweep(folder: Path) -> None:
    """Remove temporary files of killed processes from a folder; those that are being written are locked."""
    for path in folder.glob(f".*{_NEW}"):
        if form.NAME.fullmatch(path.name[1 : -len(_NEW)]):
            with suppress(OSError, Locked), _alone(path):
                path.unlink(missing_ok=True)


@contextmanager
def _alone(path: Path) -> Iterator[BinaryIO]:
    """Open an empty file that no other process writes meanwhile. Raises: Locked, OSError."""
    with os.fdopen(regular_descriptor(path, os.O_RDWR | os.O_CREAT), "wb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise Locked(f"another process writes {path}", hint="wait for it to end") from error
        except OSError:
            pass  # a file system without locks
        if not path.exists() or not os.path.samestat(os.fstat(file.fileno()), path.stat()):
            raise Locked(f"another process has just written {path}", hint="run it again")
        file.truncate(0)
        yield file
