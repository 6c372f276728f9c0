"""A client of JSON APIs: attempts and pauses, a bounded number of requests at once, a key that never shows.

Client.ask -> attempts -> Transport: POST, and where it is redirected to -> status -> body -> JSON -> receive(answer)

Answers of a server: their JSON, the complaint in an error, and the beginning of either for people.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, CancelledError, ThreadPoolExecutor, wait
from contextlib import suppress
from functools import partial
from math import inf
from reprlib import Repr
from shlex import quote
from threading import BoundedSemaphore, Event
from typing import Self, TypeVar
from urllib.parse import urlsplit, urlunsplit

from retrieve_cli.contracts import Json
from retrieve_cli.errors import IndexCorrupt, ModelFailed, RetrieveError, Unavailable, printable
from retrieve_cli.http import limits
from retrieve_cli.http.addresses import Wording, check_url, origin, resolve, shown
from retrieve_cli.http.limits import Clock
from retrieve_cli.http.secrets import Secret, hide, quoted, read_key
from retrieve_cli.http.transport import HEAD, HttpRequest, Redirect, Reply, Transport
from retrieve_cli.untrusted.foreign_json import foreign_json

T = TypeVar("T")
Receive = Callable[[Json], T]
"""Converts an answer, or raises an error that `Client.failure` made."""

_HEADERS = {"Accept": "application/json", "Accept-Encoding": "identity", "Content-Type": "application/json"}
_KEEPS_METHOD = frozenset({307, 308})
_MOST_REDIRECTS = 3
_LONGEST_COMPLAINT = 1 << 16
"""Bytes of an error that its message is looked for in."""
_EXCERPT = 300
"""Characters of an answer that an error shows."""


class Client:
    """Asks one server. Making one is cheap; nothing is sent before it is asked. It may be used from many threads."""

    def __init__(
        self,
        base_url: str,
        *,
        api_key_env: str | None = None,
        timeout_s: float = 60.0,
        retries: int = 4,
        concurrency: int = 4,
        backoff_s: float = 0.5,
        max_bytes: int = 128 << 20,
        section: str = "",
        sleep: Callable[[Event, float], object] = Event.wait,
    ) -> None:
        """`timeout_s` is for one whole answer; `concurrency` is the most requests at once, of all callers; `section` is
        the section of the settings, for hints.

        The first pause is of `backoff_s`, each one after twice as long, all shortened by chance so that clients
        spread out. `sleep` pauses for some seconds, or until the event.

        Raises:
            UsageError: `base_url` is no web address.
        """
        self._section = f"{section}." if section else ""
        check_url(base_url, wording(self._section))
        self._base_url = base_url
        self._api_key_env = api_key_env
        self._timeout_s = timeout_s
        self._retries = limits.Retries(retries, backoff_s)
        self._concurrency = concurrency
        self._max_bytes = max_bytes
        self._sleep = sleep
        self._slots = BoundedSemaphore(concurrency)
        called = f"{self._section}base_url"
        self._transport = Transport(base_url, called=called, follow=self._follow, connections=concurrency)

    @property
    def address(self) -> str:
        """The server's address for people."""
        return shown(self._base_url)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Lets go of the connections that are kept for the next request; a request after that opens new ones."""
        self._transport.close()

    def clock(self, within: float | None = None) -> Clock:
        """A clock that begins now, for several requests that have `timeout_s` together, or `within` if that is less."""
        seconds = self._timeout_s if within is None else min(self._timeout_s, within)
        return Clock(seconds, seconds)

    def ask(
        self,
        path: str,
        payload: Json,
        receive: Receive[T],
        *,
        hint: str = "",
        clock: Clock | None = None,
        stop: Event | None = None,
    ) -> T:
        """Return the result of `receive` for the answer to a POST; `hint` is for a server that rejects the request.

        `clock` bounds everything, retries and pauses included; without one, each attempt has `timeout_s`. Once `stop`
        is set, pauses end and no attempt begins.

        Raises:
            CancelledError: it was stopped.
            ServerUnavailable: the server cannot be reached, fails, or denies access; or the key's variable is not set.
            ServerFailed: it refuses the request, sends it elsewhere, or its answer is not JSON or too large.
            Unavailable: urllib3 is not installed.
        """
        import orjson

        stop = stop or Event()
        key = read_key(self._api_key_env)
        header = Secret(key.bearer) if key else None
        request = HttpRequest(endpoint(self._base_url, path), _HEADERS, orjson.dumps(payload), header)

        def attempt() -> Json:
            if stop.is_set():
                raise CancelledError
            # A place among the requests at once is waited for as long as the clock runs.
            if not self._slots.acquire(timeout=None if clock is None else clock.patience()):
                raise limits.TransientFailure("too many other requests are under way")
            try:
                with self._transport.open(request, clock or self.clock()) as reply:
                    return self._read(reply, path, hint)
            finally:
                self._slots.release()

        failure: Exception
        try:
            until = inf if clock is None else clock.until
            answer = limits.persist(attempt, self._retries, sleep=partial(self._sleep, stop), until=until)
        except limits.GaveUp as gave_up:
            message = f"{self._shown(path)} gave no answer: {self.plain(str(gave_up))}"
            failure = ServerUnavailable(message, hint=self._probe, status=gave_up.status)
        except limits.HttpFailed as failed:
            failure = ServerUnavailable(self.plain(str(failed)), hint=failed.hint)
        else:
            return receive(answer)
        # Out here, where it is chained to nothing.
        raise failure

    def ask_all(
        self,
        path: str,
        payloads: Sequence[Json],
        receive: Callable[[Json, int], T],
        *,
        hint: str = "",
        clock: Clock | None = None,
    ) -> list[T]:
        """`ask` for each payload, several at once, in the order of the payloads; `receive` is told which one it was.

        The first failure is raised at once, and cancels the requests that have not begun.
        """
        stop = Event()
        failures: list[BaseException] = []

        def one(place: int) -> T:
            try:
                given = payloads[place]
                return self.ask(path, given, lambda answer: receive(answer, place), hint=hint, clock=clock, stop=stop)
            except CancelledError:
                raise
            except BaseException as error:
                failures.append(error)
                stop.set()
                raise

        if len(payloads) <= 1 or self._concurrency == 1:
            return [one(place) for place in range(len(payloads))]
        pool = ThreadPoolExecutor(max_workers=min(self._concurrency, len(payloads)))
        try:
            futures = [pool.submit(one, place) for place in range(len(payloads))]
            wait(futures, return_when=FIRST_EXCEPTION)
            if failures:
                raise failures[0]
            return [future.result() for future in futures]
        finally:
            stop.set()
            pool.shutdown(wait=True, cancel_futures=True)

    def failure(self, path: str, what: str, *, part: Json = None, hint: str = "") -> ServerFailed:
        """Return the error for an invalid answer; `part` is the part of the answer that shows the fault."""
        excerpt = "" if part is None else f": {self.excerpt(part)}"
        return ServerFailed(f"{self._shown(path)} {self.plain(what)}{excerpt}", hint=hint or self._probe)

    def excerpt(self, part: Json) -> str:
        """Return the beginning of a part of an answer, in quotation marks, safe to print."""
        return quoted(beginning(part), self._secrets(), most=_EXCERPT)

    def plain(self, text: str) -> str:
        """A server's text on one line, without the secrets it was told and without what drives a terminal."""
        return printable(" ".join(hide(text, self._secrets()).split()))

    # ------------------------------------------------------------------------------------------ one request

    def _follow(self, redirect: Redirect) -> str:
        url, status = redirect.url, redirect.status
        if redirect.number > _MOST_REDIRECTS:
            message = f"{self.plain(shown(url))} redirects more than {_MOST_REDIRECTS} times"
            raise ServerFailed(message, hint=self._probe)
        try:
            target = resolve(url, redirect.location)
            same, elsewhere = origin(target) == origin(url), origin(target)
        except ValueError as error:
            same, elsewhere = False, str(error)
        if same and status in _KEEPS_METHOD:
            return target
        elsewhere = self.plain(shown(target) if same else elsewhere)
        raise ServerFailed(
            f"{origin(url)} redirects to {elsewhere} (status {status}), which is not followed",
            hint=f"set {self._section}base_url to where the API is; a key is for the server named there alone",
            status=status,
        )  # fmt: skip

    def _read(self, reply: Reply, path: str, hint: str) -> Json:
        if not 200 <= reply.status < 300:
            raise self._refusal(reply, path, hint)
        coding = reply.headers.get("Content-Encoding", "identity")
        if coding.strip().lower() != "identity":
            raise self.failure(path, "answers in a content coding that was not asked for", part=coding)
        too_large = self.failure(path, f"answers with more than {self._max_bytes} bytes")
        body = b"".join(limits.limit_size(reply.travelling, self._max_bytes, lambda: too_large))
        with suppress(ValueError):
            return parsed(body, reply.headers)
        said = body[:HEAD].decode("utf-8", "replace") if body else None
        raise self.failure(path, "answers with something that is not JSON", part=said)

    def _refusal(self, reply: Reply, path: str, hint: str) -> Exception:
        status = reply.status
        said = f"{status}: {self.excerpt(complaint(reply.head(_LONGEST_COMPLAINT)))}"
        if status in limits.PASSING:
            after = limits.retry_after(reply.headers.get("Retry-After", ""))
            return limits.TransientFailure(f"the server answered {said}", after=after, status=status)
        message = f"{self._shown(path)} answered {said}"
        if status in (401, 403):
            given = self._api_key_env
            name_it = f"name the key's variable: {self._section}api_key_env"
            hint = f"the key in ${given} was rejected: check it" if given else name_it
            return ServerUnavailable(message, hint=hint, status=status)
        if status == 404:
            # One status for two mistakes: a missing endpoint, and a missing model.
            hint = f"check {self._section}base_url, which goes without {path}, and the model's name; {self._probe}"
            return ServerUnavailable(message, hint=hint, status=status)
        return ServerFailed(message, hint=hint or self._probe, status=status)

    # ------------------------------------------------------------------------------------------ around it

    def _shown(self, path: str) -> str:
        return shown(endpoint(self._base_url, path))

    def _secrets(self) -> list[Secret]:
        """Return the texts that are never shown: the current key, and a query in the address, which may be a
        signature."""
        try:
            key = read_key(self._api_key_env)
        except RetrieveError:
            key = None
        query = urlsplit(self._base_url).query
        return [secret for secret in (key, Secret(query) if query else None) if secret]

    @property
    def _probe(self) -> str:
        """Command that shows a user the server's answer."""
        key = f' -H "Authorization: Bearer ${self._api_key_env}"' if self._api_key_env else ""
        return f"check the server: curl -sS {quote(self._shown('/models'))}{key}"


def wording(section: str) -> Wording:
    """Return the words in which errors speak of the address; `section` ends in a dot."""
    return Wording(
        called=f"{section}base_url",
        form="http://HOST:PORT/v1",
        user=f"the {section}base_url {{}} has a user in it, and settings are kept in plain text",
        instead=f"take it out; a key is read from an environment variable: {section}api_key_env",
    )


def endpoint(base_url: str, path: str) -> str:
    """The address of an endpoint under a base address, whose query (for example an API version) stays at the end."""
    parts = urlsplit(base_url)
    return urlunsplit((parts.scheme, parts.netloc, parts.path.rstrip("/") + path, parts.query, ""))


MOST = 4096
"""Characters that are looked at."""


def parsed(body: bytes, headers: Mapping[str, str]) -> Json:
    """Return the body as JSON; neither NaN nor Infinity is a number.

    Raises:
        TransientFailure: it is not JSON, and no header gave its length.
        ValueError: it is not JSON.
    """
    if "Content-Length" in headers or "Transfer-Encoding" in headers:
        return foreign_json(body)
    with suppress(ValueError):
        return foreign_json(body)
    raise limits.TransientFailure("the answer was cut short")


def complaint(body: bytes) -> str:
    """Return the message in the body of an error: from the usual places, or else the whole body."""
    with suppress(ValueError):
        said = foreign_json(body)
        while isinstance(said, dict):
            said = next((said[key] for key in ("error", "message", "detail") if said.get(key)), None)
        if said and isinstance(said, str):
            return said
    return body.decode("utf-8", "replace")


def beginning(part: Json) -> str:
    """Return the first characters of a value as Python writes it, or of a text unchanged.

    `str` would recurse into an answer of 1,000 nested lists until the interpreter gives up, and spell out 128 MB.
    """
    return (part if isinstance(part, str) else _REPR.repr(part))[:MOST]


_REPR = Repr()
_REPR.maxlevel = _REPR.maxlist = _REPR.maxdict = 20
_REPR.maxstring = MOST


class ServerFailed(ModelFailed):
    """A model's server gave an invalid answer, or rejected the request for its content."""

    kind = "server_failed"

    def __init__(self, message: str, *, hint: str = "", status: int = 0) -> None:
        """`status` is the answer's HTTP status if that is the failure, else 0."""
        super().__init__(message, hint=hint)
        self.status = status


class ServerUnavailable(Unavailable):
    """A model's server cannot be reached, reports an internal error, or requires a key."""

    def __init__(self, message: str, *, hint: str = "", status: int = 0) -> None:
        """`status` is the HTTP status of the last answer; 0 without an answer."""
        super().__init__(message, hint=hint)
        self.status = status


class OtherModel(IndexCorrupt, ModelFailed):
    """A server answers as another model than the one that the index was built with."""
