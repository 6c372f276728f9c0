"""The artifacts folder: generations, and the one-line `current` that names the current one.

    artifacts/current                     id of the current generation
    artifacts/generations/<id>/           immutable once named; manifest.json is written last
    artifacts/generations/.scratch-*/     a build in progress, or the rest of an interrupted one
    artifacts/cache/                      work of a build that was interrupted, see entries.py
    artifacts/sources/                    files fetched from remote sources
    artifacts/inbox.db                    documents that were added one at a time, and tasks of servers
    artifacts/inbox/files/                documents that were sent as files, see inbox_files.py
    artifacts/web.sqlite                  answers of web and literature providers, see websearch/cache.py
    artifacts/tasks/                      locks of servers, see tasks.py
    artifacts/runs/                       figures of evaluations, query by query
    artifacts/calibration.json            relevance of scores, see retrieval/calibration.py
    artifacts/quarantine.jsonl            items that the last build rejected
    artifacts/sent.txt                    generations that were sent to engines, see ingest/pushing.py
    artifacts/lock                        the active writer
    artifacts/synced                      time of the last attempt to sync, see ingest/schedule.py

A generation is written into a scratch folder, synced to disk, renamed to its id, and only then named in `current`,
which is replaced in one step. A crash at any moment leaves the current generation unchanged; nothing is edited in
place. A folder exists until no kept generation has its segment and no reader holds it. `generations.py` reads the
artifacts folder, this file writes it.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from retrieve_cli.contracts import Json, Refused
from retrieve_cli.errors import SPACE, IndexCorrupt, NoSpace, unwritable
from retrieve_cli.frozen import asdict, replace
from retrieve_cli.storage import durable, lock
from retrieve_cli.storage.generations import MANIFEST, SEGMENT, SENT, Generations
from retrieve_cli.storage.manifest import FileEntry, Manifest, SourceEntry, faults, sha1_file
from retrieve_cli.storage.recipe import Recipe
from retrieve_cli.untrusted.files import JUDGMENTS, lines, open_regular

_SCRATCH = ".scratch-"


class Store(Generations):
    """The artifacts folder at `path`, for reading and writing. The constructor creates nothing."""

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
            for path in (self.path / "current", self.path / SENT, self.quarantine):
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
        if manifest.id == self.live():
            built = {**built, **self._when(manifest.id)}
        # The number of a publication: later ones are higher, independent of the clock.
        sequence = 1 + max((kept.manifest.sequence for kept in self.kept()), default=0)
        manifest = replace(manifest, built={"at": lock.now(), "sequence": sequence, **built})
        folder = self.generations / manifest.id
        if self._sound(folder):
            self.note(manifest)
        else:
            _write(scratch / MANIFEST, manifest)
            if folder.exists():  # damaged: it makes place for its intact successor, and nothing is deleted
                folder.rename(folder.with_name(f"{folder.name}.damaged-{time.time_ns()}"))
            scratch.rename(folder)
            durable.sync(self.generations)
        self._point_at(manifest.id)
        return manifest.id

    def take_segments(self, folders: Sequence[tuple[Path, Manifest]]) -> None:
        """Move unpacked segments to their places, where no sound one is."""
        for folder, manifest in folders:
            place = self.generations / manifest.id
            (folder / MANIFEST).rename(folder / SEGMENT)
            durable.sync(folder)
            if not place.exists() or faults(place, manifest):
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
        """Remove generations older than the last `keep`, except the current one, and segments that none of the others
        needs, unless a reader holds their folder; return the ids of the removed generations.

        A generation whose segment is needed is no longer one to go back to: its manifest gets another name.
        """
        removed = []
        for kept in self.kept()[: -keep or None]:
            if not kept.live:
                folder = self.generations / kept.manifest.id
                (folder / MANIFEST).replace(folder / SEGMENT)
                removed.append(kept.manifest.id)
        needed = {segment for kept in self.kept() for segment in kept.manifest.segments}
        for folder in self._pruned():
            if folder.name not in needed:
                with lock.lock_exclusively(folder) as unused:
                    if unused:
                        shutil.rmtree(folder.rename(self._scratch_name()), ignore_errors=True)
        return removed

    def _pruned(self) -> list[Path]:
        """Return the folders of generations that are not kept."""
        return [path.parent for path in self.generations.glob(f"*/{SEGMENT}") if not (path.parent / MANIFEST).exists()]

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
                with suppress(ValueError, KeyError, TypeError, RecursionError):
                    item = json.loads(line)
                    yield Refused(str(item["source"]), int(item["line"]), str(item["reason"]), str(item["excerpt"]))

    def _point_at(self, generation: str) -> None:
        durable.replace(self.path / "current", generation + "\n")

    def _when(self, generation: str) -> dict[str, Json]:
        """Return time, number and changes of the publication of a generation."""
        try:
            built = Manifest.read(self.generations / generation / MANIFEST).built
        except IndexCorrupt:
            return {}
        return {key: built[key] for key in ("at", "sequence", "changes") if key in built}

    def _sound(self, folder: Path) -> bool:
        """Return True if a generation of that name exists and every bit of it is intact."""
        try:
            return not faults(*self._named(folder.name))
        except IndexCorrupt:
            return False

    def _scratch_name(self) -> Path:
        return self.generations / f"{_SCRATCH}{os.getpid()}-{time.time_ns()}"


def _write(path: Path, manifest: Manifest) -> None:
    durable.replace(path, json.dumps(manifest.to_json(), indent=1, sort_keys=True) + "\n")
