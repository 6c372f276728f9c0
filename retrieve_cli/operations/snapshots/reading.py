"""Reading of a snapshot as an untrusted stream: every member is checked against its name, length and checksums.

A folder of snapshots is listed by their headers alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TypeVar

from retrieve_cli.contracts import Json
from retrieve_cli.contracts.progress import BYTES, Task, counting, task
from retrieve_cli.errors import IndexCorrupt, RetrieveError, UsageError, quoted
from retrieve_cli.frozen import Frozen
from retrieve_cli.operations.snapshots import form
from retrieve_cli.storage import durable
from retrieve_cli.storage.generation import CHUNKS, RECORDS
from retrieve_cli.storage.manifest import LISTING, FileEntry, Manifest
from retrieve_cli.untrusted.files import CONFIG, MANIFEST as LARGE, open_regular

if TYPE_CHECKING:
    from retrieve_cli.storage.store import Store

_PIECE = 1 << 19
"""Bytes in memory at a time: whole blocks of those whose checksums are kept."""
_PACKED = 1024
"""Packed bytes that are read at a time: they unpack to at most 32 MiB, as four bytes may encode a block of 128 KiB."""
_RESERVED = ("manifest.json", LISTING)
"""Names that no file of a generation may have."""
T = TypeVar("T")


class Snapshot(Frozen):
    """Contents of a snapshot, completely verified."""

    header: form.SnapshotHeader
    manifest: Manifest
    extras: dict[str, bytes]


def read_header(path: Path) -> form.SnapshotHeader:
    """Return the header of a snapshot without reading the rest.

    Raises:
        UsageError: the file does not exist.
        IndexCorrupt: it is not a snapshot.
    """
    return _read(path, lambda members: members.header())


def verify(path: Path) -> Snapshot:
    """Read all of a snapshot and compare it with its checksums; nothing is written.

    Raises:
        UsageError: the file does not exist.
        IndexCorrupt: it is damaged, cut short, or holds something else.
    """
    return _read(path, lambda members: members.all(None))


def unpack(path: Path, folder: Path) -> Snapshot:
    """Verify, and write the files of the generation into an empty folder.

    Raises:
        UsageError: the file does not exist.
        IndexCorrupt: it is damaged, cut short, or holds something else.
        RetrieveError: there is too little disk space.
        OSError: the folder cannot be written.
    """
    return _read(path, lambda members: members.all(folder))


def _read(path: Path, read: Callable[[_Members], T]) -> T:
    try:
        opened = open_regular(path)
    except OSError as error:
        hint = "check the path; snapshots are written by: retrieve snapshot create"
        raise UsageError(f"cannot read {path}: {error.strerror}", hint=hint) from error
    with opened as file:
        try:
            return read(_Members(file))
        except form.BadSnapshot as error:
            raise form.damaged(path, str(error)) from error
        except form.zstd().ZstdError as error:
            raise form.damaged(path, f"it cannot be unpacked ({error})") from error


class _Unpacked:
    """Contents of a file that is one zstd frame."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._unpacker = form.zstd().ZstdDecompressor(max_window_size=form.WINDOW).decompressobj()
        self._piece = memoryview(b"")

    def read(self, size: int) -> memoryview:
        """Return some of the bytes, at most `size`; none at the end. Raises: BadSnapshot: the file ends before."""
        while not self._piece and not self._unpacker.eof:
            if not (packed := self._packed()):
                raise form.BadSnapshot("it is cut short")
            self._piece = memoryview(self._unpacker.decompress(packed))
        found, self._piece = self._piece[:size], self._piece[size:]
        return found

    def check_end(self) -> None:
        """Raises: BadSnapshot: the file continues after the frame."""
        if self._unpacker.unused_data or self._packed():
            raise form.BadSnapshot("there is data after its end")

    def _packed(self) -> bytes:
        try:
            return self._file.read(_PACKED)
        except OSError as error:
            raise form.BadSnapshot(f"it cannot be read ({error.strerror})") from error


class _Members:
    """The members of an archive, one after the other."""

    def __init__(self, file: BinaryIO) -> None:
        self._stream = _Unpacked(file)
        self._seen: list[str] = []
        self._sums: list[str] = []

    def header(self) -> form.SnapshotHeader:
        """Read the first member."""
        return form.SnapshotHeader.of(self._small(form.HEADER, CONFIG))

    def all(self, folder: Path | None) -> Snapshot:
        """Read every member; the files of the generation go into the folder, if there is one."""
        header = self.header()
        manifest = self._manifest(header)
        if folder is not None:
            _check_room(folder, manifest)
        with task("reading the snapshot", BYTES, header.index_bytes) as progress:
            for name, entry in sorted(manifest.files.items()):
                self._file(name, entry, folder, progress)
        extras = {}
        for name in (name for name in form.EXTRAS if name in header.extras):
            extras[name] = self._small(name, form.EXTRAS[name])
            if hashlib.sha256(extras[name]).hexdigest() != header.extras[name]:
                raise form.BadSnapshot(f"{name} is not what {form.HEADER} says")
        listed = "".join(self._sums).encode()
        if self._small(form.SUMS, LARGE) != listed:
            raise form.BadSnapshot(f"{form.SUMS} does not match the members")
        if any(self._bytes(2 * form.BLOCK)) or self._stream.read(1):
            raise form.BadSnapshot("there is data after its last member")
        self._stream.check_end()
        return Snapshot(header, manifest, extras)

    def _manifest(self, header: form.SnapshotHeader) -> Manifest:
        try:
            text = self._small(form.MANIFEST, LARGE).decode("utf-8")
            manifest = Manifest.of_text(text, form.MANIFEST)
        except UnicodeDecodeError as error:
            raise form.BadSnapshot(f"{form.MANIFEST} is not UTF-8") from error
        except IndexCorrupt as error:
            raise form.BadSnapshot(error.message) from error
        if manifest.id != header.generation:
            raise form.BadSnapshot(f"it is of generation {manifest.id}, not {quoted(header.generation)}")
        counts = (manifest.rows(RECORDS), manifest.rows(CHUNKS), sum(entry.bytes for entry in manifest.files.values()))
        if counts != (header.records, header.chunks, header.index_bytes):
            raise form.BadSnapshot(f"the counts of {form.HEADER} and {form.MANIFEST} differ")
        if reserved := sorted(set(_RESERVED) & manifest.files.keys()):
            raise form.BadSnapshot(f"its manifest lists {reserved[0]} as a file of the index")
        return manifest

    def _file(self, name: str, entry: FileEntry, folder: Path | None, progress: Task) -> None:
        """Read a file of the generation, and write it if there is a folder."""
        self._begin(form.FOLDER + name, exactly=entry.bytes)
        sha1 = hashlib.sha1(usedforsecurity=False)
        with (folder / name).open("xb") if folder is not None else nullcontext() as target:
            for piece in counting(self._content(form.FOLDER + name, entry.bytes), progress):
                sha1.update(piece)
                if target is not None:
                    target.write(piece)
        if sha1.hexdigest() != entry.sha1:
            raise form.BadSnapshot(
                f"{form.FOLDER}{name} has SHA-1 {sha1.hexdigest()}, not {entry.sha1} as in the manifest"
            )
        if folder is not None:
            durable.sync(folder / name)

    def _small(self, name: str, limit: int) -> bytes:
        size = self._begin(name)
        if size > limit:
            raise form.BadSnapshot(f"{name} has {size} bytes, and at most {limit} are read")
        return b"".join(self._content(name, size))

    def _begin(self, name: str, *, exactly: int | None = None) -> int:
        """Read the block before a member, which must be of that name; return the member's size."""
        block = self._bytes(form.BLOCK)
        if not any(block):
            raise form.BadSnapshot(f"{name} is missing")
        member, size = form.read_tar_header(block)
        if member != name:
            where = "twice" if member in self._seen else f"in the place of {name}"
            raise form.BadSnapshot(f"member {quoted(member)} is there {where}")
        if exactly not in (None, size):
            raise form.BadSnapshot(f"{name} has {size} bytes, not {exactly} as in the manifest")
        self._seen.append(name)
        return size

    def _content(self, name: str, size: int) -> Iterator[bytes]:
        """Yield a member in pieces, all but the last of them whole, and note its sum."""
        sha256 = hashlib.sha256()
        for start in range(0, size, _PIECE):
            piece = self._bytes(min(_PIECE, size - start))
            sha256.update(piece)
            yield piece
        if any(self._bytes(-size % form.BLOCK)):
            raise form.BadSnapshot(f"there is data after {name}")
        if name != form.SUMS:
            self._sums.append(f"{sha256.hexdigest()}  {name}\n")

    def _bytes(self, size: int) -> bytes:
        """Return so many bytes of the archive. Raises: BadSnapshot: it ends before."""
        parts, left = [], size
        while left and (part := self._stream.read(left)):
            parts.append(part)
            left -= len(part)
        if left:
            raise form.BadSnapshot("it is cut short")
        return b"".join(parts)


def _check_room(folder: Path, manifest: Manifest) -> None:
    """Raises: RetrieveError if the disk has less room than the files of a generation take."""
    import shutil

    needed, free = sum(entry.bytes for entry in manifest.files.values()), shutil.disk_usage(folder).free
    if needed > free:
        message = (
            f"the snapshot holds {needed / 2**20:,.1f} MiB, and {free / 2**20:,.1f} MiB are free at {folder.parent}"
        )
        raise RetrieveError(message, hint="free disk space there, or name another folder: --artifacts DIR")


SCHEMA_VERSION = 1


def listing(store: Store, folder: Path) -> dict[str, Json]:
    """Return the snapshots of a folder and the generations of a store, the latest first.

    Raises:
        UsageError: the folder does not exist.
    """
    try:
        paths = sorted(path for path in folder.iterdir() if path.name.endswith(form.SUFFIX) and path.is_file())
    except OSError as error:
        raise UsageError(f"cannot read the folder {folder}: {error.strerror}", hint="check the path") from error
    snapshots: list[dict[str, Json]] = []
    for path in paths:
        snapshots.append({"file": str(path), "bytes": path.stat().st_size})
        try:
            snapshots[-1] |= form.summary(read_header(path))
        except RetrieveError as error:
            snapshots[-1]["fault"] = error.message
    generations = [
        {
            "generation": kept.manifest.id,
            "current": kept.live,
            "at": kept.manifest.built.get("at"),
            "bytes": kept.bytes,
        }
        for kept in reversed(store.kept())
    ]
    snapshots.sort(key=lambda entry: str(entry.get("created", "")), reverse=True)
    return {"schema_version": SCHEMA_VERSION, "snapshots": snapshots, "generations": generations}
