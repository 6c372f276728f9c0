"""Reading and restoring of a snapshot, which may come from anybody: a tar archive in one zstd frame.

    snapshot.json               first: its description, with SHA-1 and size of all members outside of generation/
    generation/manifest.json    second: as beside the files, addresses without possible secrets
    generation/<file>           the files of the generation, whose SHA-1 and size are in the manifest
    inbox.db                    the documents that were added one at a time, and
    inbox/files/<sha1>          documents that were sent as files
    calibration.json            if scores were calibrated
    config.yaml                 the configuration file, if there was one

Members are plain files with these names, sizes and SHA-1; anything else is an error. `tar --zstd -xf FILE` unpacks it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

from retrieve_cli.assemble.indexes import open_indexes
from retrieve_cli.contracts import Json
from retrieve_cli.contracts.progress import BYTES, Task, task
from retrieve_cli.errors import IndexCorrupt, RetrieveError, Unavailable, UsageError, quoted, shortened
from retrieve_cli.frozen import Frozen, asdict
from retrieve_cli.ingest.tidying import remove_old
from retrieve_cli.retrieval import calibration
from retrieve_cli.storage import database, durable, inbox_files
from retrieve_cli.storage.generation import CHUNKS, RECORDS, open_unpublished
from retrieve_cli.storage.inbox import Inbox
from retrieve_cli.storage.manifest import LISTING, FileEntry, Manifest, sha1
from retrieve_cli.untrusted.files import MANIFEST as LARGE, open_regular

if TYPE_CHECKING:
    from retrieve_cli.config.settings import Settings
    from retrieve_cli.ingest.report import Progress
    from retrieve_cli.retrieval.calibration import Calibration
    from retrieve_cli.storage.store import Store

SCHEMA_VERSION = 1
HEADER, FOLDER = "snapshot.json", "generation/"
MANIFEST, CALIBRATION, CONFIG_FILE = FOLDER + "manifest.json", "calibration.json", "config.yaml"
_FORMAT = {"format": "retrieve-snapshot", "schema_version": 1}
_MEMBER = re.compile(r"calibration\.json|config\.yaml|inbox\.db|inbox/files/[0-9a-f]{40}")
_WINDOW = 1 << 23
"""The most unpacked bytes that the unpacker keeps (RFC 8878 asks decoders for 8 MB)."""
_HEAD = 1 << 20
"""The most bytes between two members: long names and attributes, which are read into memory."""
_PACKED = 1024
"""Packed bytes that are read at a time: they unpack to at most 32 MiB, as four bytes may encode a block of 128 KiB."""


class BadSnapshot(ValueError):
    """A snapshot that is damaged, cut short, or was not written here."""


class SnapshotHeader(Frozen):
    """Description of a snapshot, its first member."""

    generation: str
    created: str
    """UTC, ISO 8601."""
    version: str
    """Version of the program that wrote it."""
    store: str
    """A digest of the machine and folder that it was created from."""
    records: int
    chunks: int
    index_bytes: int
    """Size of the files of the generation."""
    members: Mapping[str, FileEntry] = {}
    """The members outside of the generation, by name."""

    def to_json(self) -> dict[str, Json]:
        return {**_FORMAT, **asdict(self)}

    @classmethod
    def of(cls, text: bytes) -> SnapshotHeader:
        """Return the header from the first member. Raises: BadSnapshot."""
        try:
            value = json.loads(text)
            if (found := {key: value[key] for key in _FORMAT}) != _FORMAT:
                raise BadSnapshot(f"its format is {' '.join(quoted(part) for part in found.values())}")
            members = {name: FileEntry.of(entry) for name, entry in value["members"].items()}
            texts = {key: value[key] for key in ("generation", "created", "version", "store")}
            counts = {key: value[key] for key in ("records", "chunks", "index_bytes")}
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise BadSnapshot(f"{HEADER} is damaged ({shortened(str(error))})") from error
        if {*map(type, texts.values())} != {str} or {*map(type, counts.values())} != {int}:
            raise BadSnapshot(f"{HEADER} has a value of the wrong type")
        if not all(map(_MEMBER.fullmatch, members)):
            raise BadSnapshot(f"{HEADER} names a member that snapshots do not have")
        return cls(**texts, **counts, members=members)

    def summary(self) -> dict[str, Json]:
        """Return the description for people and programs."""
        named = ("generation", "created", "records", "chunks", "index_bytes")
        more = (CALIBRATION, CONFIG_FILE, database.FILE)
        members = [name for name in more if name in self.members]
        return {**{name: getattr(self, name) for name in named}, "members": members}


def read_header(path: Path) -> SnapshotHeader:
    """Return the header of a snapshot without reading the rest.

    Raises: UsageError: the file does not exist; IndexCorrupt: it is not a snapshot.
    """
    with _opened(path) as archive:
        return SnapshotHeader.of(archive.small(HEADER))


def read(path: Path, place: Callable[[str], Path | None] = lambda _: None) -> tuple[SnapshotHeader, Manifest]:
    """Read all of a snapshot and compare it with its digests; `place` returns where a member is written, if anywhere.

    Raises:
        UsageError: the file does not exist.
        IndexCorrupt: it is damaged, cut short, or holds something else.
        RetrieveError: there is too little disk space.
        OSError: a file cannot be written.
    """
    with _opened(path) as archive:
        header = SnapshotHeader.of(archive.small(HEADER))
        manifest = _manifest(archive.small(MANIFEST), header)
        wanted = {FOLDER + name: entry for name, entry in manifest.files.items()} | dict(header.members)
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
        self._unpacker: Any = zstd().ZstdDecompressor(max_window_size=_WINDOW).decompressobj()
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
        content, digest = self._tar.extractfile(member), hashlib.sha1(usedforsecurity=False)
        while content is not None and (piece := content.read(1 << 20)):
            target.write(piece)
            digest.update(piece)
            progress.advance(len(piece))
        return digest.hexdigest()

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
        while self.read(_HEAD):
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
            raise _damaged(path, str(error)) from error
        except (zstd().ZstdError, tarfile.TarError, ValueError, LookupError, OverflowError) as error:
            raise _damaged(path, f"it cannot be unpacked ({shortened(str(error))})") from error


def _damaged(path: Path, why: str) -> IndexCorrupt:
    hint = "nothing of it was used; create another one: retrieve snapshot create"
    return IndexCorrupt(f"{path} is not a sound snapshot: {why}", hint=hint)


def zstd() -> Any:
    """Return the package zstandard. Raises: Unavailable: it is not installed."""
    try:
        import zstandard
    except ImportError as error:
        raise Unavailable("the package zstandard is not installed", hint="pip install zstandard") from error
    return zstandard


def origin_of(artifacts: Path) -> str:
    """Return a digest of this machine and the folder of an index."""
    return sha1([os.uname().nodename, os.path.realpath(artifacts)])[:12]


def _manifest(text: bytes, header: SnapshotHeader) -> Manifest:
    try:
        manifest = Manifest.of_text(text.decode("utf-8"), MANIFEST)
    except IndexCorrupt as error:
        raise BadSnapshot(error.message) from error
    rows = (manifest.rows(name) or 0 for name in (RECORDS, CHUNKS))
    size = sum(entry.bytes for entry in manifest.files.values())
    if (manifest.id, *rows, size) != (header.generation, header.records, header.chunks, header.index_bytes):
        raise BadSnapshot(f"{HEADER} and {MANIFEST} are about different generations")
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


class Restored(Frozen):
    """A snapshot whose generation is the current one now."""

    header: SnapshotHeader
    status: Literal["published", "current"]
    """Published from the snapshot; or it existed already, is sound, and was made current."""
    calibrations: int
    documents: int
    """Documents of the inbox that came with the snapshot."""
    config: bytes | None
    """The text of the configuration file of the snapshot, if there was one."""

    def to_json(self) -> dict[str, Json]:
        more = {"calibrations": self.calibrations, "documents": self.documents}
        return {"schema_version": SCHEMA_VERSION, "status": self.status, **self.header.summary(), **more}


def restore(path: Path, store: Store, settings: Settings, progress: Progress) -> Restored:
    """Make the generation of a snapshot the current one of a store, with its inbox and calibrations.

    The inbox is in its place before the generation is current: a kill between the two leaves the older index, and loses
    no document.

    Raises:
        UsageError: the file does not exist; or documents of the inbox here would be lost.
        IndexCorrupt: it is damaged, or holds something else; the store is unchanged.
        Locked: another process writes in the store.
        RetrieveError: there is too little disk space, or the store cannot be written; it is unchanged.
    """
    generation = read_header(path).generation
    with _writing(store, settings, progress), store.scratch() as scratch, store.scratch() as beside:
        sound = False
        with suppress(IndexCorrupt):
            sound = not store.verify(generation)[1]
        there, config = Inbox(beside), beside / CONFIG_FILE
        (there.folder / inbox_files.FOLDER).mkdir(parents=True)

        def place(name: str) -> Path | None:
            if name.startswith(FOLDER):
                return None if sound else scratch / name.removeprefix(FOLDER)
            return beside / name

        header, manifest = read(path, place)
        calibrations = _calibrations(path, beside / CALIBRATION)
        if not sound:
            _check_tables(path, scratch, manifest, settings)
        documents = _documents(path, there)
        Inbox(store.path).take_over(there, same=header.store == origin_of(store.path))
        if sound:
            store.roll_back(manifest.id)
        else:
            store.publish(scratch, manifest, {key: value for key, value in manifest.built.items() if key != "sequence"})
        if calibrations:
            calibration.write(store.calibration, calibrations)
        remove_old(store, settings.store.keep, progress)
        text = config.read_bytes() if config.exists() else None
    return Restored(header, "current" if sound else "published", len(calibrations), documents, text)


def write_config(restored: Restored, path: Path, *, force: bool) -> None:
    """Write the configuration file of a snapshot.

    Raises: UsageError: the snapshot has none; or `path` exists. OSError: it cannot be written.
    """
    if restored.config is None:
        raise UsageError("the snapshot has no configuration file", hint="restore it without --write-config")
    if os.path.lexists(path) and not force:
        raise UsageError(f"{path} exists already", hint="--force replaces it; or name another file")
    durable.put(path, restored.config.decode("utf-8", "replace"))


def _calibrations(path: Path, file: Path) -> Sequence[Calibration]:
    """Return the calibrations of a snapshot. Raises: IndexCorrupt: they are damaged."""
    try:
        return calibration.of_bytes(file.read_bytes()) if file.exists() else ()
    except ValueError as error:
        raise _damaged(path, f"{CALIBRATION} holds no calibrations ({error})") from error


def _documents(path: Path, inbox: Inbox) -> int:
    """Return the number of documents of an unpacked inbox. Raises: IndexCorrupt: they are damaged."""
    try:
        return inbox.verify()
    except IndexCorrupt as error:
        why = error.message.replace(f"{inbox.path.parent}/", "")
        raise _damaged(path, f"its inbox is damaged ({why})") from error


def _check_tables(path: Path, folder: Path, manifest: Manifest, settings: Settings) -> None:
    """Raises: IndexCorrupt if the unpacked files are not an index, although they match their manifest."""
    try:
        dict(open_indexes(open_unpublished(folder, manifest), settings))
    except Unavailable:
        pass  # a package for one of its indexes is not installed
    except RetrieveError as error:
        raise _damaged(path, error.message.replace(f"{folder}/", "")) from error
    except (OSError, MemoryError):
        raise
    except Exception as error:
        raise _damaged(path, f"its tables cannot be opened ({type(error).__name__})") from error


@contextmanager
def _writing(store: Store, settings: Settings, progress: Progress) -> Iterator[None]:
    """Hold the store for one writer; a new one is removed after an error."""
    fresh, inbox = not store.generations.exists(), Inbox(store.path)
    no_inbox = not (inbox.folder.exists() or inbox.path.exists())
    new = [folder for folder in (store.path, *store.path.parents) if not folder.exists()]
    try:
        with store.writer(wait=settings.sync.wait, say=progress.say):
            try:
                yield
            except BaseException:
                if fresh and store.live() is None:
                    # The lock is held: a waiting process makes another one.
                    for folder in (store.generations, *([inbox.folder] if no_inbox else ())):
                        shutil.rmtree(folder, ignore_errors=True)
                    for path in store.path.glob(f"{database.FILE}*") if no_inbox else ():
                        path.unlink()
                    durable.unfinished(store.path / "current").unlink(missing_ok=True)
                    with suppress(OSError):
                        if [path.name for path in store.path.iterdir()] == [store.lock.name]:
                            store.lock.unlink()
                raise
    except BaseException:
        for folder in new:
            with suppress(OSError):
                folder.rmdir()
        raise
