"""One call of a provider over HTTP: credentials, rate, one more attempt, and failures as values.

Credentials are read from the environment here, and are in nothing that leaves: not in a failure, and not in a body that
repeats them.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime
from threading import Lock
from typing import NamedTuple, TypeAlias
from urllib.parse import urlencode

from retrieve_cli.contracts.websearch import (
    Call,
    Failure,
    KeyPlace,
    Malformed,
    ProviderFailed,
    Rate,
    RateLimited,
    Rejected,
    Response,
    Timeout,
    Unreachable,
)
from retrieve_cli.errors import Unavailable, UsageError
from retrieve_cli.http.addresses import origin, shown
from retrieve_cli.http.guarded import Guarded, GuardedReply
from retrieve_cli.http.limits import Clock, HttpFailed, NotPermitted, NotReadable, TransientFailure
from retrieve_cli.http.secrets import Secret, hide
from retrieve_cli.http.transport import HttpRequest, check_secure_url
from retrieve_cli.websearch.rates import Rates
from retrieve_cli.websearch.stored import digest_of

_PAUSE_S = 0.5
"""Longest pause before the second attempt."""
_SHORTEST_HIDDEN = 6
"""Characters of the shortest credential that is hidden in a body; a shorter one could be a word of a text."""
Sent: TypeAlias = Response | Failure


class Route(NamedTuple):
    """Rate of a provider, and the origins to which it may send requests."""

    rate: Rate
    servers: frozenset[str]


class _Keys(NamedTuple):
    """Credentials of a call."""

    parameters: Mapping[str, Secret]
    headers: Mapping[str, Secret]
    plain: tuple[Secret, ...]
    """Their values, for hiding."""


class CallSender:
    """Sends calls. Shared by threads."""

    def __init__(self, rates: Rates, endpoints: Mapping[str, str], now: Callable[[], datetime]) -> None:
        """`endpoints` maps origins to those that are asked instead.

        Raises:
            UsageError: an endpoint is not an origin, or is neither https nor on this machine.
        """
        self._rates = rates
        self._endpoints = _checked(endpoints)
        self._now = now
        self._guarded: dict[tuple[str, frozenset[str]], Guarded] = {}
        self._lock = Lock()

    def close(self) -> None:
        """Close the open connections."""
        with self._lock:
            while self._guarded:
                self._guarded.popitem()[1].close()

    def send(self, call: Call, route: Route, *, accept: Collection[int], clock: Clock) -> Sent:
        """Return the response, or the failure of the last attempt that was sent: a second follows one that may pass."""
        try:
            keys = _read_keys(call.keys)
        except UsageError as error:
            return Rejected(error.message)
        sent, again = self._attempt(call, keys, route, accept=accept, clock=clock)
        pause = random.uniform(_PAUSE_S / 2, _PAUSE_S)  # noqa: S311  jitter is no secret
        if not again or time.monotonic() + pause >= clock.until:
            return sent
        time.sleep(pause)
        second, _ = self._attempt(call, keys, route, accept=accept, clock=clock)
        # A second attempt for which the rate leaves no time says nothing about the server: the first one does.
        return sent if isinstance(second, RateLimited) else second

    def _attempt(
        self, call: Call, keys: _Keys, route: Route, *, accept: Collection[int], clock: Clock
    ) -> tuple[Sent, bool]:
        """Return the outcome, and True if another attempt may have a better one."""
        server = origin(self._mapped(call.url))

        def wait(url: str) -> None:
            if origin(url) == server:
                self._rates.take(server, route.rate, clock=clock)

        try:
            exempt = frozenset(origin(self._endpoints[known]) for known in route.servers if known in self._endpoints)
            with self._lock:
                guarded = self._guarded.setdefault((server, exempt), Guarded(server, exempt=exempt))
            parameters = {**call.parameters, **{name: secret.reveal() for name, secret in keys.parameters.items()}}
            url = self._mapped(call.url) + (f"?{urlencode(parameters)}" if parameters else "")
            headers = {"Accept-Encoding": "gzip", **call.headers}
            request = HttpRequest(url, headers, call.body, credentials=keys.headers)
            answer = guarded.ask(request, clock, accept=accept, secrets=keys.plain, before=wait, mapped=self._mapped)
        except ProviderFailed as failed:
            return failed.failure, False
        except Unavailable as error:  # urllib3 is missing, which every installation has
            return Unreachable(error.message), False
        except (TransientFailure, HttpFailed) as failure:
            return _failure(failure, keys, clock)
        if answer.status in accept:
            return self._response(answer, keys), False
        return self._not_accepted(answer, server, route)

    def _response(self, answer: GuardedReply, keys: _Keys) -> Response:
        body = answer.body
        for secret in keys.plain:
            for spelling in sorted(secret.spellings, key=len, reverse=True):
                if len(spelling) >= _SHORTEST_HIDDEN:
                    body = body.replace(spelling.encode("utf-8", "replace"), b"***")
        at = self._now().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return Response(answer.status, answer.content_type, body, at, digest_of(body))

    def _not_accepted(self, answer: GuardedReply, server: str, route: Route) -> tuple[Failure, bool]:
        if answer.status == 429 or (answer.status == 503 and answer.retry_after is not None):
            pause = route.rate.seconds if answer.retry_after is None else answer.retry_after
            self._rates.block(server, pause)
            return RateLimited(answer.retry_after), False
        complaint = f": {answer.complaint}" if answer.complaint else ""
        rejected = Rejected(f"it answered with status {answer.status}{complaint}", answer.status)
        return rejected, answer.status >= 500

    def _mapped(self, url: str) -> str:
        """Return the address to send a request to: the address at its endpoint if one is configured."""
        known = origin(url)
        if known not in self._endpoints:
            return url
        _, _, rest = url.partition("://")
        cut = min((rest.find(mark) for mark in "/?#" if mark in rest), default=len(rest))
        return self._endpoints[known] + rest[cut:]


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
        if not (value := os.environ.get(place.variable, "").strip()):
            continue
        if not value.isprintable() or not (value.isascii() or place.where == "parameter"):
            message = f"the environment variable {place.variable} has characters that are not valid in a request"
            raise UsageError(message, hint=f"set it again: export {place.variable}=…")
        keys[place.where][place.name] = Secret(place.form.replace("{}", value))
        plain.append(Secret(value))
    return _Keys(keys["parameter"], keys["header"], tuple(plain))


def _failure(failure: TransientFailure | HttpFailed, keys: _Keys, clock: Clock) -> tuple[Failure, bool]:
    reason = hide(str(failure), keys.plain)
    if isinstance(failure, TransientFailure):
        late = time.monotonic() >= clock.until
        return (out_of_time(clock.total_s), False) if late else (Unreachable(reason), True)
    if isinstance(failure, NotPermitted):
        return Rejected(reason), False
    return (Malformed(reason) if isinstance(failure, NotReadable) else Unreachable(reason)), False


def out_of_time(seconds: float) -> Timeout:
    """Return the failure of a provider that did not answer in some seconds."""
    return Timeout(f"no complete answer within {seconds:.3g} s")
