"""SHA-1 of files, remembered, so that a query does not read 90 MB of weights to know which weights they are."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from threading import get_ident
from typing import Any

from retrieve_cli.storage.manifest import sha1_file
from retrieve_cli.untrusted import files

_REMEMBERED = "digests.json"


class Digests:
    """SHA-1 of files, kept in the model cache under path, size and time of last change.

    A file that was touched is read again; a memory that cannot be written costs that reading and nothing else.
    """

    def __init__(self, cache_dir: Path) -> None:
        self._path = cache_dir / _REMEMBERED
        self._known: dict[str, Any] | None = None

    def sha1(self, path: Path) -> str:
        """SHA-1 of a file's bytes in hexadecimal."""
        mark = _mark(path)
        remembered = self._remembered().get(_key(path))
        if isinstance(remembered, list) and remembered[:2] == mark:
            return str(remembered[2])
        digest = sha1_file(path)
        self.remember(path, digest)
        return digest

    def remember(self, path: Path, digest: str) -> None:
        """Take over a digest that was computed while the file was written."""
        self._known = None
        known = self._remembered()
        known[_key(path)] = [*_mark(path), digest]
        with contextlib.suppress(OSError):
            _replace(self._path, json.dumps(known, indent=1, sort_keys=True))

    def _remembered(self) -> dict[str, Any]:
        if self._known is None:
            try:
                known = json.loads(files.read_bytes(self._path, limit=files.CONFIG))
            except (OSError, ValueError, RecursionError):
                known = {}
            self._known = known if isinstance(known, dict) else {}
        return self._known


def _replace(path: Path, text: str) -> None:
    """Write a small file so that a reader sees the old or the new one, never a half."""
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_name(f".{path.name}-{os.getpid()}-{get_ident()}")
    try:
        scratch.write_text(text, encoding="utf-8")
        scratch.replace(path)
    except OSError:
        scratch.unlink(missing_ok=True)
        raise


def _key(path: Path) -> str:
    return str(path.resolve())


def _mark(path: Path) -> list[int]:
    status = path.stat()
    return [status.st_size, status.st_mtime_ns]
