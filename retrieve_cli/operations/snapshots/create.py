"""Creation of a snapshot, a listing of snapshots, and removal of the oldest ones.

The configuration in a snapshot has no possible secrets: keys, users and queries of addresses.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import tarfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, BinaryIO, Literal

from retrieve_cli.config.loading import read_yaml
from retrieve_cli.contracts import Json
from retrieve_cli.contracts.progress import BYTES, task
from retrieve_cli.errors import IndexCorrupt, Locked, RetrieveError, UsageError
from retrieve_cli.frozen import Frozen, replace
from retrieve_cli.http.addresses import shown
from retrieve_cli.operations.snapshots import restore as reading
from retrieve_cli.operations.snapshots.restore import SCHEMA_VERSION, SnapshotHeader, read_header
from retrieve_cli.storage import database, durable, lock
from retrieve_cli.storage.generation import CHUNKS, RECORDS
from retrieve_cli.storage.inbox import Inbox
from retrieve_cli.storage.inbox_files import path_of
from retrieve_cli.storage.manifest import FileEntry, sha1, sha1_file
from retrieve_cli.untrusted.files import CONFIG, open_regular, read_text
from retrieve_cli.version import __version__

if TYPE_CHECKING:
    from retrieve_cli.storage.store import Store

_SUFFIX = ".tar.zst"
_NAME = re.compile(r"([0-9a-f]{12})-[0-9a-f]{6}\.tar\.zst")
"""Names that `create` chooses: the generation's id, and a mark of the other members."""
_DAMAGED = "list the damaged files: retrieve inspect verify; then build again: retrieve build"


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
        head = {"schema_version": SCHEMA_VERSION, "status": self.status, "file": str(self.path), "bytes": self.bytes}
        return {**head, **self.header.summary(), "removed": list(self.removed)}


def create(
    store: Store, target: Path, *, config: Path | None, generation: str | None = None, force: bool = False
) -> Created:
    """Write a snapshot of a generation, by default the current one, to a file, or into a folder under its own name.

    The name has the id of the generation and a mark of the other members. An equal snapshot that exists there is
    verified to the last byte and kept unchanged. `config` is the configuration file, if there is one.

    Raises:
        IndexMissing, IndexCorrupt: the generation does not exist, or it or the existing snapshot is damaged.
        UsageError: the place has something else.
        RetrieveError: it cannot be written.
    """
    folder, manifest, hold = store.open(generation)
    with TemporaryDirectory() as scratch:
        beside = _beside(store, config, Path(scratch))
        header = SnapshotHeader(
            generation=manifest.id,
            created=datetime.now(UTC).isoformat(),
            version=__version__,
            store=reading.origin_of(store.path),
            records=manifest.rows(RECORDS) or 0,
            chunks=manifest.rows(CHUNKS) or 0,
            index_bytes=sum(entry.bytes for entry in manifest.files.values()),
            members={name: entry for name, (entry, _) in beside.items()},
        )
        path = target
        if target.is_dir():
            _sweep(target)
            digests = {name: entry.sha1 for name, entry in header.members.items()}
            path = target / f"{header.generation}-{sha1([digests, header.store])[:6]}{_SUFFIX}"
            if path.exists() and not force:
                reading.read(path)
                return Created(path, read_header(path), "unchanged", path.stat().st_size)
        public = replace(manifest, built=without_secrets(dict(manifest.built)))
        described = ((reading.HEADER, header), (reading.MANIFEST, public))
        first = {
            name: _plain((json.dumps(each.to_json(), indent=1, sort_keys=True) + "\n").encode())
            for name, each in described
        }
        entries = sorted(manifest.files.items())
        files = {reading.FOLDER + name: (entry, partial(_opened, folder / name)) for name, entry in entries}
        with _in_place_of(path, force=force) as file:
            _write(file, {**first, **files, **beside})
        del hold
        return Created(path, header, "written", path.stat().st_size)


def _beside(store: Store, config: Path | None, scratch: Path) -> dict[str, Member]:
    """Return the members outside of the generation; copies are written into a folder."""
    beside = {} if config is None else {reading.CONFIG_FILE: _plain(config_text(config))}
    if os.path.lexists(store.calibration):
        with _opened(store.calibration) as content:
            beside[reading.CALIBRATION] = _plain(content.read())
    return beside | _documents(Inbox(store.path), scratch)


Member = tuple[FileEntry, Callable[[], BinaryIO]]
"""Size and SHA-1 of a member, and a function that opens its content: there may be more than may be open at once."""


def _write(file: BinaryIO, members: Mapping[str, Member]) -> None:
    """Write an archive. Raises: IndexCorrupt: the content of a member does not match its digest."""
    packer = reading.zstd().ZstdCompressor(level=3, write_checksum=True, write_content_size=False)
    now = int(datetime.now(UTC).timestamp())
    with (
        task("writing the snapshot", BYTES, sum(entry.bytes for entry, _ in members.values())) as progress,
        packer.stream_writer(file, closefd=False) as packed,
        tarfile.open(fileobj=packed, mode="w|", format=tarfile.GNU_FORMAT) as archive,
    ):
        for name, (entry, open_it) in members.items():
            info = tarfile.TarInfo(name)
            info.size, info.mode, info.mtime = entry.bytes, 0o644, now
            with open_it() as content:
                hashed = _Hashed(content)
                archive.addfile(info, hashed)
            if hashed.sha1.hexdigest() != entry.sha1:
                raise IndexCorrupt(f"{name} does not match its SHA-1", hint=_DAMAGED)
            progress.advance(entry.bytes)


class _Hashed(io.RawIOBase):
    """Content that is hashed while it is read."""

    def __init__(self, content: BinaryIO) -> None:
        self._content, self.sha1 = content, hashlib.sha1(usedforsecurity=False)

    def read(self, size: int = -1) -> bytes:
        piece = self._content.read(size)
        if len(piece) < size:
            raise IndexCorrupt("a file of the index is shorter than in its manifest", hint=_DAMAGED)
        self.sha1.update(piece)
        return piece


def _documents(inbox: Inbox, scratch: Path) -> dict[str, Member]:
    """Return a copy of the inbox in a folder, and the files that its documents name."""
    if not inbox.sequence:
        return {}
    copy = inbox.copy_to(scratch)
    digest = FileEntry(sha1_file(copy.path), copy.path.stat().st_size)
    members: dict[str, Member] = {database.FILE: (digest, partial(_opened, copy.path))}
    for name in sorted({entry.file.sha1 for entry in copy.snapshot() if entry.file}):
        path = path_of(inbox.folder, name)
        with _opened(path) as file:
            size = os.fstat(file.fileno()).st_size
        members[f"inbox/files/{name}"] = (FileEntry(name, size), partial(_opened, path))
    return members


def _plain(content: bytes) -> Member:
    digest = hashlib.sha1(content, usedforsecurity=False).hexdigest()
    return FileEntry(digest, len(content)), partial(io.BytesIO, content)


def _opened(path: Path) -> BinaryIO:
    try:
        return open_regular(path)
    except OSError as error:
        raise IndexCorrupt(f"cannot read {path}: {error.strerror}", hint=_DAMAGED) from error


def remove_old(created: Created, keep: int) -> Created:
    """Delete the oldest snapshots of the same store in the folder beyond the last `keep`, never the one given.

    Only files with a name and a header as `create` writes them count. Raises: RetrieveError: one cannot be deleted.
    """
    others: list[tuple[str, Path]] = []
    for path in created.path.parent.iterdir():
        if _NAME.fullmatch(path.name) and path.is_file() and not path.samefile(created.path):
            with suppress(RetrieveError):
                header = read_header(path)
                if header.store == created.header.store and path.name.startswith(header.generation):
                    others.append((header.created, path))
    old = [path for _, path in sorted(others, reverse=True)[max(keep - 1, 0) :]]
    for path in old:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            message = f"cannot delete {path}: {error.strerror}"
            raise RetrieveError(message, hint="fix the permissions of the folder, or delete it by hand") from error
    return replace(created, removed=tuple(str(path) for path in reversed(old)))


def listing(store: Store, folder: Path) -> dict[str, Json]:
    """Return the snapshots of a folder and the generations of a store, the latest first.

    Raises: UsageError: the folder does not exist.
    """
    try:
        paths = sorted(path for path in folder.iterdir() if path.name.endswith(_SUFFIX) and path.is_file())
    except OSError as error:
        raise UsageError(f"cannot read the folder {folder}: {error.strerror}", hint="check the path") from error
    snapshots: list[dict[str, Json]] = []
    for path in paths:
        snapshots.append({"file": str(path), "bytes": path.stat().st_size})
        try:
            snapshots[-1] |= read_header(path).summary()
        except RetrieveError as error:
            snapshots[-1]["fault"] = error.message
    generations = [
        {"generation": one.manifest.id, "current": one.live, "at": one.manifest.built.get("at"), "bytes": one.bytes}
        for one in reversed(store.kept())
    ]
    snapshots.sort(key=lambda entry: str(entry.get("created", "")), reverse=True)
    return {"schema_version": SCHEMA_VERSION, "snapshots": snapshots, "generations": generations}


@contextmanager
def _in_place_of(path: Path, *, force: bool) -> Iterator[BinaryIO]:
    """Open a file that is synced and renamed to `path` at the end of this context; after an error it is removed. An
    existing file is replaced only with `force`.

    Raises: UsageError: the path exists already, or its folder does not; Locked: another process writes the same
    snapshot; RetrieveError: it cannot be written.
    """
    path = Path(os.path.realpath(path))
    _check_target(path, force=force)
    new = durable.unfinished(path)
    try:
        descriptor = lock.take(new)
        if descriptor is None:
            raise Locked(f"another process writes {path}", hint="wait for it to end")
        with os.fdopen(descriptor, "wb") as file:
            try:
                file.truncate(0)
                yield file
                file.flush()
                os.fsync(file.fileno())
                _check_target(path, force=force)
                new.replace(path)
            except BaseException:
                new.unlink(missing_ok=True)
                raise
        durable.sync(path.parent)
    except OSError as error:
        hint = "free disk space, fix the permissions, or name another folder: --to DIR"
        raise RetrieveError(f"cannot write {path}: {error.strerror}", hint=hint) from error


def _check_target(path: Path, *, force: bool) -> None:
    """Raises: UsageError if a snapshot cannot be put there, or only with `force`."""
    if not path.parent.is_dir():
        raise UsageError(f"there is no folder {path.parent}", hint=f"make it: mkdir -p {path.parent}")
    if path.is_dir() or (os.path.lexists(path) and not path.is_file()):
        raise UsageError(f"{path} is not a file that a snapshot could replace", hint="name another file")
    if not force and path.exists():
        raise UsageError(f"{path} exists already", hint="--force replaces it; or name another file")


def _sweep(folder: Path) -> None:
    """Remove temporary files of killed processes from a folder; those that are being written are locked."""
    for path in folder.glob(".*.new"):
        if _NAME.fullmatch(path.name[1:-4]):
            with suppress(OSError):
                descriptor = lock.take(path)
                if descriptor is not None:
                    path.unlink(missing_ok=True)
                    os.close(descriptor)


_ADDRESS = re.compile(r"(?<![\w+.-])[\w+.-]{1,20}://[^\s\"'<>]*")
_SECRET = re.compile(r"(?:key|token|secret|passw|credential)", re.IGNORECASE)
_NAMES = ("_env", "_tokens", "tokenizer", "tokens")
"""Ends of keys that look like secrets and are not: names of variables, and tokens of texts."""


def config_text(path: Path) -> bytes:
    """Return the text of a configuration file; without its comments if a secret had to be removed.

    Raises: UsageError: it cannot be read.
    """
    import yaml

    try:
        text = read_text(path, limit=CONFIG)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"cannot read the configuration {path}: {reason}", hint="check --config") from error
    value = read_yaml(text, str(path))
    public = without_secrets(value)
    comments = [line.partition("#")[2] for line in text.splitlines()]
    harmless = not any(_SECRET.search(line) or _public(line) != line for line in comments)
    if public == value and harmless:
        return text.encode()
    head = "# As it was when the snapshot was created, without comments and possible secrets.\n"
    return (head + str(yaml.safe_dump(public, allow_unicode=True, sort_keys=False))).encode()


def without_secrets(value: Json, key: str = "") -> Json:
    """Return a value with its addresses redacted for display, and without the values of secret keys."""
    if isinstance(value, Mapping):
        return {name: without_secrets(part, str(name)) for name, part in value.items()}
    if isinstance(value, list):
        return [without_secrets(part, key) for part in value]
    if _SECRET.search(key) and not key.endswith(_NAMES) and isinstance(value, str):
        return "…"
    return _public(value) if isinstance(value, str) else value


def _public(text: str) -> str:
    return _ADDRESS.sub(lambda found: shown(found[0]) if "@" in found[0] or "?" in found[0] else found[0], text)
