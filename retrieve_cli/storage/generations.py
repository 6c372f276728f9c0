"""The artifacts folder, for reading: the current generation, the others, and their faults. See `store.py`."""

from __future__ import annotations

import re
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from retrieve_cli.errors import IndexCorrupt, IndexMissing, RetrieveError, UsageError, quoted
from retrieve_cli.frozen import Frozen
from retrieve_cli.storage import lock
from retrieve_cli.storage.manifest import Manifest, faults, size_fault
from retrieve_cli.storage.segment import is_elsewhere
from retrieve_cli.untrusted.files import CONFIG, read_text

MANIFEST = "manifest.json"
SEGMENT = "segment.json"
"""Name of the manifest of a generation that is only kept for its segment."""
SENT = "sent.txt"
"""File that lists the generations sent to engines."""
_BUILD = "build it: retrieve build --catalog FILE (or --docs-dir DIR)"
_ID = re.compile(r"[0-9a-f]{12}")


class StoredGeneration(Frozen):
    """A generation on disk."""

    manifest: Manifest
    live: bool
    """True for the current generation."""
    in_use: bool
    """True if a reader holds it."""
    bytes: int


class OpenFolders(NamedTuple):
    """The folders of a generation, protected from removal."""

    manifest: Manifest
    folders: Sequence[tuple[Path, Manifest]]
    """The folders of its older segments in order, then its own, each with its manifest."""
    holds: Sequence[lock.Hold]


class Generations:
    """The artifacts folder at `path`, for reading. The constructor creates nothing."""

    def __init__(self, path: Path) -> None:
        """Raises: UsageError: `path` is a file."""
        self.path = path
        self.generations = path / "generations"
        self.quarantine = path / "quarantine.jsonl"
        self.cache = path / "cache"
        self.fetched = path / "sources"
        self.inbox = path / "inbox"
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
        while True:
            name = self._matching(generation) if generation else self._current()
            try:
                opened = self._held(name)
                for folder, manifest in opened.folders:
                    for file, entry in manifest.files.items():
                        if not is_elsewhere(folder / file) and (fault := size_fault(folder / file, entry)):
                            hint = "list all damaged files: retrieve inspect verify; then retrieve build"
                            raise IndexCorrupt(fault, hint=hint)
            except IndexCorrupt:
                # A writer may have published, and removed this generation, before the holds were taken.
                if generation or self.live() == name:
                    raise
                continue
            if len(opened.holds) == len(opened.folders):
                return opened
            time.sleep(0.001)  # another process is checking whether one is in use, or is about to remove it

    def _held(self, name: str) -> OpenFolders:
        """Return the folders of a generation, with a hold on each that can be held. Raises: IndexCorrupt."""
        own = lock.share(self.generations / name)
        folder, manifest = self._named(name)
        older = [(self.generations / segment, segment) for segment in manifest.segments]
        holds = [hold for path, _ in older if (hold := lock.share(path)) is not None]
        folders = [(path, self._segment(path, segment)) for path, segment in older]
        return OpenFolders(manifest, [*folders, (folder, manifest)], [*holds, *([own] if own else [])])

    def verify(self, generation: str | None = None) -> tuple[Manifest, dict[str, str]]:
        """Read every byte of a generation, by default the current one; return its manifest and its faults by file;
        the names of files of older segments begin with their generation.

        Raises:
            IndexMissing, IndexCorrupt: there is no manifest to check the files against.
        """
        while True:
            name = generation or self._current()
            try:
                opened = self._held(name)
                damage: dict[str, str] = {}
                for folder, manifest in opened.folders:
                    start = "" if manifest.id == name else f"{manifest.id}/"
                    damage |= {f"{start}{file}": fault for file, fault in faults(folder, manifest).items()}
            except IndexCorrupt:
                if generation or self.live() == name:
                    raise
                continue
            if damage and not generation and self.live() != name:
                continue  # the generation was removed while it was read
            return opened.manifest, damage

    def kept(self) -> list[StoredGeneration]:
        """Return the generations with a readable manifest, in the order of their publication."""
        current = self.live()
        readable = []
        for name in self._ids():
            try:
                folder, manifest = self._named(name)
                for older in manifest.segments:
                    self._segment(self.generations / older, older)
                size = sum(path.stat().st_size for path in folder.iterdir())
                readable.append(StoredGeneration(manifest, name == current, lock.in_use(folder), size))
            except (IndexCorrupt, OSError):
                continue
        return sorted(readable, key=lambda kept: (kept.manifest.sequence, kept.manifest.id))

    def has(self, generation: object) -> bool:
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

    def _named(self, name: str) -> tuple[Path, Manifest]:
        """Return a generation's folder and manifest, after checking that the manifest has that id."""
        folder = self.generations / name
        if not folder.is_dir():
            raise IndexCorrupt(f"{self.path}/current names generation {name}, which does not exist", hint=_BUILD)
        manifest = Manifest.read(folder / MANIFEST)
        if manifest.id != name:
            raise IndexCorrupt(f"{folder} contains generation {manifest.id}, not {name}", hint=_BUILD)
        return folder, manifest

    @staticmethod
    def _segment(folder: Path, name: str) -> Manifest:
        """Return the manifest of a segment, whether its generation is kept or not. Raises: IndexCorrupt."""
        for file in (MANIFEST, SEGMENT, MANIFEST):  # a pruning may rename it meanwhile
            try:
                manifest = Manifest.read(folder / file)
            except IndexCorrupt:
                if (folder / file).exists():
                    raise
                continue
            if manifest.id != name:
                raise IndexCorrupt(f"{folder} contains generation {manifest.id}, not {name}", hint=_BUILD)
            return manifest
        raise IndexCorrupt(f"the segment {folder} is missing", hint=_BUILD)

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
