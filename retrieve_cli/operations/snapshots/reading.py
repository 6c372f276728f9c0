"""Reading of a snapshot, which may come from anybody.

Members are plain files with the names, sizes and SHA-1 of the manifest and of the header; anything else is an error.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from retrieve_cli.contracts.progress import BYTES, Task, task
from retrieve_cli.errors import IndexCorrupt, RetrieveError, UsageError, quoted, shortened
from retrieve_cli.operations.snapshots import form
from retrieve_cli.operations.snapshots.form import BadSnapshot, SnapshotHeader
from retrieve_cli.storage import durable
from retrieve_cli.storage.generation import CHUNKS, RECORDS
from retrieve_cli.storage.manifest import LISTING, FileEntry, Manifest
from retrieve_cli.untrusted.files import MANIFEST as LARGE, open_regular

_WINDOW = 1 << 23
"""The most unpacked bytes that the unpacker keeps (RFC 8878 asks decoders for 8 MB)."""
_HEAD = 1 << 20
"""The most bytes between two members: long names and attributes, which are read into memory."""
_PIECE = 1 << 20
_PACKED = 1024
"""Packed bytes that are read at a time: they unpack to at most 32 MiB, as four bytes may encode a block of 128 KiB."""


def read_header(path: Path) -> SnapshotHeader:
    """Return the header of a snapshot without reading the rest.

    Raises:
        UsageError: the file does not exist.
        IndexCorrupt: it is not a snapshot.
    """
    with _opened(path) as archive:
        return SnapshotHeader.of(archive.small(form.HEADER))


def read(path: Path, place: Callable[[str], Path | None] = lambda _: None) -> tuple[SnapshotHeader, Manifest]:
    """Read all of a snapshot and compare it with its digests; `place` returns where a member is written, if anywhere.

    Raises:
        UsageError: the file does not exist.
        IndexCorrupt: it is damaged, cut short, or holds something else.
        RetrieveError: there is too little disk space.
        OSError: a file cannot be written.
    """
    with _opened(path) as archive:
        header = SnapshotHeader.of(archive.small(form.HEADER))
        manifest = _manifest(archive.small(form.MANIFEST), header)
        wanted = {form.FOLDER + name: entry for name, entry in manifest.files.items()} | dict(header.members)
        _check_room(place, wanted)
        with task("reading the snapshot", BYTES, sum(entry.bytes for entry in wanted.values())) as progress:
            while wanted:
                member = archive.next()
                entry = wanted.pop(member.name, None)
                if entry is None:
                    raise BadSnapshot(f"member {quoted(member.name)} is there twice, or does not belong there")
                if member.size != entry.bytes:
                    raise BadSnapshot(f"{member.name} has {member.size} bytes, not {entry.bytes}")
                target = place(member.name)
                with target.open("xb") if target else Path(os.devnull).open("wb") as file:
                    digest = archive.copy(member, file, progress)
                if digest != entry.sha1:
                    raise BadSnapshot(f"{member.name} has SHA-1 {digest}, not {entry.sha1}")
                if target is not None:
                    durable.sync(target)
        archive.expect_end()
        return header, manifest


class _Archive:
    """A tar archive in a zstd frame, read forward; unexpected members are not unpacked."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._unpacker: Any = form.zstd().ZstdDecompressor(max_window_size=_WINDOW).decompressobj()
        self._piece = memoryview(b"")
        self._expected = _HEAD
        self._tar = tarfile.open(fileobj=self, mode="r|")  # type: ignore[call-overload]  # noqa: SIM115

    def read(self, size: int) -> bytes:
        """Return unpacked bytes, for tarfile."""
        while not self._piece and not self._unpacker.eof:
            if not (packed := self._file.read(_PACKED)):
                raise BadSnapshot("it is cut short")
            self._piece = memoryview(self._unpacker.decompress(packed))
        piece, self._piece = bytes(self._piece[:size]), self._piece[size:]
        self._expected -= len(piece)
        if self._expected < 0:
            raise BadSnapshot("it holds more than its description")
        return piece

    def next(self) -> tarfile.TarInfo:
        """Return the next member, which must be a plain file with a name below the folder of the archive."""
        self._expected = _HEAD
        member: tarfile.TarInfo | None = self._tar.next()
        if member is None:
            raise BadSnapshot("it is cut short")
        if member.type not in (tarfile.REGTYPE, tarfile.AREGTYPE) or member.pax_headers:
            raise BadSnapshot(f"member {quoted(member.name)} is not a plain file")
        tarfile.data_filter(member, os.curdir)
        self._expected = _HEAD + member.size
        return member

    def copy(self, member: tarfile.TarInfo, target: BinaryIO, progress: Task) -> str:
        """Copy the content of the member that `next` has returned, and return its SHA-1."""
        content, sha1 = self._tar.extractfile(member), hashlib.sha1(usedforsecurity=False)
        while content is not None and (piece := content.read(_PIECE)):
            target.write(piece)
            sha1.update(piece)
            progress.advance(len(piece))
        return sha1.hexdigest()

    def small(self, name: str) -> bytes:
        """Return the content of the next member, which must be of that name."""
        member = self.next()
        content = self._tar.extractfile(member)
        if member.name != name or member.size > LARGE or content is None:
            raise BadSnapshot(f"member {quoted(member.name)} of {member.size} bytes is in the place of {name}")
        text: bytes = content.read()
        return text

    def expect_end(self) -> None:
        """Raises: BadSnapshot: there is more in the archive, or behind it."""
        self._expected = _HEAD
        more = self._tar.next() is not None
        while self.read(_PIECE):
            pass  # to the sum at the end of the frame
        if more or self._unpacker.unused_data or self._file.read(1):
            raise BadSnapshot("there is data after its end")


@contextmanager
def _opened(path: Path) -> Iterator[_Archive]:
    try:
        file = open_regular(path)
    except OSError as error:
        hint = "check the path; snapshots are written by: retrieve snapshot create"
        raise UsageError(f"cannot read {path}: {error.strerror}", hint=hint) from error
    with file:
        try:
            yield _Archive(file)
        except BadSnapshot as error:
            raise form.damaged(path, str(error)) from error
        except (form.zstd().ZstdError, tarfile.TarError, ValueError, LookupError, OverflowError) as error:
            raise form.damaged(path, f"it cannot be unpacked ({shortened(str(error))})") from error


def _manifest(text: bytes, header: SnapshotHeader) -> Manifest:
    try:
        manifest = Manifest.of_text(text.decode("utf-8"), form.MANIFEST)
    except IndexCorrupt as error:
        raise BadSnapshot(error.message) from error
    counts = (
        manifest.rows(RECORDS) or 0,
        manifest.rows(CHUNKS) or 0,
        sum(file.bytes for file in manifest.files.values()),
    )
    if (manifest.id, *counts) != (header.generation, header.records, header.chunks, header.index_bytes):
        raise BadSnapshot(f"{form.HEADER} and {form.MANIFEST} are about different generations")
    if reserved := sorted({"manifest.json", LISTING} & manifest.files.keys()):
        raise BadSnapshot(f"its manifest lists {reserved[0]} as a file of the index")
    return manifest


def _check_room(place: Callable[[str], Path | None], wanted: dict[str, FileEntry]) -> None:
    """Raises: RetrieveError if the disk has less room than the members that are written take."""
    targets = [(target, entry.bytes) for name, entry in wanted.items() if (target := place(name)) is not None]
    needed = sum(size for _, size in targets)
    if targets and needed > (free := shutil.disk_usage(targets[0][0].parent).free):
        message = f"the snapshot holds {needed / 2**20:,.1f} MiB, and {free / 2**20:,.1f} MiB are free"
        raise RetrieveError(message, hint="free disk space there, or name another folder: --artifacts DIR")
