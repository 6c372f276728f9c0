"""The artifacts folder: generations, the one-line `current`, the writer's lock.

    artifacts/current                     the live generation's id
    artifacts/generations/<id>/           immutable once named; manifest.json is written last
    artifacts/generations/.scratch-*/     a build under way, or what a killed one left behind
    artifacts/quarantine.jsonl            what the last build refused
    artifacts/lock                        who is writing

A generation is written into a scratch folder, synced to disk, renamed to its id, and only then named in `current`,
which is replaced in one step. A crash at any moment leaves the live generation as it was; nothing is edited in place.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import stat
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from retrieve_cli.contracts import Refused
from retrieve_cli.errors import IndexCorrupt, IndexMissing, Locked, RetrieveError, UsageError
from retrieve_cli.manifest import FileEntry, Manifest, SourceEntry, sha1_file

MANIFEST = "manifest.json"
_BUILD = "build it: retrieve build --catalog FILE (or --docs-dir DIR)"
_SCRATCH = ".scratch-"
_ID = re.compile(r"[0-9a-f]{12}")


class Store:
    """The artifacts folder at `path`. Making one touches nothing."""

    def __init__(self, path: Path) -> None:
        """Raises: UsageError where `path` is a file."""
        self.path = path
        self.generations = path / "generations"
        self.quarantine = path / "quarantine.jsonl"
        hint = "name another folder: --artifacts DIR"
        try:
            if not stat.S_ISDIR(path.stat().st_mode):
                raise UsageError(f"{path} is a file, not a folder of artifacts", hint=hint)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise UsageError(f"{path} cannot hold artifacts: {error.strerror}", hint=hint) from error

    # ------------------------------------------------------------------------------------------- reading

    def current(self) -> str | None:
        """The live generation's id, None where nothing was built yet.

        Raises:
            IndexCorrupt: generations are there and `current` is lost or unreadable.
        """
        try:
            live = (self.path / "current").read_text("ascii").strip()
        except FileNotFoundError:
            others = self._ids()
            if others:
                raise IndexCorrupt(
                    f"{self.path}/current is missing, though there are generations ({', '.join(others)})",
                    hint=f"build again: retrieve build; or name one: echo {others[-1]} > {self.path}/current",
                ) from None
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise IndexCorrupt(f"cannot read {self.path}/current: {error}", hint=_BUILD) from error
        if not _ID.fullmatch(live):
            raise IndexCorrupt(f"{self.path}/current does not name a generation", hint=_BUILD)
        return live

    def live(self) -> str | None:
        """What `current` says, whether or not it can be served; None where it says nothing."""
        try:
            return (self.path / "current").read_text("ascii").strip() or None
        except (OSError, UnicodeDecodeError):
            return None

    def open(self) -> tuple[Path, Manifest]:
        """The live generation's folder and manifest; every file it lists is there, in its full size.

        Raises:
            IndexMissing: nothing was built here yet.
            IndexCorrupt: the generation is gone, incomplete, damaged, or from another schema.
        """
        live = self.current()
        if live is None:
            raise IndexMissing(f"there is no index in {self.path} yet", hint=_BUILD)
        folder = self.generations / live
        if not folder.is_dir():
            raise IndexCorrupt(f"{self.path}/current names generation {live}, which is not there", hint=_BUILD)
        manifest = Manifest.read(folder / MANIFEST)
        if manifest.id != live:
            raise IndexCorrupt(f"{folder} holds generation {manifest.id}, not {live}", hint=_BUILD)
        for name, entry in manifest.files.items():
            fault = _size_fault(folder / name, entry)
            if fault:
                raise IndexCorrupt(fault, hint="see what else is damaged: retrieve inspect verify; then retrieve build")
        return folder, manifest

    def verify(self) -> tuple[Manifest, dict[str, str]]:
        """Reads every byte of the live generation against its manifest; the faults by file name, empty where sound.

        Raises:
            IndexMissing, IndexCorrupt: there is no manifest to hold the files to.
        """
        live = self.current()
        if live is None:
            raise IndexMissing(f"there is no index in {self.path} yet", hint=_BUILD)
        folder = self.generations / live
        manifest = Manifest.read(folder / MANIFEST)
        faults: dict[str, str] = {}
        for name, entry in manifest.files.items():
            fault = _size_fault(folder / name, entry) or _digest_fault(folder / name, entry)
            if fault:
                faults[name] = fault
        return manifest, faults

    @contextmanager
    def reading(self) -> Iterator[None]:
        """An error that nobody foresaw while reading is the index's fault where one of its files is damaged.

        Raises:
            IndexCorrupt: in place of such an error, naming the file. Where all files are sound the error goes on.
        """
        try:
            yield
        except RetrieveError:
            raise
        except Exception as error:
            _, faults = self.verify()
            if not faults:
                raise
            hint = "build the index again: retrieve build"
            raise IndexCorrupt(next(iter(faults.values())), hint=hint) from error

    def _ids(self) -> list[str]:
        """Complete generations, oldest first."""
        if not self.generations.is_dir():
            return []
        found = [folder for folder in self.generations.iterdir() if (folder / MANIFEST).is_file()]
        return [folder.name for folder in sorted(found, key=lambda folder: folder.stat().st_mtime_ns)
                if not folder.name.startswith(".")]  # fmt: skip

    # ------------------------------------------------------------------------------------------- writing

    @contextmanager
    def writer(self) -> Iterator[None]:
        """Holds the folder for one writer; readers are never blocked. A dead holder's lock is free.

        Raises:
            Locked: another process writes here.
            RetrieveError: the folder cannot be written.
        """
        try:
            self.generations.mkdir(parents=True, exist_ok=True)
            file = (self.path / "lock").open("a+", encoding="utf-8", errors="replace")
        except OSError as error:
            raise _unwritable(self.path, error) from error
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.seek(0)
                raise Locked(
                    f"another writer holds {self.path}: {file.read().strip()}", hint="wait for it to end"
                ) from None
            file.truncate(0)
            holder = {"pid": os.getpid(), "host": os.uname().nodename, "start": _now(), "command": sys.argv}
            file.write(json.dumps(holder))
            file.flush()
            self._sweep()
            try:
                yield
            finally:
                file.truncate(0)

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """A folder to write a generation into; whatever is not published is removed."""
        folder = self.generations / f"{_SCRATCH}{os.getpid()}-{time.time_ns()}"
        try:
            folder.mkdir()  # with the rights that the umask gives: who may read the index need not be who built it
        except OSError as error:
            raise _unwritable(self.generations, error) from error
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def publish(
        self,
        scratch: Path,
        *,
        recipe: Mapping[str, object],
        sources: Sequence[SourceEntry],
        rows: Mapping[str, int],
        built: Mapping[str, object],
    ) -> str:
        """Seals the files of `scratch` under a manifest, makes them the live generation, and returns its id.

        `rows` gives the number of rows of each file that has rows.
        """
        names = sorted(path.name for path in scratch.iterdir())
        for name in names:
            _sync(scratch / name)
        files = {
            name: FileEntry(sha1_file(scratch / name), (scratch / name).stat().st_size, rows.get(name))
            for name in names
        }
        manifest = Manifest(recipe=recipe, sources=tuple(sources), files=files, built={"at": _now(), **built})
        folder = self.generations / manifest.id
        if not self._sound(folder):
            _write_synced(scratch / MANIFEST, json.dumps(manifest.to_json(), indent=1, sort_keys=True) + "\n")
            _sync(scratch)
            self._set_aside(folder)
            scratch.rename(folder)
            _sync(self.generations)
        self._point_at(manifest.id)
        return manifest.id

    def write_quarantine(self, refused: Sequence[Refused]) -> None:
        """Replaces the list of what the last build refused."""
        lines = (json.dumps(asdict(item), ensure_ascii=False) + "\n" for item in refused)
        _replace(self.quarantine, "".join(lines))

    def _point_at(self, generation: str) -> None:
        _replace(self.path / "current", generation + "\n")
        _sync(self.path)

    def _sound(self, folder: Path) -> bool:
        """Whether a generation of that name is there already, whole to the last bit."""
        if not folder.is_dir():
            return False
        try:
            manifest = Manifest.read(folder / MANIFEST)
        except IndexCorrupt:
            return False
        return not any(
            _size_fault(folder / name, entry) or _digest_fault(folder / name, entry)
            for name, entry in manifest.files.items()
        )

    def _set_aside(self, folder: Path) -> None:
        """Moves a damaged generation out of the way of its sound successor; nothing is deleted."""
        if folder.exists():
            folder.rename(folder.with_name(f"{folder.name}.damaged-{time.time_ns()}"))

    def _sweep(self) -> None:
        """Removes scratch folders of writers that died; only the holder of the lock may."""
        for folder in self.generations.glob(_SCRATCH + "*"):
            shutil.rmtree(folder, ignore_errors=True)


def _size_fault(path: Path, entry: FileEntry) -> str:
    try:
        size = path.stat().st_size
    except OSError as error:
        return f"{path} is missing ({error.strerror})"
    return "" if size == entry.bytes else f"{path} has {size} bytes; the manifest says {entry.bytes}"


def _digest_fault(path: Path, entry: FileEntry) -> str:
    try:
        digest = sha1_file(path)
    except OSError as error:
        return f"{path} cannot be read ({error.strerror})"
    return "" if digest == entry.sha1 else f"{path} has SHA-1 {digest}; the manifest says {entry.sha1}"


def _replace(path: Path, text: str) -> None:
    """Puts `text` in the file's place in one step."""
    new = path.with_name(f".{path.name}.new")
    _write_synced(new, text)
    new.replace(path)


def _write_synced(path: Path, text: str) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def _unwritable(path: Path, error: OSError) -> RetrieveError:
    return RetrieveError(
        f"cannot write to {path}: {error.strerror}", hint="check its rights, or name another folder: --artifacts DIR"
    )
