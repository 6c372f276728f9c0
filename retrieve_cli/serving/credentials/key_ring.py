"""The keys of a running server: those of the file as it is now."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from hmac import compare_digest

from retrieve_cli.errors import RetrieveError
from retrieve_cli.serving.credentials.keys import Key, KeyFile, digest, is_key

_Version = tuple[int, int, int, int]


class KeyRing:
    """Keys by digest. A server that once had keys never answers without one, whatever happens to the file."""

    def __init__(self, file: KeyFile, *, say: Callable[[str], None] = lambda _: None) -> None:
        """Read the keys. `say` receives a sentence if the file cannot be read later on: then no key is valid.

        Raises:
            RetrieveError: the file cannot be read, or is damaged.
        """
        self._file = file
        self._say = say
        self._version = self._now()
        self._keys: Mapping[str, Key] = {key.sha256: key for key in file.stored()}
        self.required = bool(self._keys)

    @property
    def confined(self) -> bool:
        """True if a key has a tenant."""
        return any(key.tenant is not None for key in self._keys.values())

    def stale(self) -> bool:
        """Return True if the file has changed since it was read."""
        return self._now() != self._version

    def reload(self) -> None:
        """Read the file again if it has changed."""
        version = self._now()
        if version == self._version:
            return
        try:
            keys = {key.sha256: key for key in self._file.stored()}
        except RetrieveError as error:
            self._say(f"no key is valid until this is fixed: {error.message} ({error.hint})")
            keys, self.required = {}, True
        self.required = self.required or bool(keys)
        self._keys, self._version = keys, version

    def find(self, text: str, now: datetime | None = None) -> Key | None:
        """Return the key of this text if it is valid; None for any other text."""
        if not is_key(text):
            return None
        sha256 = digest(text)
        key = self._keys.get(sha256)
        if key is None or not compare_digest(key.sha256, sha256):
            return None
        return key if key.state(now or datetime.now(UTC)) == "valid" else None

    def _now(self) -> _Version | None:
        try:
            status = os.stat(self._file.path)  # noqa: PTH116  for every request
        except OSError:
            return None
        return status.st_mtime_ns, status.st_ctime_ns, status.st_ino, status.st_size
