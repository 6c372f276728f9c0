"""Signed tokens of callers: JSON Web Tokens of one issuer, verified as RFC 8725 advises.

    token -> size -> algorithm and type in the header -> key by `kid` -> signature -> iss, aud, exp, nbf -> Caller

The header chooses among known keys and allowed algorithms only: `jku`, `x5u`, `jwk` and `x5c` are never read, and a
`kid` is only compared with the key set.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

from retrieve_cli.errors import Unavailable, UsageError, printable, shortened
from retrieve_cli.http.transport import check_secure_url
from retrieve_cli.server.auth.key_sets import FileOrigin, KeySet, UrlOrigin
from retrieve_cli.server.auth.scopes import Caller, RequestRate, claimed_scopes, read_rate

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


class Token(NamedTuple):
    """A valid credential."""

    caller: Caller
    account: str
    """Name of its limit of requests: of a signed token, a digest of issuer and subject."""
    rate: RequestRate | None


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
        self._rate = None if settings.rate is None else read_rate(settings.rate, where="jwt.rate")
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

    def verify(self, token: str) -> Token | None:
        """Return a token if it is valid, else None, for any defect."""
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
                    leeway=self._settings.leeway_s,
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

    def _read(self, claims: Mapping[str, Any]) -> Token | None:
        """Return the token of verified claims; None if a claim has a value of another type."""
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
        return Token(Caller(tenant, scopes, shortened(printable(subject)) or "token", account), account, self._rate)


def wanted(settings: JwtSettings) -> bool:
    """Return True if the configuration has an issuer of tokens, complete or not."""
    return any((settings.issuer, settings.audience, settings.jwks_url, settings.jwks_file, settings.secret_env))


def check(settings: JwtSettings) -> None:
    """Raises: UsageError if the settings do not fit together."""
    for key in ("issuer", "audience"):
        if not getattr(settings, key):
            raise UsageError(f"jwt.{key} is not set", hint=f"set it: retrieve config set jwt.{key} …")
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
        raise UsageError(message, hint=f"retrieve config set jwt.algorithms [{permitted[0]}]")
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
