"""Callers of the server: their credentials, scopes and limits of requests.

Authorization: Bearer … or X-API-Key: … -> the server's own key, a key of the file, or a signed token -> limit -> scope

Names that a server answers to, and web pages that may use it: no page reaches it through a name that it chose.

A page of evil.example whose name is pointed at 127.0.0.1 (DNS rebinding) sends `Host: evil.example`, and a page that
posts a form to another server sends its own `Origin` (RFC 6454).
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Iterable, Sequence
from hmac import compare_digest
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from retrieve_cli.errors import UsageError, quoted
from retrieve_cli.http.secrets import Secret
from retrieve_cli.http.transport import is_loopback
from retrieve_cli.server.auth.keys import KeyFile, KeyRing
from retrieve_cli.server.auth.scopes import ANYONE, SCOPES, Caller
from retrieve_cli.server.auth.web_tokens import TokenVerifier, wanted
from retrieve_cli.server.http.answers import OPENAI
from retrieve_cli.server.http.observing import observed
from retrieve_cli.server.http.requests import RejectedRequest

if TYPE_CHECKING:
    from starlette.datastructures import Headers
    from starlette.requests import Request

    from retrieve_cli.config.settings import Settings

__all__ = ["SCOPES", "Caller", "Callers", "callers_of", "expect_safe"]


_LONGEST = 8192
"""Characters of a credential."""


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
    ) -> None:
        """Without a key, a ring that has keys, and tokens, anyone may do everything. `key` has all scopes."""
        self._key, self._ring, self._tokens = key, ring, tokens
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
            RejectedRequest: there is no valid credential (401), or it lacks the scope (403).
        """
        if not self.required:
            return ANYONE
        headers = request.headers
        sent = _sent(headers)
        if len(sent) > 1:  # RFC 6750, 3.1
            message = "the request has more than one credential"
            hint = "send one of Authorization: Bearer … and X-API-Key: …"
            raise _challenged(400, message, code="credentials", hint=hint, error=', error="invalid_request"')
        caller = self._caller(sent[0]) if sent else None
        if caller is None:  # missing or wrong: the answer is the same for any defect
            message = "the API key or token is missing or wrong"
            hint = "send it as Authorization: Bearer … or X-API-Key: …"
            error = ', error="invalid_token"' if "Authorization" in headers or "X-API-Key" in headers else ""
            code = "invalid_api_key" if request.url.path.startswith(OPENAI) else "unauthorized"
            raise _challenged(401, message, code=code, hint=hint, error=error)
        observed(request).caller = caller.name
        if not caller.may(scope):
            message = f"the credential does not have the scope {scope}"
            hint = f"use a key that has it: retrieve keys create --scope {scope}"
            error = f', error="insufficient_scope", scope="{scope}"'
            raise _challenged(403, message, code="forbidden", hint=hint, error=error)
        return caller

    def _caller(self, text: str) -> Caller | None:
        if len(text) > _LONGEST:
            return None
        if self._key is not None and compare_digest(text.encode(), self._key.reveal().encode()):
            return Caller(None, frozenset(SCOPES), "key")
        if self._ring is not None and (key := self._ring.find(text)) is not None:
            return key.caller
        return None if self._tokens is None else self._tokens.verify(text)


def callers_of(
    artifacts: Path,
    settings: Settings,
    *,
    key: Secret | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Callers:
    """Return the callers that an artifacts folder and a configuration name, and `key` if the server has one.

    The callback receives messages for the operator while the server runs.

    Raises:
        RetrieveError: the keys cannot be read, or the configuration of tokens is incomplete.
    """
    settings.expect_trusted("jwt")
    tokens = TokenVerifier(settings.jwt, say=say) if wanted(settings.jwt) else None
    return Callers(key, ring=KeyRing(KeyFile(artifacts), say=say), tokens=tokens)


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
    split = (value.partition(" ") for value in headers.getlist("Authorization"))
    bearers = [text for scheme, _, text in split if scheme.lower() == "bearer"]
    return [text.strip() for text in (*bearers, *headers.getlist("X-API-Key"))]


def _challenged(status: int, message: str, *, code: str, hint: str, error: str) -> RejectedRequest:
    headers = {"WWW-Authenticate": f'Bearer realm="retrieve"{error}'}
    return RejectedRequest(status, message, code=code, hint=hint, headers=headers)


_HOST = re.compile(r"(\[[0-9a-fA-F:.]{2,45}\]|[A-Za-z0-9._-]{1,255})(?::([0-9]{1,5}))?")
_ALLOWED = re.compile(r"\*|(\[[0-9a-fA-F:.]{2,45}\]|(?:\*\.)?[A-Za-z0-9._-]{1,255})(?::([0-9]{1,5}))?")
_PORTS = {"http": 80, "https": 443}
_ANY = "*"


class Name(NamedTuple):
    """A host with an optional port."""

    host: str
    port: int | None

    def fits(self, pattern: Name) -> bool:
        """Return True if a pattern names this host: itself, any below `*.`, any at all; a pattern without a port has
        any."""
        if pattern.port not in (None, self.port):
            return False
        if pattern.host.startswith("*."):
            return self.host.endswith(pattern.host[1:]) and len(self.host) >= len(pattern.host)
        return pattern.host in (_ANY, self.host)


class Hosts:
    """The names and origins that a server accepts."""

    def __init__(
        self,
        address: str,
        *,
        scheme: str = "http",
        allowed_hosts: Iterable[str] = (),
        allowed_origins: Iterable[str] = (),
    ) -> None:
        """`address` is the listening address, in the form of `--host`.

        On loopback the names of loopback are accepted, with any port: a tunnel has another port, and a port is not a
        name that others can point. Elsewhere the address is accepted, and for all addresses (0.0.0.0) any address
        and the machine's name.

        Raises:
            UsageError: an allowed host or origin is not written as one.
        """
        self._default, self._any_address = _PORTS[scheme], False
        bare = address.strip("[]").lower()
        names = {"localhost", "127.0.0.1", "[::1]", _bracketed(bare)}
        if not is_loopback(bare):
            number = _address(bare)
            self._any_address = not bare if number is None else number.is_unspecified
            names.add(os.uname().nodename.lower())
        own = [Name(name, None) for name in sorted(names)]
        self._patterns = [*own, *map(read_host, allowed_hosts)]
        self._origins = frozenset(map(read_origin, allowed_origins))

    def accepts(self, hosts: Sequence[str]) -> bool:
        """Return True if the Host headers of a request are one, and name this server."""
        name = _named(hosts[0], self._default) if len(hosts) == 1 else None
        if name is None:
            return False
        return any(map(name.fits, self._patterns)) or (self._any_address and _address(name.host) is not None)

    def listed(self, origin: str) -> bool:
        """Return True if pages of an origin may use the server from elsewhere."""
        return origin.lower() in self._origins

    def permits(self, origin: str, host: str) -> bool:
        """Return True if pages of an origin may use the server: its own pages, and pages of listed origins.

        The scheme is not compared: behind a proxy that ends TLS, the page's is https and the server's http.
        """
        if self.listed(origin):
            return True
        scheme, _, rest = origin.lower().partition("://")
        if scheme not in _PORTS or (page := _named(rest, _PORTS[scheme])) is None:
            return False
        return page == _named(host, _PORTS[scheme])


def read_host(text: str) -> Name:
    """Return a host that an operator allows. Raises: UsageError."""
    match = _ALLOWED.fullmatch(text.strip())
    if match is None:
        hint = "example.org, example.org:8443, *.example.org, or * for any"
        raise UsageError(f"--allowed-host is {quoted(text)}, not a host", hint=hint)
    if match[1] is None:
        return Name(_ANY, None)
    return Name(match[1].lower().rstrip("."), None if match[2] is None else int(match[2]))


def read_origin(text: str) -> str:
    """Return an origin that an operator allows, as browsers write it. Raises: UsageError."""
    hint = "https://app.example.org, without a path; one origin per flag"
    wrong = UsageError(f"--allowed-origin is {quoted(text)}, not an origin", hint=hint)
    try:
        parts = urlsplit(text.strip().lower().rstrip("/"))
        port = parts.port
    except ValueError:
        raise wrong from None
    if parts.scheme not in _PORTS or parts.path or parts.query or parts.fragment or not _HOST.fullmatch(parts.netloc):
        raise wrong
    shown = "" if port in (None, _PORTS[parts.scheme]) else f":{port}"
    return f"{parts.scheme}://{_bracketed(parts.hostname or '')}{shown}"


def _named(text: str, default: int) -> Name | None:
    """Return a host with its port; None if it is not a host."""
    if (match := _HOST.fullmatch(text.strip())) is None:
        return None
    return Name(match[1].lower().rstrip("."), default if match[2] is None else int(match[2]))


def _address(host: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(host.strip("[]"))
    except ValueError:
        return None


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
