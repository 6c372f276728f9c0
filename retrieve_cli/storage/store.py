"""The artifacts folder: generations, and the one-line `current` that names the live one.

    artifacts/current                     the live generation's id
    artifacts/generations/<id>/           immutable once named; manifest.json is written last
    artifacts/generations/.scratch-*/     a build under way, or what a killed one left behind
    artifacts/cache/                      vectors by the SHA-1 of their text, see vector_cache.py
    artifacts/cache/lines/                where the lines of catalogs start, see sources/line_starts.py
    artifacts/sources/                    what was fetched from sources elsewhere
    artifacts/runs/                       figures of evaluations, query by query
    artifacts/calibration.json            what scores are worth, see evaluation/calibration.py
    artifacts/quarantine.jsonl            what the last build refused
    artifacts/lock                        who is writing
    artifacts/synced                      when a sync was last tried, see ingest/schedule.py

A generation is written into a scratch folder, synced to disk, renamed to its id, and only then named in `current`,
which is replaced in one step. A crash at any moment leaves the live generation as it was; nothing is edited in place.
Files that come out as they were may be hard links to those of the generation before: each is removed with its last one.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import stat
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from retrieve_cli.contracts import Json, Refused
from retrieve_cli.errors import IndexCorrupt, IndexMissing, RetrieveError, UsageError, quoted, unwritable
from retrieve_cli.frozen import dataclass
from retrieve_cli.storage import durable, lock, sums
from retrieve_cli.storage.manifest import FileEntry, Manifest, SourceEntry, faults, size_fault
from retrieve_cli.storage.recipe import Recipe
from retrieve_cli.untrusted.files import CONFIG, JUDGMENTS, lines, open_regular, read_text

if TYPE_CHECKING:
    from retrieve_cli.storage.mapped import Sums

MANIFEST = "manifest.json"
_BUILD = "build it: retrieve build --catalog FILE (or --docs-dir DIR)"
_SCRATCH = ".scratch-"
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_ID = re.compile(r"[0-9a-f]{12}")


@dataclass(frozen=True, slots=True)
class Kept:
    """A generation that is on the disk."""

    manifest: Manifest
    live: bool
    in_use: bool
    """Whether a reader holds it now."""
    bytes: int


class Store:
    """The artifacts folder at `path`. Making one touches nothing."""

    def __init__(self, path: Path) -> None:
        """Raises: UsageError where `path` is a file."""
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
            raise UsageError(f"{path} cannot hold artifacts: {error.strerror}", hint=hint) from error

    # ------------------------------------------------------------------------------------------- reading

    def current(self) -> str | None:
        """The live generation's id, None where nothing was built yet.

        Raises:
            IndexCorrupt: generations are there and `current` is lost or unreadable.
        """
        try:
            live = read_text(self.path / "current", limit=CONFIG, encoding="ascii").strip()
        except FileNotFoundError:
            others = self._ids()
            if others and not lock.holder(self.lock):  # a first build may die, or be, between its last two steps
                raise IndexCorrupt(
                    f"{self.path}/current is missing, though there are generations ({', '.join(others)})",
                    hint=f"build again: retrieve build; or name one: echo {others[-1]} > {self.path}/current",
                ) from None
            return None
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            raise IndexCorrupt(f"cannot read {self.path}/current: {why}", hint=_BUILD) from error
        if not _ID.fullmatch(live):
            raise IndexCorrupt(f"{self.path}/current does not name a generation", hint=_BUILD)
        return live

    def live(self) -> str | None:
        """The id that `current` names, whether or not it can be served; None where it names none."""
        try:
            live = read_text(self.path / "current", limit=CONFIG, encoding="ascii").strip()
        except (OSError, UnicodeDecodeError):
            return None
        return live if _ID.fullmatch(live) else None

    def open(self, generation: str | None = None) -> tuple[Path, Manifest, lock.Hold | None]:
        """The folder and manifest of the live generation or the one named, every file there in its full size.

        The hold keeps the generation from being removed; a publication meanwhile is no trouble to its holder.

        Raises:
            IndexMissing: nothing was built here yet.
            IndexCorrupt: the generation is gone, incomplete, damaged, or from another schema.
            UsageError: there is no generation of the name given.
        """
        while True:
            name = self._known(generation) if generation else self._live()
            hold = lock.share(self.generations / name)
            try:
                folder, manifest = self._checked(name)
            except IndexCorrupt:
                # Between reading `current` and taking hold, writers may have gone on and removed what it named.
                if generation or self.live() == name:
                    raise
                continue
            if hold is not None:
                return folder, manifest, hold
            time.sleep(0.001)  # somebody asks just now whether it is in use, or is about to remove it

    def verify(self, generation: str | None = None) -> tuple[Manifest, dict[str, str]]:
        """Reads every byte of a generation, the live one by default; its faults by file name, empty where sound.

        Raises:
            IndexMissing, IndexCorrupt: there is no manifest to hold the files to.
        """
        while True:
            name = generation or self._live()
            hold = lock.share(self.generations / name)
            try:
                folder, manifest = self._named(name)
                found = faults(folder, manifest)
            except IndexCorrupt:
                if generation or self.live() == name:
                    raise
                continue
            if found and not generation and self.live() != name:
                continue  # it was removed while it was read
            del hold
            return manifest, found

    def kept(self) -> list[Kept]:
        """The generations on the disk whose manifest can be read, in the order of their publication."""
        live = self.live()
        found = []
        for name in self._ids():
            try:
                folder, manifest = self._named(name)
                size = sum(path.stat().st_size for path in folder.iterdir())
                found.append(Kept(manifest, name == live, lock.in_use(folder), size))
            except (IndexCorrupt, OSError):
                continue
        return sorted(found, key=lambda kept: (kept.manifest.sequence, kept.manifest.id))

    def has(self, generation: object) -> bool:
        """Return True if a complete generation of this id is on the disk, sound or not."""
        return generation in self._ids()

    def before(self, generation: str | None) -> str:
        """The generation that was published before the one given; before none of them, the newest.

        Raises:
            UsageError: there is none.
        """
        ids = [kept.manifest.id for kept in self.kept()]
        older = ids[: ids.index(generation)] if generation in ids else ids
        if not older:
            raise UsageError("there is no older generation", hint="list what there is: retrieve inspect history")
        return older[-1]

    @contextmanager
    def reading(self, generation: str | None = None) -> Iterator[None]:
        """An error that nobody foresaw while reading is the generation's fault where one of its files is damaged.

        Raises:
            IndexCorrupt: in place of such an error, naming the file. Where all files are sound the error goes on.
        """
        try:
            yield
        except RetrieveError:
            raise
        except Exception as error:
            _, found = self.verify(generation)
            if not found:
                raise
            hint = "build the index again: retrieve build"
            raise IndexCorrupt(next(iter(found.values())), hint=hint) from error

    def _live(self) -> str:
        live = self.current()
        if live is None:
            raise IndexMissing(f"there is no index in {self.path} yet", hint=_BUILD)
        return live

    def _checked(self, name: str) -> tuple[Path, Manifest]:
        """A generation's folder and manifest, every file there in its full size."""
        folder, manifest = self._named(name)
        for file, entry in manifest.files.items():
            fault = size_fault(folder / file, entry)
            if fault:
                raise IndexCorrupt(fault, hint="see what else is damaged: retrieve inspect verify; then retrieve build")
        return folder, manifest

    def _named(self, name: str) -> tuple[Path, Manifest]:
        """A generation's folder and manifest, which is of that name."""
        folder = self.generations / name
        if not folder.is_dir():
            raise IndexCorrupt(f"{self.path}/current names generation {name}, which is not there", hint=_BUILD)
        manifest = Manifest.read(folder / MANIFEST)
        if manifest.id != name:
            raise IndexCorrupt(f"{folder} holds generation {manifest.id}, not {name}", hint=_BUILD)
        return folder, manifest

    def _known(self, generation: str) -> str:
        """The one generation whose id begins with what was given."""
        ids = self._ids()
        found = [name for name in ids if name.startswith(generation)]
        if len(found) != 1:
            what = "no generation" if not found else f"more than one generation ({', '.join(found)})"
            hint = "list them: retrieve inspect history"
            raise UsageError(f"there is {what} {quoted(generation)} in {self.path}", hint=hint)
        return found[0]

    def _ids(self) -> list[str]:
        """Complete generations, sound or not."""
        if not self.generations.is_dir():
            return []
        found = (folder for folder in self.generations.iterdir() if _ID.fullmatch(folder.name))
        return sorted(folder.name for folder in found if (folder / MANIFEST).is_file())

    # ------------------------------------------------------------------------------------------- writing

    @contextmanager
    def writer(self, *, wait: float = 0.0, say: Callable[[str], None] = lambda _: None) -> Iterator[None]:
        """Holds the folder for one writer; readers are never blocked. A dead holder's lock is free.

        Raises:
            Locked: another process still writes here after `wait` seconds.
            RetrieveError: the folder cannot be written.
        """
        with ExitStack() as stack:
            try:
                self.generations.mkdir(parents=True, exist_ok=True)
                stack.enter_context(lock.writing(self.lock, wait=wait, say=say))
            except OSError as error:
                raise unwritable(self.path, error) from error
            self._sweep()
            yield

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """A folder to write a generation into; whatever is not published is removed."""
        folder = self._scratch_name()
        try:
            folder.mkdir()  # with the rights that the umask gives: who may read the index need not be who built it
        except OSError as error:
            raise unwritable(self.generations, error) from error
        try:
            yield folder
        except OSError as error:
            if error.errno not in _NO_ROOM:
                raise
            hint = "make room there and run it again; the live index is as it was"
            raise RetrieveError(f"cannot write to {self.path}: {error.strerror}", hint=hint) from error
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def seal(
        self,
        scratch: Path,
        *,
        recipe: Recipe,
        sources: Sequence[SourceEntry],
        rows: Mapping[str, int],
        linked: Mapping[str, tuple[FileEntry, Sums]] = MappingProxyType({}),
    ) -> Manifest:
        """The manifest of the files in `scratch`, which are on the disk then, their sums beside them.

        `rows` counts those that have rows. Files in `linked` are those of a generation that is sound: what these are is
        known, and they are not read again.
        """
        names = sorted(path.name for path in scratch.iterdir())
        for name in names:
            durable.sync(scratch / name)
        files, found = {}, {}
        for name in names:
            if name in linked:
                files[name], found[name] = linked[name]
                continue
            digest, found[name] = sums.digest_and_sums(scratch / name)
            files[name] = FileEntry(digest, (scratch / name).stat().st_size, rows.get(name))
        sums.keep(scratch, found)
        return Manifest(recipe=recipe, sources=tuple(sources), files=files)

    def publish(self, scratch: Path, manifest: Manifest, built: Mapping[str, object]) -> str:
        """Makes sealed files the live generation, with the circumstances in `built`, and returns its id."""
        if manifest.id == self.live():
            built = {**built, **self._when(manifest.id)}
        manifest = replace(manifest, built={"at": _now(), "sequence": self._next(), **built})
        folder = self.generations / manifest.id
        if self._sound(folder):
            self.keep_sums(manifest)
            self.note(manifest)
        else:
            _write(scratch / MANIFEST, manifest)
            self._set_aside(folder)
            scratch.rename(folder)
            durable.sync(self.generations)
        self._point_at(manifest.id)
        return manifest.id

    def note(self, manifest: Manifest) -> None:
        """Writes anew what a generation's manifest says of the circumstances; what decides its id stays the same."""
        _write(self.generations / manifest.id / MANIFEST, manifest)

    def has_sums(self, manifest: Manifest) -> bool:
        """Whether a generation that is sound to the last byte has sums by which a query notices damage."""
        return sums.fit(self.generations / manifest.id, manifest.files)

    def keep_sums(self, manifest: Manifest) -> None:
        """Writes the sums of a generation that is sound to the last byte, where they are absent or damaged, and its
        manifest, which an earlier version wrote perhaps, with what guards the circumstances."""
        if not self.has_sums(manifest):
            sums.write(self.generations / manifest.id, manifest.files)
            self.note(manifest)

    def roll_back(self, generation: str | None = None) -> str:
        """Makes an older generation live, the one published before the live one by default; returns its id.

        Raises:
            UsageError: there is none, or none of that name.
            IndexCorrupt: it is damaged; the live one stays.
        """
        name = self._known(generation) if generation else self.before(self.live())
        manifest, found = self.verify(name)
        if found:
            hint = "choose another one: retrieve inspect history"
            raise IndexCorrupt(f"generation {name} is damaged: {next(iter(found.values()))}", hint=hint)
        self._point_at(manifest.id)
        return manifest.id

    def prune(self, keep: int) -> list[str]:
        """Removes what was published longer ago than the last `keep` generations, except the live one and those that
        a reader holds; returns their ids."""
        removed = []
        for kept in self.kept()[: -keep or None]:
            folder = self.generations / kept.manifest.id
            with lock.alone(folder) as mine:
                if mine and not kept.live:
                    going = folder.rename(self._scratch_name())
                    shutil.rmtree(going, ignore_errors=True)
                    removed.append(kept.manifest.id)
        return removed

    def write_quarantine(self, refused: Sequence[Refused]) -> None:
        """Replaces the list of what the last build refused."""
        lines = (json.dumps(asdict(item), ensure_ascii=False) + "\n" for item in refused)
        durable.replace(self.quarantine, "".join(lines))

    def quarantined(self) -> int:
        """How many refused items are listed, by what was built or tried last."""
        try:
            with open_regular(self.quarantine, limit=JUDGMENTS) as file:
                return sum(1 for _ in lines(file))
        except OSError:
            return 0

    def _point_at(self, generation: str) -> None:
        durable.replace(self.path / "current", generation + "\n")

    def _next(self) -> int:
        """The number of the publication that comes: later ones are higher, whatever the clock says."""
        return 1 + max((kept.manifest.sequence for kept in self.kept()), default=0)

    def _when(self, generation: str) -> dict[str, Json]:
        """When and as which publication a generation became what it is."""
        try:
            built = Manifest.read(self.generations / generation / MANIFEST).built
        except IndexCorrupt:
            return {}
        return {key: built[key] for key in ("at", "sequence", "changes") if key in built}

    def _sound(self, folder: Path) -> bool:
        """Whether a generation of that name is there already, whole to the last bit."""
        try:
            return not faults(*self._named(folder.name))
        except IndexCorrupt:
            return False

    def _set_aside(self, folder: Path) -> None:
        """Moves a damaged generation out of the way of its sound successor; nothing is deleted."""
        if folder.exists():
            folder.rename(folder.with_name(f"{folder.name}.damaged-{time.time_ns()}"))

    def _scratch_name(self) -> Path:
        return self.generations / f"{_SCRATCH}{os.getpid()}-{time.time_ns()}"

    def _sweep(self) -> None:
        """Removes scratch folders of writers that died; only the holder of the lock may."""
        for folder in self.generations.glob(_SCRATCH + "*"):
            shutil.rmtree(folder, ignore_errors=True)


def _write(path: Path, manifest: Manifest) -> None:
    durable.replace(path, json.dumps(manifest.to_json(), indent=1, sort_keys=True) + "\n")


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
