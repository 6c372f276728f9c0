"""One call of a provider over HTTP: credentials, a pause between requests to a server, and failures with their reason.

Credentials are read from the environment here, and are in nothing that leaves: not in a failure, and not in a body that
repeats them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime
from threading import Lock
from typing import NamedTuple
from urllib.parse import urlencode

from retrieve_cli.contracts.websearch import Call, FailureKind, KeyPlace, Provider, ProviderFailed, Response
from retrieve_cli.errors import Unavailable, UsageError
from retrieve_cli.http.addresses import origin, shown
from retrieve_cli.http.guarded import Guarded, GuardedReply
from retrieve_cli.http.limits import (
    Clock,
    GaveUp,
    HttpFailed,
    NotPermitted,
    NotReadable,
    Retries,
    TransientFailure,
    persist,
)
from retrieve_cli.http.secrets import Secret, hide
from retrieve_cli.http.transport import HttpRequest, check_secure_url

_RETRIES = Retries(1, 0.5)
_SHORTEST_HIDDEN = 6
"""Characters of the shortest credential that is hidden in a body; a shorter one could be a word of a text."""
_LONGEST_BLOCK_S = 86_400.0


class Pauses:
    """Pauses between the requests of this process to each server."""

    def __init__(self, *, sleep: Callable[[float], object] = time.sleep) -> None:
        self._next: dict[str, float] = {}
        self._lock = Lock()
        self._sleep = sleep

    def take(self, server: str, pause_s: float, *, clock: Clock) -> None:
        """Wait until a server may be asked, within the time of the clock.

        Raises:
            ProviderFailed: it may not be asked in that time.
            TransientFailure: no time is left.
        """
        patience = clock.patience()
        with self._lock:
            now = time.monotonic()
            begin = max(now, self._next.get(server, now))
            if begin - now > patience:
                raise _rate_limited(begin - now)
            self._next[server] = begin + pause_s
        if begin > now:
            self._sleep(begin - now)

    def block(self, server: str, seconds: float) -> None:
        """Ask a server nothing for some seconds, as it requested."""
        with self._lock:
            until = time.monotonic() + min(max(0.0, seconds), _LONGEST_BLOCK_S)
            self._next[server] = max(until, self._next.get(server, until))


PAUSES = Pauses()
"""Pauses of this process."""


class _Keys(NamedTuple):
    """Credentials of a call."""

    parameters: Mapping[str, Secret]
    headers: Mapping[str, Secret]
    plain: tuple[Secret, ...]
    """Their values, for hiding."""


class Sender:
    """Sends calls. Shared by threads."""

    def __init__(self, endpoints: Mapping[str, str], *, pauses: Pauses = PAUSES) -> None:
        """`endpoints` maps origins to those that are asked instead.

        Raises:
            UsageError: an endpoint is not an origin, or is neither https nor on this machine.
        """
        self._endpoints = _checked(endpoints)
        self._pauses = pauses
        self._guarded: dict[tuple[str, frozenset[str]], Guarded] = {}
        self._lock = Lock()

    def close(self) -> None:
        """Close the open connections."""
        with self._lock:
            while self._guarded:
                self._guarded.popitem()[1].close()

    def send(self, call: Call, provider: Provider, *, accept: Sequence[int], clock: Clock) -> Response:
        """Return the response to a call of a provider; one more attempt follows a temporary failure.

        Raises:
            ProviderFailed: there is no response, or its status is not in `accept`.
            ValueError: the call is not to one of the declared servers.
        """
        if origin(call.url) not in set(map(origin, provider.servers)) or "?" in call.url:
            raise ValueError(f"a call to {call.url} is not one to the declared servers")
        try:
            keys = _read_keys(call.keys)
        except UsageError as error:
            raise ProviderFailed("rejected", error.message) from None

        def attempt() -> Response:
            return self._attempt(call, keys, provider, accept=accept, clock=clock)

        try:
            return persist(attempt, _RETRIES, sleep=time.sleep, until=clock.until)
        except GaveUp as error:
            reason = hide(str(error), keys.plain)
            if time.monotonic() >= clock.until:
                raise out_of_time(clock.total_s) from None
            kind: FailureKind = "rejected" if error.status else "unreachable"
            raise ProviderFailed(kind, reason) from None
        except NotPermitted as error:
            raise ProviderFailed("rejected", hide(str(error), keys.plain)) from None
        except NotReadable as error:
            raise ProviderFailed("malformed", hide(str(error), keys.plain)) from None
        except HttpFailed as error:
            raise ProviderFailed("unreachable", hide(str(error), keys.plain)) from None
        except Unavailable as error:  # the HTTP client is missing, which every installation has
            raise ProviderFailed("unreachable", error.message) from None

    def _attempt(
        self, call: Call, keys: _Keys, provider: Provider, *, accept: Collection[int], clock: Clock
    ) -> Response:
        server = origin(self._mapped(call.url))

        def wait(url: str) -> None:
            if origin(url) == server:
                self._pauses.take(server, provider.pause_s, clock=clock)

        known = set(map(origin, provider.servers)) & self._endpoints.keys()
        exempt = frozenset(origin(self._endpoints[one]) for one in known)
        with self._lock:
            guarded = self._guarded.setdefault((server, exempt), Guarded(server, exempt=exempt))
        secret = {name: secret.reveal() for name, secret in keys.parameters.items()}
        parameters = urlencode({**call.parameters, **secret})
        url = self._mapped(call.url) + (f"?{parameters}" if parameters else "")
        headers = {"Accept-Encoding": "gzip", **call.headers}
        request = HttpRequest(url, headers, call.body, credentials=keys.headers)
        answer = guarded.ask(request, clock, accept=accept, secrets=keys.plain, before=wait, mapped=self._mapped)
        if answer.status not in accept:
            self._reject(answer, server, provider)
        at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return Response(answer.status, _without(answer.body, keys), at)

    def _reject(self, answer: GuardedReply, server: str, provider: Provider) -> None:
        """Raises: ProviderFailed, or TransientFailure for a failure of the server that may pass."""
        if answer.status == 429 or (answer.status == 503 and answer.retry_after is not None):
            pause = provider.pause_s if answer.retry_after is None else answer.retry_after
            self._pauses.block(server, pause)
            raise _rate_limited(answer.retry_after)
        complaint = f": {answer.complaint}" if answer.complaint else ""
        reason = f"it answered with status {answer.status}{complaint}"
        if answer.status >= 500:
            raise TransientFailure(reason, status=answer.status)
        raise ProviderFailed("rejected", reason)

    def _mapped(self, url: str) -> str:
        """Return the address to send a request to: the address at its endpoint if one is configured."""
        known = origin(url)
        if known not in self._endpoints:
            return url
        _, _, rest = url.partition("://")
        cut = min((rest.find(mark) for mark in "/?#" if mark in rest), default=len(rest))
        return self._endpoints[known] + rest[cut:]


def _without(body: bytes, keys: _Keys) -> bytes:
    """Return a body without the credentials of the call."""
    for secret in keys.plain:
        for spelling in sorted(secret.spellings, key=len, reverse=True):
            if len(spelling) >= _SHORTEST_HIDDEN:
                body = body.replace(spelling.encode("utf-8", "replace"), b"***")
    return body


def _checked(endpoints: Mapping[str, str]) -> dict[str, str]:
    known = {}
    for real, other in endpoints.items():
        target, hint = other.rstrip("/"), "write scheme, host and port: https://HOST:PORT"
        try:
            for url in (real, other):
                check_secure_url(url, called="address")
        except UsageError as error:
            raise UsageError(f"web.endpoints: {error.message}", hint=hint) from error
        if target.count("/") != 2 or "?" in target or "#" in target:
            raise UsageError(f"web.endpoints: {shown(other)!r} is more than an origin", hint=hint)
        known[origin(real)] = target
    return known


def _read_keys(places: Collection[KeyPlace]) -> _Keys:
    """Return the credentials of a call. Raises: UsageError: the value of a variable is not valid in a request."""
    keys: dict[str, dict[str, Secret]] = {"parameter": {}, "header": {}}
    plain = []
    for place in places:
        value = os.environ.get(place.variable, "").strip()
        if not value:
            continue
        if not value.isprintable() or not (value.isascii() or place.where == "parameter"):
            message = f"the environment variable {place.variable} has characters that are not valid in a request"
            raise UsageError(message, hint=f"set it again: export {place.variable}=…")
        keys[place.where][place.name] = Secret(place.form.replace("{}", value))
        plain.append(Secret(value))
    return _Keys(keys["parameter"], keys["header"], tuple(plain))


def _rate_limited(after: float | None) -> ProviderFailed:
    wait = "now" if after is None else f"for {after:.3g} s"
    return ProviderFailed("rate_limited", f"it permits no further requests {wait}", retry_after=after)


def out_of_time(seconds: float) -> ProviderFailed:
    """Return the failure of a provider that did not answer in some seconds."""
    return ProviderFailed("timeout", f"no complete answer within {seconds:.3g} s")
