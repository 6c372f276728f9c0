"""Restoring of a snapshot into a store: verified while it is unpacked, then published like any other generation."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from retrieve_cli.assemble.indexes import open_indexes
from retrieve_cli.contracts import Json
from retrieve_cli.errors import IndexCorrupt, RetrieveError, Unavailable, UsageError
from retrieve_cli.frozen import Frozen
from retrieve_cli.ingest.tidying import remove_old
from retrieve_cli.operations.snapshots import form
from retrieve_cli.operations.snapshots.reading import read, read_header
from retrieve_cli.retrieval import calibration
from retrieve_cli.storage import durable
from retrieve_cli.storage.generation import open_unpublished
from retrieve_cli.storage.inbox import Inbox, inbox_of

if TYPE_CHECKING:
    from retrieve_cli.config.settings import Settings
    from retrieve_cli.ingest.report import Progress
    from retrieve_cli.retrieval.calibration import Calibration
    from retrieve_cli.storage.manifest import Manifest
    from retrieve_cli.storage.store import Store

SCHEMA_VERSION = 1


class Restored(Frozen):
    """A snapshot whose generation is the current one now."""

    header: form.SnapshotHeader
    status: Literal["published", "current"]
    """Published from the snapshot; or it existed already, is sound, and was made current."""
    calibrations: int
    documents: int
    """Documents of the inbox that came with the snapshot."""
    config: bytes | None
    """The text of the configuration file of the snapshot, if there was one."""

    def to_json(self) -> dict[str, Json]:
        return {
            "schema_version": SCHEMA_VERSION,
            "status": self.status,
            **self.header.summary(),
            "calibrations": self.calibrations,
            "documents": self.documents,
        }


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
        sound = _is_sound(store, generation)
        (beside / "inbox" / "files").mkdir(parents=True)

        def place(name: str) -> Path | None:
            if name.startswith(form.FOLDER):
                return None if sound else scratch / name.removeprefix(form.FOLDER)
            return beside / name

        header, manifest = read(path, place)
        calibrations = _calibrations(path, beside / form.CALIBRATION)
        if not sound:
            _check_tables(path, scratch, manifest, settings)
        here, there = inbox_of(store.path), Inbox(beside / "inbox")
        documents = _documents(path, there)
        here.take_over(there, same=header.store == form.origin_of(store.path))
        if sound:
            store.roll_back(manifest.id)
        else:
            built = {key: value for key, value in manifest.built.items() if key != "sequence"}
            store.publish(scratch, manifest, built)
        if calibrations:
            calibration.write(store.calibration, calibrations)
        remove_old(store, settings.store.keep, progress)
        status: Literal["published", "current"] = "current" if sound else "published"
        config = beside / form.CONFIG_FILE
        text = config.read_bytes() if config.exists() else None
    return Restored(header, status, len(calibrations), documents, text)


def write_config(restored: Restored, path: Path, *, force: bool) -> None:
    """Write the configuration file of a snapshot.

    Raises:
        UsageError: the snapshot has none; or `path` exists.
        OSError: it cannot be written.
    """
    if restored.config is None:
        raise UsageError("the snapshot has no configuration file", hint="restore it without --write-config")
    if os.path.lexists(path) and not force:
        raise UsageError(f"{path} exists already", hint="--force replaces it; or name another file")
    durable.put(path, restored.config.decode("utf-8", "replace"))


def _is_sound(store: Store, generation: str) -> bool:
    try:
        return not store.verify(generation)[1]
    except IndexCorrupt:
        return False


def _check_tables(path: Path, folder: Path, manifest: Manifest, settings: Settings) -> None:
    """Raises: IndexCorrupt if the unpacked files are not an index, although they match their manifest."""
    try:
        dict(open_indexes(open_unpublished(folder, manifest), settings))
    except Unavailable:
        pass  # a package for one of its indexes is not installed
    except RetrieveError as error:
        raise form.damaged(path, error.message.replace(f"{folder}/", "")) from error
    except (OSError, MemoryError):
        raise
    except Exception as error:
        raise form.damaged(path, f"its tables cannot be opened ({type(error).__name__})") from error


def _documents(path: Path, inbox: Inbox) -> int:
    """Return the number of documents of an unpacked inbox. Raises: IndexCorrupt: they are damaged."""
    try:
        return sum(1 for _ in inbox.snapshot())
    except IndexCorrupt as error:
        raise form.damaged(path, f"its inbox is damaged ({error.message.replace(f'{inbox.folder}/', '')})") from error


def _calibrations(path: Path, file: Path) -> list[Calibration]:
    """Return the calibrations of a snapshot. Raises: IndexCorrupt: they are damaged."""
    try:
        return calibration.of_bytes(file.read_bytes()) if file.exists() else []
    except ValueError as error:
        raise form.damaged(path, f"{form.CALIBRATION} holds no calibrations ({error})") from error


@contextmanager
def _writing(store: Store, settings: Settings, progress: Progress) -> Iterator[None]:
    """Hold the store for one writer; a new one is removed after an error."""
    fresh, no_inbox = not store.generations.exists(), not store.inbox.exists()
    new = [folder for folder in (store.path, *store.path.parents) if not folder.exists()]
    try:
        with store.writer(wait=settings.sync.wait, say=progress.say):
            try:
                yield
            except BaseException:
                if fresh and store.live() is None:
                    # The lock is held: a waiting process makes another one.
                    if no_inbox:
                        shutil.rmtree(store.inbox, ignore_errors=True)
                    shutil.rmtree(store.generations, ignore_errors=True)
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
