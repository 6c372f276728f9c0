"""Requests to one server whose answers are not trusted: bounded redirects, each checked, and bounded text.

Guarded.ask -> check_target -> Transport.open, again for each redirect -> GuardedReply, or the complaint of its body
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple
from urllib.parse import urlsplit

from retrieve_cli.errors import printable
from retrieve_cli.frozen import replace
from retrieve_cli.http.addresses import origin, resolve, same_server, shown
from retrieve_cli.http.failures import HttpFailed, NotPermitted, NotReadable
from retrieve_cli.http.limits import Clock, limit_size
from retrieve_cli.http.public import check_target, rule
from retrieve_cli.http.retries import retry_after
from retrieve_cli.http.secrets import Secret, quoted
from retrieve_cli.http.transport import HttpRequest, Redirect, Reply, Transport

MOST_BYTES = 10_000_000
"""Bytes of the largest body, without content coding."""
MOST_REDIRECTS = 5
_EXCERPT = 200
"""Characters of a server's complaint that are quoted."""
_LONGEST_TYPE = 100
_TEXT = ("application/json", "application/xml")


class GuardedReply(NamedTuple):
    """A complete answer."""

    status: int
    content_type: str
    body: bytes
    """Empty if the status was not expected."""
    complaint: str
    """Beginning of the body, quoted and without credentials, if the status was not expected."""
    retry_after: float | None
    """Seconds after which the server permits the next request, if it gives a time."""


class _Moved(Exception):
    """Carries a redirect out of the transport, so that each step is a separate request."""

    def __init__(self, redirect: Redirect) -> None:
        super().__init__()
        self.redirect = redirect


class Guarded:
    """Requests to one server, from any number of threads; redirects may lead to other public servers."""

    def __init__(self, server: str, *, exempt: Collection[str]) -> None:
        """`server` is the address of the only server that gets credentials; `exempt` are origins that need not be
        public."""
        self._server = server
        self._exempt = frozenset(exempt)
        permits = rule(self._exempt)
        self._transport = Transport(server, called="the provider", follow=_stop, connections=4, permits=permits)

    def close(self) -> None:
        """Close the open connections."""
        self._transport.close()

    def ask(
        self,
        request: HttpRequest,
        clock: Clock,
        *,
        accept: Collection[int],
        secrets: Iterable[Secret],
        before: Callable[[str], None],
        mapped: Callable[[str], str],
    ) -> GuardedReply:
        """Return the answer after at most five redirects.

        `secrets` are hidden in complaints; `before` is called with the address of each request before it is sent, and
        `mapped` returns the address that is asked in place of the target of a redirect.

        Raises:
            TransientFailure: no complete answer, but another attempt may succeed.
            NotPermitted: an address, a redirect or the size is not permitted.
            NotReadable: an expected answer is not text, or is damaged.
            HttpFailed: there is no connection, and another attempt would fail as well.
            Unavailable: urllib3 is not installed.
        """
        known = list(secrets)
        for number in range(MOST_REDIRECTS + 1):
            check_target(request.url, self._exempt)
            before(request.url)
            try:
                with self._transport.open(request, clock) as reply:
                    return _read(reply, accept, known)
            except _Moved as moved:
                redirect = moved.redirect
            if number < MOST_REDIRECTS:
                request = _next(request, redirect, known, mapped=mapped)
        raise _not_permitted(f"{shown(self._server)} redirects more than {MOST_REDIRECTS} times")


def _stop(redirect: Redirect) -> str:
    raise _Moved(redirect)


def _next(
    request: HttpRequest, redirect: Redirect, secrets: Collection[Secret], *, mapped: Callable[[str], str]
) -> HttpRequest:
    """Return the request that a redirect asks for; a body is dropped for status 303 alone."""
    try:
        target = resolve(redirect.url, redirect.location)
        origin(target)
        urlsplit(target).port  # noqa: B018  raises for a port that is not a number
    except ValueError:
        raise _not_permitted(f"{shown(redirect.url)} redirects to something that is not an address") from None
    target = mapped(target)
    spellings = [text for secret in secrets for text in secret.spellings]
    if not same_server(redirect.url, target) and any(text in target for text in spellings):
        raise _not_permitted(f"{shown(redirect.url)} redirects with a credential to another server")
    return replace(request, url=target, body=None if redirect.status == 303 else request.body)


def _read(reply: Reply, accept: Collection[int], secrets: Collection[Secret]) -> GuardedReply:
    said = reply.headers.get("Retry-After", "")
    after = (retry_after(said) or None) if said.strip() != "0" else 0.0
    content_type = printable(reply.headers.get("Content-Type", "").strip())[:_LONGEST_TYPE]
    if reply.status not in accept:
        complaint = reply.head().decode("utf-8", "replace") if _is_text(content_type) else ""
        return GuardedReply(
            reply.status, content_type, b"", quoted(complaint, secrets, most=_EXCERPT) if complaint else "", after
        )
    if not _is_text(content_type):
        message = f"its answer is not text: {content_type or 'it has no content type'}"
        raise NotReadable(message, hint="see the address in a browser")
    limit = _not_permitted(f"its answer has more than {MOST_BYTES // 1_000_000} MB")
    try:
        body = b"".join(limit_size(reply.decoded(), MOST_BYTES, lambda: limit))
    except NotPermitted:
        raise
    except HttpFailed as failure:
        raise NotReadable(str(failure), hint=failure.hint) from None
    return GuardedReply(reply.status, content_type, body, "", after)


def _is_text(content_type: str) -> bool:
    kind = content_type.partition(";")[0].strip().lower()
    return (
        kind.startswith("text/")
        or kind in _TEXT
        or (kind.startswith("application/") and kind.endswith(("+json", "+xml")))
    )


def _not_permitted(message: str) -> NotPermitted:
    return NotPermitted(message, hint="the rules for answers of web servers do not permit it")
