"""Files that a sync need not read again: their stamps are unchanged since they were read to the last byte and were
sound.

`cache/verified.json`, which may be lost. Only stamps that were settled before the reading began are kept (a file may be
written twice within one tick of a clock), and only if they are the same after it. The key includes the subject of the
verification, so that another configuration or another version of the program reads again.
"""

from __future__ import annotations

import json
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path

from retrieve_cli import __version__
from retrieve_cli.contracts import Json, Source
from retrieve_cli.errors import IndexCorrupt, IndexMissing
from retrieve_cli.storage import durable, sums
from retrieve_cli.storage.file_stamps import marks_of, settled
from retrieve_cli.storage.manifest import LISTING, Manifest, sha1
from retrieve_cli.storage.store import Store
from retrieve_cli.untrusted import files

Marks = list[list[int]] | None
"""None if they cannot be relied on."""
_SAME_MARKS = ("catalog",)
"""Kinds of sources whose stamp changes with every change of the files that they read."""


class UnchangedFiles:
    """The marks of the current generation and its sources when they were last verified, and their marks now."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._path = store.cache / "verified.json"
        self._known = _read(self._path)
        self._begun: dict[str, Marks] = {}

    def generation(self) -> bool:
        """Return True if no file of the current generation has changed since all of it was read."""
        try:
            folder, manifest, _ = self._store.open()
        except (IndexCorrupt, IndexMissing):
            return False
        return self._same(_key(manifest), self._marks(folder, manifest))

    def source(self, source: Source, digest: str, stamp: Sequence[int] | None) -> bool:
        """Return True if a source of that stamp was read to its end under it, and had that digest."""
        return self._same(_key_of(source, digest), _of_stamp(source, stamp))

    def save(self, manifest: Manifest, sources: Sequence[tuple[Source, str]]) -> None:
        """Note that the current generation and its sources, by their digests, were verified.

        Raises:
            OSError: it cannot be written.
        """
        now = {_key(manifest): self._marks(self._store.generations / manifest.id, manifest)}
        now |= {_key_of(source, digest): _of_stamp(source, source.stamp()) for source, digest in sources}
        found = {key: marks for key, marks in now.items() if marks is not None and self._begun.get(key) == marks}
        if found != self._known:
            self._store.cache.mkdir(exist_ok=True)
            durable.replace(self._path, json.dumps(found))

    def _same(self, key: str, marks: Marks) -> bool:
        self._begun[key] = marks
        return marks is not None and self._known.get(key) == marks

    @staticmethod
    def _marks(folder: Path, manifest: Manifest) -> Marks:
        """Return the marks of a generation's files and of their checksums."""
        try:
            found = [(folder / name).stat() for name in (*sorted(manifest.files), sums.FILE, LISTING)]
        except OSError:
            return None
        regular = all(
            stat.S_ISREG(status.st_mode) and settled(status.st_mtime_ns, status.st_ctime_ns) for status in found
        )
        return [list(marks_of(status)) for status in found] if regular else None


def _of_stamp(source: Source, stamp: Sequence[int] | None) -> Marks:
    if source.kind not in _SAME_MARKS or stamp is None or len(stamp) != 3:
        return None
    return [list(stamp)] if settled(*stamp[1:]) else None


def _key(manifest: Manifest) -> str:
    return sha1([__version__, "generation", manifest.id])


def _key_of(source: Source, digest: str) -> str:
    return sha1([__version__, "source", dict(source.origin), digest])


def _read(path: Path) -> Mapping[str, Json]:
    """Return the content of the file; nothing if it is damaged. Marks in it are only compared."""
    try:
        value = json.loads(files.read_text(path, limit=files.CONFIG))
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
