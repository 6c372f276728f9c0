"""Callers of the server: their credentials, scopes and limits of requests.

Authorization: Bearer … or X-API-Key: … -> the server's own key, a key of the file, or a signed token -> limit -> scope
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from hmac import compare_digest
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from retrieve_cli.errors import UsageError, quoted
from retrieve_cli.http.fetching import is_loopback
from retrieve_cli.http.secrets import Secret
from retrieve_cli.server.auth.keys import KeyFile, KeyRing
from retrieve_cli.server.auth.rates import Buckets, RequestRate
from retrieve_cli.server.auth.scopes import ANYONE, SCOPES, Caller
from retrieve_cli.server.auth.web_tokens import TokenVerifier, wanted
from retrieve_cli.server.http.answers import OPENAI
from retrieve_cli.server.http.observing import observed
from retrieve_cli.server.http.requests import RejectedRequest

if TYPE_CHECKING:
    from starlette.datastructures import Headers
    from starlette.requests import Request

    from retrieve_cli.config.settings import Settings

__all__ = ["LIMIT", "SCOPES", "Caller", "Callers", "callers_of", "expect_safe"]
LIMIT = "retrieve.limit"
"""Key of an ASGI scope with the header fields that tell the caller its limit of requests."""
_CHALLENGE = 'Bearer realm="retrieve"'
_LONGEST = 8192
"""Characters of a credential."""


class _Credential(NamedTuple):
    """A valid credential."""

    caller: Caller
    account: str
    """Name of its limit."""
    rate: RequestRate | None


class Callers:
    """Credentials that a server accepts: its own key, keys of a file, and tokens of an issuer.

    `prepare` reads changed files and may wait for them; `of` decides in memory. Both run in the server's event loop.
    """

    def __init__(
        self,
        key: Secret | None = None,
        *,
        ring: KeyRing | None = None,
        tokens: TokenVerifier | None = None,
        buckets: Buckets | None = None,
    ) -> None:
        """Without a key, a ring that has keys, and tokens, anyone may do everything. `key` has all scopes."""
        self._key = key
        self._ring = ring
        self._tokens = tokens
        self._buckets = Buckets() if buckets is None else buckets
        self._reading: asyncio.Future[None] | None = None

    @property
    def required(self) -> bool:
        """True if a request without a credential is rejected."""
        return self._key is not None or self._tokens is not None or (self._ring is not None and self._ring.required)

    @property
    def confined(self) -> bool:
        """True if a credential may have a tenant."""
        return (self._tokens is not None and self._tokens.confined) or (self._ring is not None and self._ring.confined)

    async def prepare(self, headers: Headers) -> None:
        """Read new and revoked keys, and the issuer's public keys if a token needs others, before a request."""
        if self._ring is not None and self._ring.stale():
            await asyncio.to_thread(self._ring.reload)
        tokens, sent = self._tokens, _sent(headers)
        if tokens is None or len(sent) != 1 or not tokens.due(sent[0]):
            return
        if self._reading is None or self._reading.done():
            self._reading = asyncio.ensure_future(asyncio.to_thread(tokens.reload))
        if tokens.must_wait(sent[0]):
            await asyncio.shield(self._reading)

    def of(self, request: Request, scope: str) -> Caller:
        """Return the caller of a request that needs a scope.

        Raises:
            RejectedRequest: there is no valid credential (401), it lacks the scope (403), or asks too often (429).
        """
        if not self.required:
            return ANYONE
        sent = _sent(request.headers)
        if len(sent) > 1:
            raise _ambiguous()
        credential = self._credential(sent[0]) if sent else None
        if credential is None:
            raise _unauthorized(request)
        observed(request).caller = credential.caller.name
        self._count(request, credential)
        if not credential.caller.may(scope):
            challenge = f'{_CHALLENGE}, error="insufficient_scope", scope="{scope}"'
            hint = f"use a key that has it: retrieve keys create --scope {scope}"
            message = f"the credential does not have the scope {scope}"
            raise RejectedRequest(403, message, code="forbidden", hint=hint, headers={"WWW-Authenticate": challenge})
        return credential.caller

    def _credential(self, text: str) -> _Credential | None:
        """Return the credential of a text; None if it is not valid."""
        if len(text) > _LONGEST:
            return None
        if self._key is not None and compare_digest(text.encode(), self._key.reveal().encode()):
            return _Credential(Caller(None, frozenset(SCOPES), "key"), "", None)
        if self._ring is not None and (key := self._ring.find(text)) is not None:
            return _Credential(key.caller, key.id, key.rate)
        if self._tokens is not None and (token := self._tokens.verify(text)) is not None:
            return _Credential(*token)
        return None

    def _count(self, request: Request, credential: _Credential) -> None:
        """Count a request, once even if several scopes are asked for. Raises: RejectedRequest if there are too many."""
        if credential.rate is None or LIMIT in request.scope:
            return
        allowance = self._buckets.take(credential.account, credential.rate)
        request.scope[LIMIT] = allowance.headers
        if not allowance.allowed:
            message = f"too many requests: the credential has {allowance.quota} in {allowance.window} s here"
            hint = f"try again in {allowance.wait} s"
            raise RejectedRequest(429, message, code="rate_limited", hint=hint, headers=allowance.headers)


def callers_of(
    artifacts: Path,
    settings: Settings,
    *,
    key: Secret | None = None,
    workers: int = 1,
    say: Callable[[str], None] = lambda _: None,
) -> Callers:
    """Return the callers that an artifacts folder and a configuration name, and `key` if the server has one.

    `workers` processes share the limits. The callback receives messages for the operator while the server runs.

    Raises:
        RetrieveError: the keys cannot be read, or the configuration of tokens is incomplete.
    """
    settings.expect_trusted("jwt")
    tokens = TokenVerifier(settings.jwt, say=say) if wanted(settings.jwt) else None
    return Callers(key, ring=KeyRing(KeyFile(artifacts), say=say), tokens=tokens, buckets=Buckets(workers=workers))


def expect_safe(host: str, callers: Callers, *, insecure: bool) -> None:
    """Reject an address that other machines reach, if the server requires no credential and `insecure` is not set.

    Raises:
        UsageError: the address is not safe.
    """
    if insecure or callers.required or is_loopback(host):
        return
    hint = "create a key: retrieve keys create --scope search; or let anyone ask: --insecure"
    raise UsageError(f"other machines can reach {quoted(host)}, and the server requires no key", hint=hint)


def _sent(headers: Headers) -> list[str]:
    """Return the credentials of a request: there should be one."""
    texts = [_bearer(value) for value in headers.getlist("Authorization")] + headers.getlist("X-API-Key")
    return [text.strip() for text in texts if text is not None]


def _bearer(value: str) -> str | None:
    """Return the credential of an Authorization header; None if it has another scheme."""
    scheme, _, text = value.partition(" ")
    return text.strip() if scheme.lower() == "bearer" else None


def _ambiguous() -> RejectedRequest:
    """Return the answer to a request with several credentials (RFC 6750, 3.1)."""
    challenge = f'{_CHALLENGE}, error="invalid_request"'
    hint = "send one of Authorization: Bearer … and X-API-Key: …"
    message = "the request has more than one credential"
    return RejectedRequest(400, message, code="credentials", hint=hint, headers={"WWW-Authenticate": challenge})


def _unauthorized(request: Request) -> RejectedRequest:
    """Return the answer to a missing or wrong credential: the same for any defect."""
    headers = request.headers
    sent = "Authorization" in headers or "X-API-Key" in headers
    challenge = f'{_CHALLENGE}, error="invalid_token"' if sent else _CHALLENGE
    hint = "send it as Authorization: Bearer … or X-API-Key: …"
    message = "the API key or token is missing or wrong"
    code = "invalid_api_key" if request.url.path.startswith(OPENAI) else "unauthorized"
    return RejectedRequest(401, message, code=code, hint=hint, headers={"WWW-Authenticate": challenge})
