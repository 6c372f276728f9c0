"""A conversation with one server: attempts and pauses, redirects, credentials, limits of time and size.

Transport.ask -> request, and what it is redirected to -> Reply -> receive(reply)
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from shlex import quote
from typing import TYPE_CHECKING, Any, Self, TypeVar
from urllib.parse import urljoin, urlsplit

from retrieve_cli.errors import SourceFailed, Unavailable, UsageError, printable
from retrieve_cli.sources.remote.addresses import check_url, same_server
from retrieve_cli.sources.remote.credentials import Credentials
from retrieve_cli.sources.remote.reply import HEAD, PIECE, Passing, Reply
from retrieve_cli.web.addresses import shown, without_user

if TYPE_CHECKING:
    from requests import PreparedRequest, Response, Session

T = TypeVar("T")

INSTALL = "pip install 'retrieve-cli[remote]'"
TIMEOUT_S = 30.0
DEADLINE_S = 3600.0
RETRIES = 4
BACKOFF_S = 0.5
MAX_BYTES = 2 << 30

_PASSING = frozenset({408, 425, 429, *range(500, 600)})
"""Answers of a server that may be well again in a moment."""
_MOST_REDIRECTS = 10
_LONGEST_CONNECT_S = 10.0
_LONGEST_PAUSE_S = 60.0
_EXCERPT = 160
"""Characters of a body that an error shows."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How long, how often and how much is asked of a server."""

    timeout_s: float
    """Seconds without a byte."""
    deadline_s: float
    """Seconds for everything, retries and pauses included."""
    retries: int
    backoff_s: float
    """First pause; each one after is twice as long, and all are shortened by chance so that clients spread out."""
    max_bytes: int
    """Decompressed bytes of one fetch."""


class Transport:
    """A session with one server: `with Transport(url, ...) as transport: transport.ask(receive)`.

    Credentials go to that server alone: a redirect to another one travels without them.
    """

    def __init__(self, url: str, *, credentials: Credentials, limits: Limits, probe: str = "") -> None:
        """`probe` is a command that shows a person what the server says.

        Raises:
            UsageError: `url` is no web address, or a credential's variable is not set.
            Unavailable: requests is not installed.
        """
        check_url(url)
        self.url = url
        self.origin = shown(url)
        self.probe = probe or f"see what the server says: curl -sSIL {quote(self.origin)}"
        self._limits = limits
        self._credentials = credentials
        self._authorization = credentials.read()
        query = urlsplit(url).query
        self._secrets = [*self._authorization.secrets, *([query] if query else [])]
        self._deadline = time.monotonic() + limits.deadline_s
        self._session = _session()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._session.close()

    def ask(
        self,
        receive: Callable[[Reply], T],
        *,
        url: str = "",
        headers: Mapping[str, str] | None = None,
        form: Mapping[str, str] | None = None,
        statuses: Container[int] = (200,),
    ) -> T:
        """What `receive` makes of the reply; a POST where there is a form. The whole is repeated while it may help.

        Raises:
            SourceFailed: no reply, one of another status, or one that was cut short, after the last attempt.
        """
        url = url or self.url
        for attempt in range(self._limits.retries + 1):
            try:
                with self._open(url, headers or {}, form) as reply:
                    self._hold_to(statuses, reply)
                    return receive(reply)
            except Passing as error:
                trouble, pause = str(error), self._pause(attempt, error.after)
            if attempt == self._limits.retries or time.monotonic() + pause > self._deadline:
                break
            time.sleep(pause)
        often = f" ({attempt + 1} attempts)" if attempt else ""
        raise SourceFailed(f"{shown(url)} could not be fetched: {trouble}{often}", hint=self.probe)

    def excerpt(self, raw: bytes) -> str:
        """The beginning of a body in quotation marks, without secrets and without anything that drives a terminal."""
        text = raw[:HEAD].decode("utf-8", "replace")
        for secret in self._secrets:
            text = text.replace(secret, "***")
        text = printable(" ".join(text.split()))
        return f"“{text[:_EXCERPT]}…”" if len(text) > _EXCERPT else f"“{text}”"

    def limited(self, pieces: Iterable[bytes], *, before: int = 0) -> Iterator[bytes]:
        """The pieces, while they and the `before` bytes before them stay under the limit.

        Raises:
            SourceFailed: they do not.
        """
        total = before
        for piece in pieces:
            total += len(piece)
            if total > self._limits.max_bytes:
                raise SourceFailed(
                    f"{self.origin} gives more than {self._limits.max_bytes} bytes (decompressed)",
                    hint="if that is right, raise the limit: max_mb of the source",
                )
            yield piece

    @contextmanager
    def _open(self, url: str, headers: Mapping[str, str], form: Mapping[str, str] | None) -> Iterator[Reply]:
        """The reply after all redirects."""
        asked = url
        for _ in range(_MOST_REDIRECTS):
            response = self._send(url, headers, form)
            try:
                location = self._session.get_redirect_target(response)
                if location is None:
                    redirected = url if url != asked else ""
                    yield Reply(shown(asked), response.status_code, response.headers, self._wire(response), redirected)
                    return
            finally:
                response.close()
            url = self._follow(url, location)
            if response.status_code == 303:
                form = None
        raise SourceFailed(f"{shown(asked)} redirects more than {_MOST_REDIRECTS} times", hint=self.probe)

    def _send(self, url: str, headers: Mapping[str, str], form: Mapping[str, str] | None) -> Response:
        import requests

        def authorize(request: PreparedRequest) -> PreparedRequest:
            # A callable even where there is nothing to add: without one, requests would look into ~/.netrc.
            if self._authorization.header and same_server(self.url, url):
                request.headers["Authorization"] = self._authorization.header
            return request

        remaining = self._remaining()
        timeout = (min(_LONGEST_CONNECT_S, self._limits.timeout_s, remaining), min(self._limits.timeout_s, remaining))
        try:
            return self._session.request(
                "GET" if form is None else "POST", url, headers=dict(headers), data=form, auth=authorize,
                timeout=timeout, stream=True, allow_redirects=False,
            )  # fmt: skip
        except requests.exceptions.SSLError as error:
            hint = "check the address and the certificates (REQUESTS_CA_BUNDLE names a file of your own)"
            raise SourceFailed(f"{shown(url)} offers no TLS to trust: {_reason(error)}", hint=hint) from error
        except requests.exceptions.ReadTimeout as error:
            raise Passing(f"no answer within {timeout[1]:g} s") from error
        except (requests.exceptions.ConnectionError, requests.exceptions.Timeout) as error:
            raise Passing(_reason(error)) from error
        except (requests.exceptions.RequestException, ValueError) as error:
            hint = "check the address, and HTTP_PROXY and HTTPS_PROXY where they are set"
            raise SourceFailed(f"{shown(url)} cannot be asked ({type(error).__name__})", hint=hint) from error

    def _wire(self, response: Response) -> Iterator[bytes]:
        """A body's bytes as they travel.

        Raises:
            Passing: the connection broke or stalled.
            SourceFailed: the time is up.
        """
        from urllib3.exceptions import HTTPError

        while True:
            try:
                # read1 returns with what is there: read would wait for a full piece from a server that drips.
                piece = response.raw.read1(PIECE, decode_content=False)
            except (HTTPError, OSError) as error:
                raise Passing(f"the answer was cut short ({_reason(error)})") from error
            if not piece:
                return
            yield piece
            self._remaining()

    def _follow(self, url: str, location: str) -> str:
        try:
            target = without_user(urljoin(url, location))
            check_url(target)
        except (UsageError, ValueError):
            raise SourceFailed(f"{shown(url)} redirects to what is no http address", hint=self.probe) from None
        return target

    def _hold_to(self, statuses: Container[int], reply: Reply) -> None:
        if reply.status in statuses:
            return
        said = f"the server answered {reply.status}: {self.excerpt(reply.head())}"
        if reply.status in _PASSING:
            raise Passing(said, _retry_after(reply.headers.get("Retry-After", "")))
        hint = self.probe
        if reply.status in (401, 403):
            given = self._credentials.names
            hint = (
                f"the credentials ({given}) were refused: check them" if given
                else "where it needs credentials, name their variable: token_env, or user_env and password_env"
            )  # fmt: skip
        raise SourceFailed(f"{reply.origin} could not be fetched: {said}", hint=hint)

    def _pause(self, attempt: int, after: float) -> float:
        backoff = self._limits.backoff_s * 2.0**attempt * random.uniform(0.5, 1)  # noqa: S311  spread is no secret
        return min(max(backoff, after), _LONGEST_PAUSE_S)

    def _remaining(self) -> float:
        remaining = self._deadline - time.monotonic()
        if remaining <= 0:
            raise SourceFailed(
                f"{self.origin} was not fetched within {self._limits.deadline_s:g} s",
                hint="try again later, or ask for less",
            )
        return remaining


def _session() -> Session:
    try:
        import requests
    except ImportError as error:
        raise Unavailable("fetching needs the package requests, which is not installed", hint=INSTALL) from error

    class Session(requests.Session):
        """Leaves redirects alone: even where it is not to follow one, requests reads its whole body into memory."""

        def resolve_redirects(self, *_: Any, **__: Any) -> Iterator[Any]:
            return iter(())

    session = Session()
    session.headers.update({"User-Agent": "retrieve-cli", "Accept-Encoding": "gzip"})
    return session


def _retry_after(value: str) -> float:
    """Seconds that a Retry-After header asks for (RFC 9110, 10.2.3): a number or a date; 0 where it is neither."""
    if value.isdecimal():
        return float(value)
    try:
        date = parsedate_to_datetime(value)
    except ValueError:
        return 0.0
    return (date.replace(tzinfo=date.tzinfo or UTC) - datetime.now(UTC)).total_seconds()


def _reason(error: BaseException) -> str:
    """What happened at the bottom of a chain of errors; those above it spell out the address, secrets included."""
    chain = [error]
    for above in chain:
        inner = (getattr(above, "reason", None), *above.args, above.__cause__, above.__context__)
        chain += [part for part in inner if isinstance(part, BaseException) and part not in chain][:1]
    error = chain[-1]
    return printable(getattr(error, "strerror", None) or str(error) or type(error).__name__)
