"""Public keys of an issuer of tokens: a JSON Web Key Set (RFC 7517) by URL or in a file, and the last good one."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple

from retrieve_cli.errors import RetrieveError, SourceFailed, UsageError
from retrieve_cli.http.transport import fetch
from retrieve_cli.untrusted.files import read_bytes
from retrieve_cli.untrusted.foreign_json import foreign_json

_LIMIT = 256 << 10
"""Bytes of a key set."""
_MOST = 100
"""Keys of a set that are read."""
_LONGEST_KID = 256
_FETCH_S = 5.0
_PAUSE_S = 60.0
"""Least seconds between two attempts to fetch a key set."""
_AGE_S = 600.0
"""Seconds after which a key set is fetched again, so that a withdrawn key becomes invalid."""
_SMALLEST_RSA = 2048
_MEMBERS = ("kty", "n", "e", "crv", "x", "y")
"""Members of a public key; a private key published by mistake is not read."""
_ALGORITHMS: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("RSA", ""): ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    ("EC", "P-256"): ("ES256",),
    ("EC", "P-384"): ("ES384",),
    ("EC", "P-521"): ("ES512",),
    ("OKP", "Ed25519"): ("EdDSA",),
}
"""Algorithms by type of a key, and by curve if it has one."""


class PublicKey(NamedTuple):
    """A key that verifies signatures."""

    kid: str | None
    algorithms: frozenset[str]
    key: Any
    """As `cryptography` has it."""


class UrlOrigin:
    """A key set by URL: fetched again when it is old, and for an unknown key, at most once a minute."""

    def __init__(self, url: str, *, clock: Callable[[], float] = monotonic) -> None:
        self.place, self._clock = url, clock
        self._attempt: float | None = None

    def due(self, *, missing: bool) -> bool:
        """Return True if it should be read again; `missing` if a key is asked for that it lacked."""
        return self._attempt is None or self._clock() - self._attempt >= (_PAUSE_S if missing else _AGE_S)

    def read(self) -> bytes:
        """Return the key set as JSON. Raises: RetrieveError."""
        self._attempt = self._clock()
        return fetch(self.place, limit=_LIMIT, seconds=_FETCH_S)


class FileOrigin:
    """A key set in a file: read again when the file has changed."""

    def __init__(self, path: Path) -> None:
        self.place, self._path = str(path), path
        self._version: tuple[int, int, int] | None = None

    def due(self, *, missing: bool) -> bool:
        del missing
        return self._now() != self._version

    def read(self) -> bytes:
        self._version = self._now()
        try:
            return read_bytes(self._path, limit=_LIMIT)
        except OSError as error:
            raise SourceFailed(f"cannot read {self._path}: {error.strerror}", hint="check jwt.jwks_file") from error

    def _now(self) -> tuple[int, int, int] | None:
        try:
            status = os.stat(self._path)  # noqa: PTH116  for every request
        except OSError:
            return None
        return status.st_mtime_ns, status.st_ino, status.st_size


class KeySet:
    """The keys of an issuer. The last good set stays valid while a newer one cannot be read."""

    def __init__(self, origin: UrlOrigin | FileOrigin, *, say: Callable[[str], None] = lambda _: None) -> None:
        """Read nothing yet. The callback receives a sentence if the set cannot be read."""
        self._origin, self._say = origin, say
        self._keys: tuple[PublicKey, ...] = ()

    def due(self, kid: str | None) -> bool:
        """Return True if the set should be read again before a token of this key is verified."""
        return self._origin.due(missing=not self._keys or (kid is not None and not self.knows(kid)))

    def knows(self, kid: str | None) -> bool:
        """Return True if the set has a key of this id, or any if there is no id."""
        return any(kid is None or key.kid == kid for key in self._keys)

    def load(self) -> None:
        """Read the set. Raises: RetrieveError if it cannot be read, or is not a key set."""
        content = self._origin.read()
        try:
            self._keys = read_key_set(content)
        except UsageError as error:
            raise UsageError(f"{self._origin.place}: {error.message}", hint=error.hint) from error

    def reload(self) -> None:
        """Read the set again; if that fails, keep the last one."""
        try:
            self.load()
        except RetrieveError as error:
            self._say(f"the public keys of the issuer were not read: {error.message} ({error.hint})")

    def candidates(self, kid: str | None, algorithm: str) -> Sequence[PublicKey]:
        """Return the keys that may have signed a token; a token without an id of its key fits an only key."""
        fitting = [key for key in self._keys if algorithm in key.algorithms and kid in (None, key.kid)]
        return fitting if kid is not None or len(fitting) == 1 else ()


def read_key_set(content: bytes) -> tuple[PublicKey, ...]:
    """Return the public keys for signatures of a JSON Web Key Set; other and damaged entries are skipped.

    Raises:
        UsageError: it is not a key set, or has no key for signatures.
    """
    try:
        entries = foreign_json(content)["keys"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise UsageError("it is not a JSON Web Key Set", hint='it begins with {"keys": [') from error
    read = [_public_key(entry) for entry in entries[:_MOST]] if isinstance(entries, list) else []
    keys = tuple(key for key in read if key is not None)
    if not keys:
        raise UsageError("the key set has no public key for signatures", hint="RSA of 2048 bits, EC or Ed25519")
    return keys


def _public_key(entry: object) -> PublicKey | None:
    """Return a key of a set; None if it is not for signatures, symmetric, too short or damaged."""
    from jwt import PyJWK, PyJWTError

    if not isinstance(entry, dict) or entry.get("use", "sig") != "sig":
        return None
    operations = entry.get("key_ops", ["verify"])
    kid, kind, curve = entry.get("kid"), entry.get("kty"), entry.get("crv", "")
    if not isinstance(operations, list) or "verify" not in operations:
        return None
    if kid is not None and not (isinstance(kid, str) and len(kid) <= _LONGEST_KID):
        return None
    algorithms = _ALGORITHMS.get((kind, curve)) if isinstance(kind, str) and isinstance(curve, str) else None
    named = entry.get("alg")
    if algorithms is None or (named is not None and named not in algorithms):
        return None
    try:
        key = PyJWK({name: entry[name] for name in _MEMBERS if name in entry}, algorithms[0]).key
    except (PyJWTError, ValueError, TypeError, OverflowError):
        return None
    if getattr(key, "key_size", _SMALLEST_RSA) < (_SMALLEST_RSA if kind == "RSA" else 0):
        return None
    return PublicKey(kid, frozenset(algorithms if named is None else (named,)), key)
