"""Signed tokens of callers: JSON Web Tokens of one issuer, verified as RFC 8725 advises.

    token -> size -> algorithm and type in the header -> key by `kid` -> signature -> iss, aud, exp, nbf -> Caller

The header chooses among known keys and allowed algorithms only: `jku`, `x5u`, `jwk` and `x5c` are never read, and a
`kid` is only compared with the key set.

Public keys of an issuer of tokens: a JSON Web Key Set (RFC 7517) by URL or in a file, and the last good one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

from retrieve_cli.errors import RetrieveError, SourceFailed, Unavailable, UsageError, printable, shortened
from retrieve_cli.http.transport import check_secure_url, fetch
from retrieve_cli.server.auth.scopes import Caller, claimed_scopes
from retrieve_cli.untrusted.files import read_bytes
from retrieve_cli.untrusted.foreign_json import foreign_json

if TYPE_CHECKING:
    from retrieve_cli.config.settings import JwtSettings


_LONGEST = 8192
"""Characters of a token."""
_LONGEST_TENANT = 200
_TYPES = ("jwt", "at+jwt", "application/at+jwt")
"""Types of tokens for access (RFC 7519, 5.1 and RFC 9068, 2.1): one of another kind by the same issuer is not one."""
SECRET_SIZES: Mapping[str, int] = {"HS256": 32, "HS384": 48, "HS512": 64}
"""Algorithms with a shared secret, and the least bytes that it has (RFC 7518, 3.2)."""
ASYMMETRIC = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Algorithms with a public key."""
_INSTALL = "pip install 'retrieve-cli[serve]'"

_LEEWAY_S = 30.0
"""Seconds by which clocks may differ."""


class TokenVerifier:
    """The verification of tokens of one issuer."""

    def __init__(self, settings: JwtSettings, *, say: Callable[[str], None] = lambda _: None) -> None:
        """Check the settings. A key set in a file is read now, one by URL before the first token.

        Raises:
            UsageError: the settings do not fit together, or the file is not a key set.
            Unavailable: pyjwt is not installed.
        """
        try:
            import cryptography  # noqa: F401
            import jwt  # noqa: F401
        except ImportError as error:
            raise Unavailable("tokens need pyjwt[crypto], which is not installed", hint=_INSTALL) from error
        check(settings)
        self._settings = settings
        self._secret = None if settings.secret_env is None else _secret(settings)
        self._keys: KeySet | None = None
        if settings.jwks_file is not None:
            self._keys = KeySet(FileOrigin(settings.jwks_file), say=say)
            self._keys.load()
        elif settings.jwks_url is not None:
            self._keys = KeySet(UrlOrigin(settings.jwks_url), say=say)

    @property
    def confined(self) -> bool:
        """True if every token has a tenant."""
        return self._settings.tenant_claim is not None

    def due(self, token: str) -> bool:
        """Return True if the key set should be read again before this token is verified."""
        header = self._header(token)
        return self._keys is not None and header is not None and self._keys.due(header.get("kid"))

    def must_wait(self, token: str) -> bool:
        """Return True if this token cannot be verified until then."""
        header = self._header(token)
        return self._keys is not None and header is not None and not self._keys.knows(header.get("kid"))

    def reload(self) -> None:
        """Read the key set again."""
        if self._keys is not None:
            self._keys.reload()

    def verify(self, token: str) -> Caller | None:
        """Return the caller of a token if it is valid, else None, for any defect."""
        import jwt

        if (header := self._header(token)) is None:
            return None
        keys: Sequence[Any] = [self._secret]
        if self._keys is not None:
            keys = [found.key for found in self._keys.candidates(header.get("kid"), header["alg"])]
        for key in keys:
            try:
                claims = jwt.decode(
                    token,
                    key,
                    algorithms=[str(header["alg"])],
                    audience=self._settings.audience,
                    issuer=self._settings.issuer,
                    leeway=_LEEWAY_S,
                    options={"require": ["exp", "iss", "aud"], "enforce_minimum_key_length": True},
                )
            except (jwt.PyJWTError, ValueError, TypeError, OverflowError, RecursionError):
                continue
            return self._read(claims)
        return None

    def _header(self, token: str) -> dict[str, Any] | None:
        """Return the header of a token whose form, algorithm and type are acceptable; its signature is not verified."""
        from jwt import PyJWTError, get_unverified_header

        if len(token) > _LONGEST or not token.isascii() or token.count(".") != 2:
            return None
        try:
            header = get_unverified_header(token)
        except (PyJWTError, ValueError, RecursionError):
            return None
        kind = header.get("typ", "JWT")
        fits = isinstance(kind, str) and kind.lower() in _TYPES and header.get("alg") in self._settings.algorithms
        return header if fits else None

    def _read(self, claims: Mapping[str, Any]) -> Caller | None:
        """Return the caller of verified claims; None if a claim has a value of another type."""
        times = [claims.get(name, 0) for name in ("exp", "nbf", "iat")]
        if not all(isinstance(time, int | float) and not isinstance(time, bool) for time in times):
            return None
        tenant = None
        if (name := self._settings.tenant_claim) is not None:
            tenant = claims.get(name)
            if not isinstance(tenant, str) or not tenant.strip() or not tenant.isprintable():
                return None
            if len(tenant) > _LONGEST_TENANT:
                return None
        subject = claims.get("sub", claims.get("client_id", ""))
        subject = subject if isinstance(subject, str) else ""
        scopes = claimed_scopes(claims.get(self._settings.scope_claim))
        account = sha256(f"{tenant or ''}\0{subject}".encode("utf-8", "replace")).hexdigest()
        return Caller(tenant, scopes, shortened(printable(subject)) or "token", account)


def wanted(settings: JwtSettings) -> bool:
    """Return True if the configuration has an issuer of tokens, complete or not."""
    return any((settings.issuer, settings.audience, settings.jwks_url, settings.jwks_file, settings.secret_env))


def check(settings: JwtSettings) -> None:
    """Raises: UsageError if the settings do not fit together."""
    for key in ("issuer", "audience"):
        if not getattr(settings, key):
            raise UsageError(f"jwt.{key} is not set", hint=f"set jwt.{key} in config.yaml")
    sources = [key for key in ("jwks_url", "jwks_file", "secret_env") if getattr(settings, key) is not None]
    if len(sources) != 1:
        given = " and ".join(f"jwt.{key}" for key in sources) or "none of them"
        hint = "set one of jwt.jwks_url, jwt.jwks_file and jwt.secret_env"
        raise UsageError(f"tokens are verified by one source of keys; the configuration has {given}", hint=hint)
    shared = settings.secret_env is not None
    permitted = tuple(SECRET_SIZES) if shared else ASYMMETRIC
    wrong = [name for name in settings.algorithms if name not in permitted]
    if wrong or not settings.algorithms:
        what = "a shared secret" if shared else "public keys"
        message = f"jwt.algorithms has {', '.join(wrong) or 'nothing'}; with {what} it takes {', '.join(permitted)}"
        raise UsageError(message, hint=f"set jwt.algorithms: [{permitted[0]}]")
    if settings.jwks_url is not None:
        check_secure_url(settings.jwks_url, called="jwt.jwks_url")


def _secret(settings: JwtSettings) -> bytes:
    """Return the shared secret. Raises: UsageError if it is not set, too short, or a key of another kind."""
    name = str(settings.secret_env)
    secret = os.environ.get(name, "").encode("utf-8", "surrogateescape")
    least = max(SECRET_SIZES[algorithm] for algorithm in settings.algorithms)
    if b"-----BEGIN" in secret or secret.lstrip().startswith((b"ssh-", b"ecdsa-", b'{"')):
        hint = "set jwt.jwks_file to a key set, and jwt.algorithms to [RS256]"
        raise UsageError(f"the environment variable {name} holds a public or private key, not a secret", hint=hint)
    if len(secret) < least:
        message = f"the environment variable {name} has {len(secret)} bytes; {settings.algorithms[0]} needs {least}"
        raise UsageError(message, hint=f"export {name}=$(openssl rand -base64 48)")
    return secret


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
