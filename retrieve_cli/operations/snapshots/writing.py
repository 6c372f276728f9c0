"""Writing of a snapshot, member by member, into a temporary file that is renamed when all of it is on the disk."""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from retrieve_cli.contracts.progress import Task, counting
from retrieve_cli.errors import IndexCorrupt, Locked, RetrieveError, UsageError
from retrieve_cli.operations.snapshots.form import BLOCK, NAME, SUMS, tar_header, zstd
from retrieve_cli.storage import durable
from retrieve_cli.storage.manifest import FileEntry
from retrieve_cli.untrusted.files import open_regular, regular_descriptor

_LEVEL = 3
_PIECE = 1 << 20
"""Bytes of a file in memory at a time."""
_NEW = ".new"
_DAMAGED = "list the damaged files: retrieve inspect verify; then build again: retrieve build"


class SnapshotWriter:
    """Appends members to an archive; the last one lists the SHA-256 of all others."""

    def __init__(self, file: BinaryIO, mtime: int) -> None:
        packer = zstd().ZstdCompressor(level=_LEVEL, write_checksum=True, write_content_size=False)
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
        self.add(SUMS, "".join(self._sums).encode())
        self._out.write(bytes(2 * BLOCK))
        self._out.close()

    def _begin(self, name: str, size: int) -> None:
        self._out.write(tar_header(name, size, self._mtime))

    def _end(self, name: str, size: int, sha256: str) -> None:
        self._out.write(bytes(-size % BLOCK))
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
        if NAME.fullmatch(path.name[1 : -len(_NEW)]):
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
