"""Files of the inbox: documents that were sent as files, by the SHA-1 of their bytes.

    artifacts/inbox/files/<sha1>           a file that a document of the inbox names, or named
    artifacts/inbox/files/.<random>.part   a file that is being received; its writer holds a lock on it

A file is complete on the disk before it has its name, and has its name before a document names it.
It is removed once no document names it and no generation is kept that was built before that.
"""

from __future__ import annotations

import hashlib
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple

from retrieve_cli.contracts import HEAD, Json
from retrieve_cli.errors import IndexCorrupt, quoted
from retrieve_cli.storage import durable, lock
from retrieve_cli.untrusted.files import open_regular

FOLDER = "files"
_SHA1 = re.compile(r"[0-9a-f]{40}")
_PART = ".part"
_LONGEST_NAME = 1000


class StoredFile(NamedTuple):
    """The file of a document in the inbox, as its entry names it."""

    name: str
    """Name that its sender gave it, without folders."""
    sha1: str
    size: int

    def to_json(self) -> dict[str, Json]:
        return self._asdict()

    @classmethod
    def of(cls, value: Json) -> StoredFile | None:
        """Return the file that an entry names; None if it is damaged."""
        if not isinstance(value, dict):
            return None
        name, sha1, size = value.get("name"), value.get("sha1"), value.get("size")
        if not (isinstance(name, str) and 0 < len(name) <= _LONGEST_NAME and isinstance(sha1, str)):
            return None
        if not isinstance(size, int) or isinstance(size, bool) or size < 0:
            return None
        return cls(name, sha1, size) if _SHA1.fullmatch(sha1) else None


class Upload:
    """A file that is being received. `close` removes a file that was not kept; after a crash, the next tidying does."""

    def __init__(self, folder: Path, name: str) -> None:
        """Raises: OSError if the folder `inbox` cannot be written."""
        self._folder = folder / FOLDER
        self.name = name
        self.size = 0
        self.head = b""
        """The first bytes."""
        self._hash = hashlib.sha1(usedforsecurity=False)
        durable.make_folder(self._folder)
        descriptor = None
        while descriptor is None:  # or a tidying removes it
            self._path = self._folder / f".{os.urandom(12).hex()}{_PART}"
            descriptor = lock.take(self._path)
        self._descriptor = descriptor

    @property
    def stored(self) -> StoredFile:
        """The file as an entry names it, once it is complete."""
        return StoredFile(self.name, self._hash.hexdigest(), self.size)

    def write(self, piece: bytes) -> None:
        """Add bytes. Raises: OSError."""
        if len(self.head) < HEAD:
            self.head += piece[: HEAD - len(self.head)]
        self.size += len(piece)
        self._hash.update(piece)
        view = memoryview(piece)
        while view:
            view = view[os.write(self._descriptor, view) :]

    def settle(self) -> None:
        """Wait until its bytes are on the disk. Raises: OSError."""
        os.fsync(self._descriptor)

    def keep(self) -> None:
        """Give it its name, while this process alone may write to the inbox. Raises: OSError."""
        self._path.replace(self._folder / self.stored.sha1)
        durable.sync(self._folder)

    def close(self) -> None:
        """End it; if it was not kept, it is removed."""
        if self._descriptor >= 0:
            with suppress(OSError):
                self._path.unlink(missing_ok=True)
            os.close(self._descriptor)
            self._descriptor = -1


def path_of(inbox: Path, sha1: str) -> Path:
    """Return the place of a file in the folder of an inbox. Raises: ValueError: it is not a SHA-1."""
    if not _SHA1.fullmatch(sha1):
        raise ValueError(sha1)
    return inbox / FOLDER / sha1


def open_sound(place: Path, name: str = "") -> BinaryIO:
    """Return a file that was sent, open for reading; `name` is what its sender called it.

    Raises:
        IndexCorrupt: its bytes are not those that were sent.
        OSError: it cannot be read.
    """
    content = open_regular(place)
    if hashlib.file_digest(content, lambda: hashlib.sha1(usedforsecurity=False)).hexdigest() != place.name:
        content.close()
        sent = f" ({quoted(name)})" if name else ""
        raise IndexCorrupt(f"{place}{sent} differs from the sent file", hint="send the document again, or remove it")
    content.seek(0)
    return content


def expect_sound(place: Path, name: str = "") -> None:
    """Raises: IndexCorrupt, OSError: as `open_sound`."""
    open_sound(place, name).close()


def sent_files(inbox: Path) -> list[Path]:
    """Return the files of an inbox, in order."""
    folder = inbox / FOLDER
    return sorted(path for path in folder.iterdir() if _SHA1.fullmatch(path.name)) if folder.is_dir() else []


def remove_abandoned(inbox: Path) -> None:
    """Remove files that killed writers left: their locks are free. Raises: OSError."""
    for path in (inbox / FOLDER).glob(f".*{_PART}"):
        try:
            descriptor = lock.take(path)
        except OSError:
            continue
        if descriptor is not None:
            with os.fdopen(descriptor, "rb"):
                path.unlink(missing_ok=True)
