"""Files of the inbox: documents that were sent as files, by the SHA-1 of their bytes.

    artifacts/inbox/files/<sha1>           a file that a document of the inbox names
    artifacts/inbox/files/.<random>.part   a file that is being received

A file is complete on the disk before it has its name, and has its name before a document names it.
A day after the last document that names it, the next publication removes it: until then, the
current generation shows pages of it, and a snapshot that is being written has it.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Annotated, BinaryIO

import msgspec
from msgspec import Meta

from retrieve_cli.contracts import HEAD, Json
from retrieve_cli.errors import IndexCorrupt, quoted
from retrieve_cli.frozen import Frozen, asdict
from retrieve_cli.storage import durable
from retrieve_cli.storage.manifest import Count, Sha1
from retrieve_cli.untrusted.files import open_regular

FOLDER = "files"
_SHA1 = re.compile(r"[0-9a-f]{40}")
_PART = ".part"
_DAY_S = 86_400


class StoredFile(Frozen, forbid_unknown_fields=True):
    """The file of a document in the inbox, as its entry names it."""

    name: Annotated[str, Meta(min_length=1, max_length=1000)]
    """Name that its sender gave it, without folders."""
    sha1: Sha1
    size: Count

    def to_json(self) -> dict[str, Json]:
        return asdict(self)

    @classmethod
    def of(cls, value: Json) -> StoredFile | None:
        """Return the file that the metadata of a record describe; None if they describe none."""
        try:
            return msgspec.convert(value, cls)
        except msgspec.ValidationError:
            return None


class Upload:
    """A file that is being received. `close` removes a file that was not kept; after a crash, a later tidying does."""

    def __init__(self, folder: Path, name: str) -> None:
        """Raises: OSError if the folder `inbox` cannot be written."""
        self._folder = folder / FOLDER
        self.name = name
        self.size = 0
        self.head = b""
        """The first bytes."""
        self._hash = hashlib.sha1(usedforsecurity=False)
        durable.make_folder(self._folder)
        self._path = self._folder / f".{os.urandom(12).hex()}{_PART}"
        self._file = self._path.open("xb", buffering=0)

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
            view = view[self._file.write(view) :]

    def settle(self) -> None:
        """Wait until its bytes are on the disk. Raises: OSError."""
        os.fsync(self._file.fileno())

    def keep(self) -> None:
        """Give it its name, while this process alone may write to the inbox. Raises: OSError."""
        self._file.close()
        self._path.replace(self._folder / self.stored.sha1)
        durable.sync(self._folder)

    def close(self) -> None:
        """End it; if it was not kept, it is removed."""
        self._file.close()
        with suppress(OSError):
            self._path.unlink(missing_ok=True)


def path_of(inbox: Path, sha1: str) -> Path:
    """Return the place of a file in the folder of an inbox."""
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


def renew(inbox: Path, file: StoredFile) -> None:
    """Keep a file for another day: its document may not name it any more."""
    with suppress(OSError):
        os.utime(path_of(inbox, file.sha1))


def remove_unnamed(inbox: Path, named: Collection[str]) -> None:
    """Remove files that no document names, a day after they lost their document, or their sender ended.

    `named` has the SHA-1 of the others. Raises: OSError.
    """
    folder = inbox / FOLDER
    for path in folder.iterdir() if folder.is_dir() else ():
        with suppress(FileNotFoundError):  # an upload ends
            if path.name not in named and time.time() - path.stat().st_mtime > _DAY_S:
                path.unlink()
