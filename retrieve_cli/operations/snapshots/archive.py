"""The format of a snapshot, which may come from anybody: a tar archive in one zstd frame.

    snapshot.json               first: a description, with SHA-1 and size of the others, in order
    generation/<file>           a generation: its manifest, and the files that the manifest lists
    segments/<id>/<file>        its older segments, in the same way
    inbox.db                    the documents that were added one at a time, or sent as files
    calibration.json            if scores were calibrated

Members are plain files with the described names, sizes and SHA-1; anything else is an error.
`tar --zstd -xf FILE` unpacks it.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import shutil
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Literal

import msgspec
import zstandard

from retrieve_cli.contracts import Json
from retrieve_cli.contracts.progress import BYTES, task
from retrieve_cli.errors import IndexCorrupt, RetrieveError, UsageError, quoted, shortened
from retrieve_cli.frozen import Frozen
from retrieve_cli.storage import durable
from retrieve_cli.storage.manifest import FileEntry
from retrieve_cli.untrusted.files import MANIFEST as LARGE, open_regular

HEADER, FOLDER, SEGMENTS, CALIBRATION = "snapshot.json", "generation/", "segments/", "calibration.json"
MANIFEST = FOLDER + "manifest.json"
FORMAT: Literal["retrieve snapshot 1"] = "retrieve snapshot 1"
_MEMBER = re.compile(
    r"(?:generation|segments/[0-9a-f]{12})/[A-Za-z0-9_][A-Za-z0-9_.-]*"
    r"|calibration\.json|inbox\.db"
)
DAMAGED = "list the damaged files: retrieve inspect verify; then build again: retrieve build"
_WINDOW = 1 << 23
"""The most unpacked bytes that the unpacker keeps (RFC 8878 asks decoders for 8 MB)."""
_PIECE, _LONGEST = 1 << 20, 40


class BadSnapshot(ValueError):
    """A snapshot that is damaged, cut short, or was not written here."""


class SnapshotHeader(Frozen):
    """Description of a snapshot, its first member."""

    format: Literal["retrieve snapshot 1"]
    generation: str
    created: str
    """UTC, ISO 8601."""
    store: str
    """A digest of the machine and folder that it was created from."""
    records: int
    chunks: int
    members: Mapping[str, FileEntry]
    """The other members by name, in their order."""

    @property
    def bytes(self) -> int:
        """Size of all members."""
        return sum(entry.bytes for entry in self.members.values())

    def summary(self) -> dict[str, Json]:
        """Return the description for people and programs."""
        names = ("generation", "created", "records", "chunks")
        others = [name for name in self.members if "/" not in name]
        return {**{name: getattr(self, name) for name in names}, "members": others}


def write(file: BinaryIO, header: SnapshotHeader, paths: Mapping[str, Path]) -> None:
    """Write an archive of the files at these paths.

    Raises: IndexCorrupt: a file does not match its digest.
    """
    packer = zstandard.ZstdCompressor(level=3, write_checksum=True)
    with (
        task("writing the snapshot", BYTES, header.bytes) as progress,
        packer.stream_writer(file, closefd=False) as packed,
        tarfile.open(fileobj=packed, mode="w|", format=tarfile.GNU_FORMAT) as archive,
    ):
        text = msgspec.json.format(msgspec.json.encode(header)) + b"\n"
        archive.addfile(_plain_file(HEADER, len(text)), io.BytesIO(text))
        for name, entry in header.members.items():
            with open_regular(paths[name]) as content:
                hashed = _Hashed(content)
                archive.addfile(_plain_file(name, entry.bytes), hashed)
            if hashed.sha1.hexdigest() != entry.sha1:
                raise IndexCorrupt(f"{paths[name]} does not match its SHA-1", hint=DAMAGED)
            progress.advance(entry.bytes)


def _plain_file(name: str, size: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.size = size
    return member


class _Hashed(io.RawIOBase):
    """Content that is hashed while it is read."""

    def __init__(self, content: BinaryIO) -> None:
        self._content, self.sha1 = content, hashlib.sha1(usedforsecurity=False)

    def read(self, size: int = -1) -> bytes:
        piece = self._content.read(size)
        self.sha1.update(piece)
        return piece


def read_header(path: Path) -> SnapshotHeader:
    """Return the description of a snapshot without reading the rest.

    Raises: UsageError: the file does not exist; IndexCorrupt: it is not a snapshot.
    """
    with _opened(path) as stream:
        return _header(stream)


def read(path: Path, folder: Path | None = None) -> SnapshotHeader:
    """Compare all of a snapshot with its digests, and unpack it into a folder, if one is given.

    Raises:
        UsageError: the file does not exist.
        IndexCorrupt: it is damaged, cut short, or holds something else.
        RetrieveError: there is too little disk space.
        OSError: a file cannot be written.
    """
    with _opened(path) as stream:
        header = _header(stream)
        if folder is not None:
            _check_space(folder, header.bytes)
        with task("reading the snapshot", BYTES, header.bytes) as progress:
            for name, entry in header.members.items():
                size = _member(stream, name)
                if size != entry.bytes:
                    raise BadSnapshot(f"{name} has {size} bytes, not {entry.bytes}")
                digest = _copy(stream, size, folder / name if folder else None)
                if digest != entry.sha1:
                    raise BadSnapshot(f"{name} has SHA-1 {digest}, not {entry.sha1}")
                progress.advance(size)
        rest = _exactly(stream, 2 * tarfile.BLOCKSIZE) + stream.read(tarfile.RECORDSIZE + 1)
        if len(rest) > tarfile.RECORDSIZE + tarfile.BLOCKSIZE or any(rest):
            raise BadSnapshot("there is data after its end")
        return header


def _header(stream: BinaryIO) -> SnapshotHeader:
    size = _member(stream, HEADER)
    if size > LARGE:
        raise BadSnapshot(f"{HEADER} has {size} bytes")
    text = _exactly(stream, size)
    _exactly(stream, -size % tarfile.BLOCKSIZE)
    try:
        header = msgspec.json.decode(text, type=SnapshotHeader)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise BadSnapshot(f"{HEADER} is damaged ({shortened(str(error))})") from error
    named = re.fullmatch("[0-9a-f]{12}", header.generation) and len(header.created) <= _LONGEST
    if not named or MANIFEST not in header.members:
        raise BadSnapshot(f"{HEADER} describes no generation")
    for name, entry in header.members.items():
        if not _MEMBER.fullmatch(name) or entry.bytes < 0:
            raise BadSnapshot(f"{HEADER} has a member {quoted(name)} of {entry.bytes} bytes")
    return header


def _member(stream: BinaryIO, name: str) -> int:
    """Return the size of the next member, which must be a plain file of that name."""
    member = tarfile.TarInfo.frombuf(_exactly(stream, tarfile.BLOCKSIZE), "utf-8", "strict")
    if member.type not in (tarfile.REGTYPE, tarfile.AREGTYPE):
        raise BadSnapshot(f"member {quoted(member.name)} is not a plain file")
    if member.name != name:
        raise BadSnapshot(f"member {quoted(member.name)} is in the place of {name}")
    return member.size


def _copy(stream: BinaryIO, size: int, target: Path | None) -> str:
    """Copy the content of a member to a file, if one is given, and return its SHA-1."""
    digest = hashlib.sha1(usedforsecurity=False)
    if target is not None:
        target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("xb") if target else Path(os.devnull).open("wb") as file:
        for start in range(0, size, _PIECE):
            piece = _exactly(stream, min(_PIECE, size - start))
            digest.update(piece)
            file.write(piece)
        _exactly(stream, -size % tarfile.BLOCKSIZE)
    if target is not None:
        durable.sync(target)
    return digest.hexdigest()


def _exactly(stream: BinaryIO, size: int) -> bytes:
    content = stream.read(size)
    if len(content) < size:
        raise BadSnapshot("it is cut short")
    return content


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    try:
        file = open_regular(path)
    except OSError as error:
        hint = "check the path; snapshots are written by: retrieve snapshot create"
        raise UsageError(f"cannot read {path}: {error.strerror}", hint=hint) from error
    unpacker = zstandard.ZstdDecompressor(max_window_size=_WINDOW)
    try:
        with unpacker.stream_reader(file, read_across_frames=True) as stream:
            yield stream
    except BadSnapshot as error:
        raise damaged(path, str(error)) from error
    except (zstandard.ZstdError, tarfile.TarError, UnicodeDecodeError) as error:
        raise damaged(path, f"it cannot be unpacked ({shortened(str(error))})") from error


def damaged(path: Path, reason: str) -> IndexCorrupt:
    """Return the error for a snapshot that is not used."""
    hint = "nothing of it was used; create another one: retrieve snapshot create"
    return IndexCorrupt(f"{path} is not a sound snapshot: {reason}", hint=hint)


def _check_space(folder: Path, needed: int) -> None:
    free = shutil.disk_usage(folder).free
    if needed > free:
        sizes = f"{needed / 2**20:,.1f} MiB, and {free / 2**20:,.1f} MiB are free"
        hint = "free disk space there, or name another folder: --artifacts DIR"
        raise RetrieveError(f"the snapshot holds {sizes}", hint=hint)
