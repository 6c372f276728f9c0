"""The artifacts folder: generations, and the one-line `current` that names the current one.

    artifacts/current                     id of the current generation
    artifacts/generations/<id>/           immutable once named; manifest.json is written last
    artifacts/generations/.scratch-*/     a build in progress, or the rest of an interrupted one
    artifacts/cache/                      work of a build that was interrupted, see entries.py
    artifacts/sources/                    files fetched from remote sources
    artifacts/inbox.db                    documents that were added one at a time, and tasks of servers
    artifacts/web.sqlite                  answers of web and literature providers, see websearch/cache.py
    artifacts/tasks/                      locks of servers, see tasks.py
    artifacts/runs/                       figures of evaluations, query by query
    artifacts/calibration.json            relevance of scores, see retrieval/calibration.py
    artifacts/quarantine.jsonl            items that the last build rejected
    artifacts/engines.json                collections in engines, see engine_record.py
    artifacts/lock                        the active writer
    artifacts/synced                      time of the last attempt to sync, see ingest/schedule.py

A generation is written into a scratch folder, synced to disk, renamed to its id, and only then named in `current`,
which is replaced in one step. A crash at any moment leaves the current generation unchanged; nothing is edited in
place. A folder exists as long as a kept generation needs it or a reader holds it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import msgspec

from retrieve_cli.contracts import Refused
from retrieve_cli.errors import (
    SPACE,
    IndexCorrupt,
    IndexMissing,
    NoSpace,
    RetrieveError,
    UsageError,
    quoted,
    unwritable,
)
from retrieve_cli.frozen import Frozen, asdict, replace
from retrieve_cli.storage import durable, lock
from retrieve_cli.storage.manifest import FileEntry, Manifest, SourceEntry, faults, sha1_file, size_fault
from retrieve_cli.storage.recipe import Recipe
from retrieve_cli.storage.segment import ENGINES, is_elsewhere
from retrieve_cli.untrusted.files import CONFIG, JUDGMENTS, lines, open_regular, read_text

MANIFEST = "manifest.json"
_SCRATCH = ".scratch-"
_BUILD = "build it: retrieve build --catalog FILE (or --docs-dir DIR)"
_ID = re.compile(r"[0-9a-f]{12}")


class StoredGeneration(Frozen):
    """A generation on disk."""

    manifest: Manifest
    live: bool
    """True for the current generation."""
    bytes: int


class OpenFolders(NamedTuple):
    """The folders of a generation, protected from removal."""

    manifest: Manifest
    folders: Sequence[tuple[Path, Manifest]]
    """The folders of its older segments in order, then its own, each with its manifest."""
    holds: Sequence[lock.Hold]


class Store:
    """The artifacts folder at `path`. The constructor creates nothing."""

    def __init__(self, path: Path) -> None:
        """Raises: UsageError: `path` is a file."""
        self.path = path
        self.generations = path / "generations"
        self.quarantine = path / "quarantine.jsonl"
        self.cache = path / "cache"
        self.fetched = path / "sources"
        self.runs = path / "runs"
        self.calibration = path / "calibration.json"
        self.lock = path / "lock"
        hint = "name another folder: --artifacts DIR"
        try:
            if not stat.S_ISDIR(path.stat().st_mode):
                raise UsageError(f"{path} is a file, not a folder of artifacts", hint=hint)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise UsageError(f"{quoted(str(path))} cannot hold artifacts: {error.strerror}", hint=hint) from error

    def current(self) -> str | None:
        """Return the id of the current generation; None if no index was built yet.

        Raises:
            IndexCorrupt: there are generations, but `current` is missing or unreadable.
        """
        try:
            name = read_text(self.path / "current", limit=CONFIG, encoding="ascii").strip()
        except FileNotFoundError:
            others = self._ids()
            if others and not lock.holder(self.lock):  # with a holder: a first build before its last step
                raise IndexCorrupt(
                    f"{self.path}/current is missing, though there are generations ({', '.join(others)})",
                    hint=f"build again: retrieve build; or name one: echo {others[-1]} > {self.path}/current",
                ) from None
            return None
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            raise IndexCorrupt(f"cannot read {self.path}/current: {why}", hint=_BUILD) from error
        if not _ID.fullmatch(name):
            raise IndexCorrupt(f"{self.path}/current does not name a generation", hint=_BUILD)
        return name

    def live(self) -> str | None:
        """Return the id in `current`, whether or not the generation exists; None if there is no id."""
        with suppress(IndexCorrupt):
            return self.current()
        return None

    def open(self, generation: str | None = None) -> OpenFolders:
        """Return the folders of the current generation or the one named, after checking the sizes of their files.

        The holds protect them from removal; a publication in the meantime does not affect them.

        Raises:
            IndexMissing: no index was built here yet.
            IndexCorrupt: the generation is missing, incomplete, damaged, or from another schema.
            UsageError: there is no generation of that name.
        """
        opened = self._opened(self._matching(generation) if generation else None)
        for folder, manifest in opened.folders:
            for file, entry in manifest.files.items():
                if not is_elsewhere(folder / file) and (fault := size_fault(folder / file, entry)):
                    hint = "list all damaged files: retrieve inspect verify; then retrieve build"
                    raise IndexCorrupt(fault, hint=hint)
        return opened

    def verify(self, generation: str | None = None) -> tuple[Manifest, dict[str, str]]:
        """Read every byte of a generation, by default the current one; return its manifest and its faults by file;
        the names of files of older segments begin with their generation.

        Raises:
            IndexMissing, IndexCorrupt: there is no manifest to check the files against.
        """
        opened = self._opened(generation)
        damage: dict[str, str] = {}
        for folder, manifest in opened.folders:
            start = "" if manifest is opened.manifest else f"{manifest.id}/"
            damage |= {f"{start}{file}": fault for file, fault in faults(folder, manifest).items()}
        return opened.manifest, damage

    def _opened(self, generation: str | None) -> OpenFolders:
        """Return the folders of a generation, by default the current one, with a hold on each.

        Raises: IndexMissing, IndexCorrupt.
        """
        while True:
            name = generation or self._current()
            try:
                opened = self._held(name)
            except IndexCorrupt:
                # A writer may have published, and removed this generation, before the holds were taken.
                if generation or self.live() == name:
                    raise
                continue
            if len(opened.holds) == len(opened.folders):
                return opened
            time.sleep(0.001)  # another process is about to remove one

    def _held(self, name: str) -> OpenFolders:
        """Return the folders of a generation, with a hold on each that can be held. Raises: IndexCorrupt."""
        own = lock.share(self.generations / name)
        manifest = self._manifest(name)
        holds = [own, *(lock.share(self.generations / segment) for segment in manifest.segments)]
        folders = [(self.generations / segment, self._manifest(segment)) for segment in manifest.segments]
        folders.append((self.generations / name, manifest))
        return OpenFolders(manifest, folders, [hold for hold in holds if hold is not None])

    def kept(self) -> list[StoredGeneration]:
        """Return the generations with a readable manifest and all their segments, in the order of their publication."""
        current, manifests, kept = self.live(), self._manifests(), []
        for name, manifest in manifests.items():
            folder = self.generations / name
            with suppress(OSError):
                if manifests.keys() >= set(manifest.segments):
                    size = sum(path.stat().st_size for path in folder.iterdir())
                    kept.append(StoredGeneration(manifest, name == current, size))
        return sorted(kept, key=lambda stored: (stored.manifest.sequence, stored.manifest.id))

    def has(self, generation: str) -> bool:
        """Return True if a complete generation with this id exists, intact or not."""
        return generation in self._ids()

    def before(self, generation: str | None) -> str:
        """Return the generation that was published before the given one; the newest if the given one is unknown.

        Raises:
            UsageError: no earlier generation exists.
        """
        ids = [kept.manifest.id for kept in self.kept()]
        older = ids[: ids.index(generation)] if generation in ids else ids
        if not older:
            raise UsageError("there is no older generation", hint="list the generations: retrieve inspect history")
        return older[-1]

    @contextmanager
    def reading(self, generation: str | None = None) -> Iterator[None]:
        """Convert unexpected errors inside the context into IndexCorrupt if a file of the generation is damaged.

        Raises:
            IndexCorrupt: instead of such an error, with the damaged file. If all files are intact the error is kept.
        """
        try:
            yield
        except RetrieveError:
            raise
        except Exception as error:
            _, damage = self.verify(generation)
            if not damage:
                raise
            raise IndexCorrupt(next(iter(damage.values())), hint="build the index again: retrieve build") from error

    def _current(self) -> str:
        name = self.current()
        if name is None:
            raise IndexMissing(f"there is no index in {self.path} yet", hint=_BUILD)
        return name

    def _manifest(self, name: str) -> Manifest:
        """Return the manifest of a generation. Raises: IndexCorrupt: it is missing, or of another one."""
        folder = self.generations / name
        if not folder.is_dir():
            message = f"{self.path}: the current index needs generation {name}, which does not exist"
            raise IndexCorrupt(message, hint=_BUILD)
        manifest = Manifest.read(folder / MANIFEST)
        if manifest.id != name:
            raise IndexCorrupt(f"{folder} contains generation {manifest.id}, not {name}", hint=_BUILD)
        return manifest

    def _manifests(self) -> dict[str, Manifest]:
        """Return the readable manifests by the id of their generation."""
        manifests = {}
        for name in self._ids():
            with suppress(IndexCorrupt):
                manifests[name] = self._manifest(name)
        return manifests

    def _matching(self, prefix: str) -> str:
        names = [name for name in self._ids() if name.startswith(prefix)]
        if len(names) != 1:
            what = "no generation" if not names else f"more than one generation ({', '.join(names)})"
            message = f"there is {what} {quoted(prefix)} in {self.path}"
            raise UsageError(message, hint="list them: retrieve inspect history")
        return names[0]

    def _ids(self) -> list[str]:
        """Return the ids of complete generations, intact or not."""
        if not self.generations.is_dir():
            return []
        folders = (folder for folder in self.generations.iterdir() if _ID.fullmatch(folder.name))
        return sorted(folder.name for folder in folders if (folder / MANIFEST).is_file())

    @contextmanager
    def writer(self, *, wait: float = 0.0, say: Callable[[str], None] = lambda _: None) -> Iterator[None]:
        """Lock the folder for one writer; readers are never blocked. The lock of a dead process is free.

        Raises:
            Locked: another process is still writing here after `wait` seconds.
            RetrieveError: the folder cannot be written.
        """
        with ExitStack() as stack:
            try:
                self.generations.mkdir(parents=True, exist_ok=True)
                stack.enter_context(lock.hold_for_writing(self.lock, wait=wait, say=say))
            except OSError as error:
                raise unwritable(self.path, error) from error
            for folder in self.generations.glob(_SCRATCH + "*"):  # of dead writers: this one holds the lock
                shutil.rmtree(folder, ignore_errors=True)
            for path in (self.path / "current", self.path / ENGINES, self.quarantine):
                durable.unfinished(path).unlink(missing_ok=True)
            yield

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """Yield a folder for writing a generation; it is removed unless it is published."""
        folder = self._scratch_name()
        try:
            folder.mkdir()  # with the permissions of the umask: other users may be allowed to read the index
        except OSError as error:
            raise unwritable(self.generations, error) from error
        try:
            yield folder
        except OSError as error:
            if error.errno not in SPACE:
                raise
            hint = f"{SPACE[error.errno or 0]} and run it again; the current index is unchanged"
            raise NoSpace(f"cannot write to {self.path}: {error.strerror}", hint=hint) from error
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def seal(
        self,
        scratch: Path,
        *,
        recipe: Recipe,
        sources: Sequence[SourceEntry],
        rows: Mapping[str, int],
        segments: Sequence[str] = (),
        own_sources: Sequence[tuple[str, int]] = (),
    ) -> Manifest:
        """Return the manifest of the files in `scratch`, after syncing them to disk.

        `rows` has the number of rows of files with rows; `segments` are the older generations whose rows come first;
        `own_sources` has the source and number of the own records, in order.
        """
        from concurrent.futures import ThreadPoolExecutor  # a disk settles several files at once

        def sealed(path: Path) -> FileEntry:
            durable.sync(path)
            return FileEntry(sha1_file(path), path.stat().st_size, rows.get(path.name))

        paths = sorted(scratch.iterdir())
        with ThreadPoolExecutor(8) as threads:
            files = dict(zip((path.name for path in paths), threads.map(sealed, paths), strict=True))
        return Manifest(
            recipe=recipe,
            sources=tuple(sources),
            files=files,
            segments=tuple(segments),
            own_sources=tuple(own_sources),
        )

    def publish(self, scratch: Path, manifest: Manifest, built: Mapping[str, object]) -> str:
        """Make sealed files the current generation, with the circumstances in `built`, and return its id."""
        # The number of a publication: later ones are higher, independent of the clock.
        sequence = 1 + max((kept.manifest.sequence for kept in self.kept()), default=0)
        manifest = replace(manifest, built={"at": lock.now(), "sequence": sequence, **built})
        if self._is_sound(manifest.id):
            self.note(manifest)
        else:
            _write(scratch / MANIFEST, manifest)
            self._place(scratch, manifest)
        self._point_at(manifest.id)
        return manifest.id

    def take_segments(self, folders: Sequence[tuple[Path, Manifest]]) -> None:
        """Move unpacked segments to their places, where no sound one is."""
        for folder, manifest in folders:
            if not self._is_sound(manifest.id):
                durable.sync(folder)
                self._place(folder, manifest)

    def _place(self, folder: Path, manifest: Manifest) -> None:
        """Give the complete folder of a generation its name; a damaged one moves aside, and nothing is deleted."""
        place = self.generations / manifest.id
        if place.exists():
            place.rename(place.with_name(f"{place.name}.damaged-{time.time_ns()}"))
        folder.rename(place)
        durable.sync(self.generations)

    def note(self, manifest: Manifest) -> None:
        """Rewrite the manifest of a generation with new circumstances; the part that decides the id stays the same."""
        _write(self.generations / manifest.id / MANIFEST, manifest)

    def roll_back(self, generation: str | None = None) -> str:
        """Make an older generation the current one, by default the previous one; return its id.

        Raises:
            UsageError: no older generation exists, or the named one is missing.
            IndexCorrupt: it is damaged; the current one stays.
        """
        name = self._matching(generation) if generation else self.before(self.live())
        manifest, damage = self.verify(name)
        if damage:
            hint = "choose another generation: retrieve inspect history"
            raise IndexCorrupt(f"generation {name} is damaged: {next(iter(damage.values()))}", hint=hint)
        self._point_at(manifest.id)
        return manifest.id

    def prune(self, keep: int) -> list[str]:
        """Remove generations that are neither among the last `keep`, nor current, nor needed by one of these for their
        segments, unless a reader holds their folder; return the ids of the removed ones."""
        kept = self.kept()
        staying = [*kept[-keep:], *(stored for stored in kept if stored.live)]
        needed = {name for stored in staying for name in (stored.manifest.id, *stored.manifest.segments)}
        removed = []
        for name in self._manifests().keys() - needed:
            folder = self.generations / name
            with lock.lock_exclusively(folder) as unused:
                if unused:
                    shutil.rmtree(folder.rename(self._scratch_name()), ignore_errors=True)
                    removed.append(name)
        return removed

    def write_quarantine(self, rejected: Sequence[Refused]) -> None:
        """Replace the list of items that the last build rejected."""
        text = "".join(json.dumps(asdict(item), ensure_ascii=False) + "\n" for item in rejected)
        with suppress(OSError):
            if self.quarantine.stat().st_size == len(text.encode()) and self.quarantine.read_text("utf-8") == text:
                return
        durable.replace(self.quarantine, text)

    def rejected(self) -> Iterator[Refused]:
        """Yield the items that the last build or attempt rejected; damaged lines of the list are skipped."""
        with suppress(OSError), open_regular(self.quarantine, limit=JUDGMENTS) as file:
            for line in lines(file):
                with suppress(msgspec.MsgspecError, RecursionError):
                    yield msgspec.json.decode(line, type=Refused)

    def _point_at(self, generation: str) -> None:
        durable.replace(self.path / "current", generation + "\n")

    def _is_sound(self, generation: str) -> bool:
        """Return True if a generation exists and every bit of it is intact."""
        try:
            return not faults(self.generations / generation, self._manifest(generation))
        except IndexCorrupt:
            return False

    def _scratch_name(self) -> Path:
        return self.generations / f"{_SCRATCH}{os.getpid()}-{time.time_ns()}"


def _write(path: Path, manifest: Manifest) -> None:
    durable.replace(path, json.dumps(manifest.to_json(), indent=1, sort_keys=True) + "\n")
