"""Restoring of a snapshot: all of it is unpacked and checked before anything of it is used."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from retrieve_cli.assemble.indexes import open_indexes
from retrieve_cli.contracts import Json
from retrieve_cli.errors import IndexCorrupt, RetrieveError, Unavailable, UsageError, shortened
from retrieve_cli.frozen import Frozen
from retrieve_cli.ingest.tidying import tidy
from retrieve_cli.operations.snapshots import archive
from retrieve_cli.operations.snapshots.archive import BadSnapshot, SnapshotHeader
from retrieve_cli.operations.snapshots.create import origin_of
from retrieve_cli.retrieval import calibration
from retrieve_cli.storage.generation import opened
from retrieve_cli.storage.inbox import Inbox
from retrieve_cli.storage.manifest import FileEntry, Manifest
from retrieve_cli.storage.store import MANIFEST

if TYPE_CHECKING:
    from retrieve_cli.config.settings import Settings
    from retrieve_cli.ingest.report import Progress
    from retrieve_cli.storage.store import Store


class Restored(Frozen):
    """A snapshot whose generation is the current one now."""

    header: SnapshotHeader
    calibrations: int
    documents: int
    """Documents of the inbox that came with the snapshot."""

    def to_json(self) -> dict[str, Json]:
        more = {"calibrations": self.calibrations, "documents": self.documents}
        return {"schema_version": 1, "status": "published", **self.header.summary(), **more}


def restore(path: Path, store: Store, settings: Settings, progress: Progress) -> Restored:
    """Make the generation of a snapshot the current one, with its inbox and calibrations.

    The inbox is in its place before the generation is current: a kill between the two leaves the
    older index, and loses no document.

    Raises:
        UsageError: the file does not exist; or documents of the inbox here would be lost.
        IndexCorrupt: it is damaged, or holds something else; the store is unchanged.
        Locked: another process writes in the store.
        RetrieveError: there is too little disk space, or the store cannot be written.
    """
    archive.read_header(path)
    with _writing(store, settings, progress), store.scratch() as scratch:
        header = archive.read(path, scratch)
        inbox = Inbox(scratch)
        with _blaming(path, scratch):
            folders = _folders(scratch, header)
            folder, manifest = folders[-1]
            with suppress(Unavailable):  # a package for one of its indexes is not installed
                dict(open_indexes(opened(manifest, folders), settings))
            calibrations = calibration.read(scratch / archive.CALIBRATION)
            documents = inbox.verify()
        Inbox(store.path).take_over(inbox, same=header.store == origin_of(store.path))
        store.take_segments(folders[:-1])
        circumstances = {key: value for key, value in manifest.built.items() if key != "sequence"}
        store.publish(folder, manifest, circumstances)
        if calibrations:
            calibration.write(store.calibration, calibrations)
        tidy(store, settings.store.keep, progress)
    return Restored(header, len(calibrations), documents)


def _folders(scratch: Path, header: SnapshotHeader) -> list[tuple[Path, Manifest]]:
    """Return the unpacked folders of the older segments, then the one of the generation, with their manifests.

    Raises:
        BadSnapshot: they do not list the unpacked files.
    """
    manifest = Manifest.read(scratch / archive.MANIFEST)
    places = [*(f"{archive.SEGMENTS}{name}/" for name in manifest.segments), archive.FOLDER]
    folders = [(scratch / place, Manifest.read(scratch / place / MANIFEST)) for place in places]
    listed: dict[str, FileEntry] = {}
    for place, (_, part) in zip(places, folders, strict=True):
        listed |= {place + name: FileEntry(entry.sha1, entry.bytes) for name, entry in part.files.items()}
    manifests = {place + MANIFEST for place in places}
    kept = (archive.FOLDER, archive.SEGMENTS)
    unpacked = {name: entry for name, entry in header.members.items() if name.startswith(kept)}
    ids = [part.id for _, part in folders]
    if ids != [*manifest.segments, header.generation] or manifests & listed.keys():
        raise BadSnapshot(f"{archive.HEADER} and {archive.MANIFEST} disagree")
    if listed != {name: entry for name, entry in unpacked.items() if name not in manifests}:
        raise BadSnapshot(f"{archive.HEADER} and {archive.MANIFEST} disagree")
    return folders


@contextmanager
def _blaming(path: Path, scratch: Path) -> Iterator[None]:
    """Raise errors on unpacked files, which match their digests, as errors of their snapshot."""
    try:
        yield
    except (IndexCorrupt, UsageError) as error:
        raise archive.damaged(path, error.message.replace(f"{scratch}/", "")) from error
    except (RetrieveError, OSError, MemoryError):
        raise
    except Exception as error:
        raise archive.damaged(path, shortened(f"{type(error).__name__}: {error}")) from error


@contextmanager
def _writing(store: Store, settings: Settings, progress: Progress) -> Iterator[None]:
    """Hold the store for one writer; after an error, one that did not exist is removed again."""
    new = [folder for folder in (store.path, *store.path.parents) if not folder.exists()]
    with store.writer(wait=settings.sync.wait, say=progress.say):
        try:
            yield
        except BaseException:
            if new and store.live() is None:
                shutil.rmtree(store.generations, ignore_errors=True)
                store.lock.unlink(missing_ok=True)  # held: a waiting process makes another one
                for folder in new:
                    with suppress(OSError):
                        folder.rmdir()
            raise
