"""Keys of a server, as digests in a file of the artifacts folder that only its owner may read.

    artifacts/keys.json  {version, sha1, keys: [{id, sha256, name, scopes, tenant, created, expires, revoked}]}
    artifacts/keys.lock  the process that changes it

The file is replaced as a whole, so that a running server reads the old keys or the new ones. `sha1` is the digest of
all keys: nothing of a damaged file is trusted.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import string
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, date, datetime, timedelta
from hmac import compare_digest
from pathlib import Path
from typing import Any, NamedTuple

from retrieve_cli.contracts import Json
from retrieve_cli.errors import RetrieveError, UsageError, quoted, unwritable
from retrieve_cli.server.auth.scopes import SCOPES, Caller
from retrieve_cli.storage import durable, lock
from retrieve_cli.storage.beside import KEYS, damaged_keys, keys_file, read_keys

FILE = KEYS
_LOCK = "keys.lock"
_PRIVATE = 0o600
_WAIT_S = 10.0
_MOST = 2000
"""Keys of one file, which is read as a whole."""
_LONGEST = 200
"""Characters of the name of a key or a tenant."""


class Key(NamedTuple):
    """A stored key."""

    id: str
    sha256: str
    name: str
    scopes: tuple[str, ...]
    tenant: str | None
    created: datetime
    expires: datetime | None
    revoked: datetime | None

    @property
    def caller(self) -> Caller:
        return Caller(self.tenant, frozenset(self.scopes), self.name or self.id, self.id)

    def state(self, now: datetime) -> str:
        """Return `valid`, `expired` or `revoked`."""
        if self.revoked is not None:
            return "revoked"
        return "expired" if self.expires is not None and self.expires <= now else "valid"

    def shown(self, now: datetime) -> dict[str, Json]:
        """Return the key as `retrieve keys list --json` prints it: without its digest."""
        return {**{name: value for name, value in self.to_json().items() if name != "sha256"}, "state": self.state(now)}

    def to_json(self) -> dict[str, Json]:
        """Return the key as the file stores it."""
        named = {"created": self.created, "expires": self.expires, "revoked": self.revoked}
        times = {name: None if time is None else written(time) for name, time in named.items()}
        return {**self._asdict(), **times, "scopes": list(self.scopes)}

    @classmethod
    def from_json(cls, entry: Mapping[str, Any]) -> Key:
        """Read a stored key. Raises: KeyError, TypeError, ValueError or UsageError if it is damaged."""
        id_, sha256, name, tenant = (entry[key] for key in ("id", "sha256", "name", "tenant"))
        if not all(isinstance(text, str) for text in (id_, sha256, name, "" if tenant is None else tenant)):
            raise TypeError("a name is not a text")
        expires, revoked = (None if entry[key] is None else read_time(entry[key]) for key in ("expires", "revoked"))
        scopes = tuple(scope for scope in SCOPES if scope in entry["scopes"])
        return cls(id_, sha256, name, scopes, tenant, read_time(entry["created"]), expires, revoked)


class CreatedKey(NamedTuple):
    """A new key: its text, which is stored nowhere, and the stored key."""

    text: str
    key: Key


class KeyFile:
    """The file of keys in an artifacts folder."""

    def __init__(self, artifacts: Path) -> None:
        self.path = artifacts / FILE
        self._lock = artifacts / _LOCK

    def stored(self) -> list[Key]:
        """Return the keys, the oldest first.

        Raises:
            IndexCorrupt: the file is damaged.
            RetrieveError: it cannot be read.
        """
        entries = read_keys(self.path)
        try:
            return [Key.from_json(entry) for entry in entries]
        except (ValueError, KeyError, TypeError, UsageError) as error:
            raise damaged_keys(self.path) from error

    def create(
        self,
        scopes: Sequence[str],
        *,
        name: str = "",
        tenant: str | None = None,
        expires: datetime | None = None,
    ) -> CreatedKey:
        """Add a key, and return it with its text.

        Raises:
            UsageError: a name is empty, too long or not printable, or there are too many keys.
            Locked: another process changes the file.
            RetrieveError: the file cannot be read or written.
        """
        check_name(name or "key", "--name")
        if tenant is not None:
            check_name(tenant, "--tenant")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise unwritable(self.path.parent, error) from error
        with self._writing():
            keys = self.stored()
            if len(keys) >= _MOST:
                raise UsageError(f"{self.path} has {len(keys)} keys", hint="one key per service is enough")
            text, taken = new_key(), {key.id for key in keys}
            id_ = next(id_ for _ in range(_MOST) if (id_ := secrets.token_hex(4)) not in taken)
            key = Key(id_, digest(text), name, tuple(scopes), tenant, _now(), expires, None)
            self._write([*keys, key])
        return CreatedKey(text, key)

    def revoke(self, id_: str) -> Key:
        """Make a key invalid for good, and return it. A revoked key stays in the list.

        Raises:
            UsageError: there is no key of that id.
            Locked, RetrieveError: as `create` does.
        """
        if not self.stored():
            raise UsageError(f"there is no key {quoted(id_)}: {self.path.parent} has none")
        with self._writing():
            keys = self.stored()
            place = next((place for place, key in enumerate(keys) if key.id == id_), None)
            if place is None:
                raise UsageError(f"there is no key {quoted(id_)}", hint="list the ids: retrieve keys list")
            if keys[place].revoked is None:
                keys[place] = keys[place]._replace(revoked=_now())
                self._write(keys)
        return keys[place]

    @contextmanager
    def _writing(self) -> Iterator[None]:
        with ExitStack() as stack:
            try:
                stack.enter_context(lock.hold_for_writing(self._lock, wait=_WAIT_S, mode=_PRIVATE))
            except OSError as error:
                raise unwritable(self._lock, error) from error
            yield

    def _write(self, keys: Sequence[Key]) -> None:
        value = keys_file([key.to_json() for key in keys])
        try:
            durable.replace(self.path, json.dumps(value, indent=1, ensure_ascii=False) + "\n", mode=_PRIVATE)
        except OSError as error:
            raise unwritable(self.path, error) from error


def check_name(name: str, flag: str) -> None:
    """Check a name that is written to logs and compared letter by letter. Raises: UsageError."""
    if not name.strip() or not name.isprintable() or len(name) > _LONGEST:
        message = f"{flag} is {quoted(name)}; it takes 1 to {_LONGEST} printable characters"
        raise UsageError(message, hint=f"{flag} acme")


def _now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)


# -------------------------------------------------------------------------------------------------------- texts of keys


PREFIX = "rtv_"
"""Beginning by which secret scanners recognise a key: 256 random bits follow, and a checksum of both."""
_DIGITS = string.digits + string.ascii_uppercase + string.ascii_lowercase
_BITS = 256
_RANDOM, _CHECK = 43, 6
"""Digits in base 62 of 256 bits, and of the CRC-32."""
_LENGTH = len(PREFIX) + _RANDOM + _CHECK


def new_key() -> str:
    """Return a new random key."""
    body = PREFIX + _in_base_62(secrets.randbits(_BITS), _RANDOM)
    return body + _checksum(body)


def is_key(text: str) -> bool:
    """Return True if a text has the form of a key and its checksum is right: a mistyped key is not looked up."""
    if len(text) != _LENGTH or not text.startswith(PREFIX) or not text.isascii():
        return False
    return text[-_CHECK:] == _checksum(text[:-_CHECK])


def digest(key: str) -> str:
    """Return the SHA-256 of a key in hexadecimal. No salt and no slow hash: 256 random bits cannot be guessed."""
    return hashlib.sha256(key.encode()).hexdigest()


def _checksum(body: str) -> str:
    return _in_base_62(zlib.crc32(body.encode()), _CHECK)


def _in_base_62(number: int, length: int) -> str:
    base = len(_DIGITS)
    return "".join(_DIGITS[number // base**place % base] for place in reversed(range(length)))


# ----------------------------------------------------------------------------------------------------- ends of validity


_PERIOD = re.compile(r"([0-9]{1,6})([mhdwy])")
_UNITS = {"m": 60, "h": 3600, "d": 86400, "w": 7 * 86400, "y": 365 * 86400}


def read_end(text: str, now: datetime) -> datetime | None:
    """Return the time until which something is valid: `90d`, `2027-01-31` (the end of that day, UTC); None for `never`.

    Raises:
        UsageError: it is not written so, or not in the future.
    """
    word = text.strip().lower()
    if word == "never":
        return None
    try:
        if (match := _PERIOD.fullmatch(word)) is not None:
            end = now + timedelta(seconds=int(match[1]) * _UNITS[match[2]])
        else:
            day = date.fromisoformat(word)
            end = datetime(day.year, day.month, day.day, tzinfo=UTC) + timedelta(days=1)
    except (ValueError, OverflowError):
        hint = "90d, 12h, 2027-01-31 or never"
        raise UsageError(f"--expires is {quoted(text)}, not a period or a date", hint=hint) from None
    if end <= now:
        raise UsageError(f"--expires is {quoted(text)}, which is not in the future", hint="90d, 12h or never")
    return end


def written(time: datetime) -> str:
    """Return a time as ISO 8601 has it, in UTC."""
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def read_time(text: str) -> datetime:
    """Return a time that `written` wrote. Raises: ValueError."""
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)


class KeyRing:
    """Keys by digest. A server that once had keys never answers without one, even if the file is deleted or damaged."""

    def __init__(self, file: KeyFile, *, say: Callable[[str], None] = lambda _: None) -> None:
        """Read the keys. The callback receives a sentence if the file cannot be read later on: then no key is valid.

        Raises:
            RetrieveError: the file cannot be read, or is damaged.
        """
        self._file, self._say = file, say
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

    def _now(self) -> tuple[int, int, int, int] | None:
        try:
            status = os.stat(self._file.path)  # noqa: PTH116  for every request
        except OSError:
            return None
        return status.st_mtime_ns, status.st_ctime_ns, status.st_ino, status.st_size
