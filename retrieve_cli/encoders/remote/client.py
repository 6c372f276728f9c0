"""A client of JSON APIs: attempts and pauses, a bounded number of requests at once, a key that never shows.

Client.ask -> attempts -> POST, and where it is redirected to -> status -> body -> JSON -> receive(answer)
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, CancelledError, ThreadPoolExecutor, wait
from shlex import quote
from threading import BoundedSemaphore, Event
from typing import TYPE_CHECKING, Self, TypeVar
from urllib.parse import urlsplit

from retrieve_cli.contracts import Json
from retrieve_cli.encoders.remote.address import check_url, endpoint, origin, redirected
from retrieve_cli.encoders.remote.failures import Passing, ServerFailed, ServerUnavailable
from retrieve_cli.encoders.remote.key import Secret, hidden, read_key
from retrieve_cli.encoders.remote.reply import TooLarge, complaint, parse, read, reason, retry_after
from retrieve_cli.encoders.remote.sessions import Sessions
from retrieve_cli.errors import RetrieveError, printable
from retrieve_cli.web.addresses import shown

if TYPE_CHECKING:
    from requests import PreparedRequest, Response, Session

T = TypeVar("T")
Receive = Callable[[Json], T]
"""Makes of an answer what is wanted of it, or raises what `Client.failure` makes."""

_PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Answers of a server that may be well again in a moment."""
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_KEEPS_METHOD = frozenset({307, 308})
_MOST_REDIRECTS = 3
_LONGEST_CONNECT_S = 10.0
_LONGEST_PAUSE_S = 60.0
_HEAD = 4096
"""Bytes of an answer that are looked at to show its beginning."""
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
        sleep: Callable[[Event, float], object] = Event.wait,
    ) -> None:
        """`timeout_s` is for one whole answer; `concurrency` is the most requests at once, whoever asks.

        The first pause is of `backoff_s`, each one after twice as long, all shortened by chance so that clients
        spread out. `sleep` pauses for some seconds, or until the event.

        Raises:
            UsageError: `base_url` is no web address.
        """
        check_url(base_url)
        self._base_url = base_url
        self._api_key_env = api_key_env
        self._timeout_s = timeout_s
        self._retries = retries
        self._concurrency = concurrency
        self._backoff_s = backoff_s
        self._max_bytes = max_bytes
        self._sleep = sleep
        self._slots = BoundedSemaphore(concurrency)
        self._sessions = Sessions()

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
        self._sessions.close()

    def ask(self, path: str, payload: Json, receive: Receive[T], *, hint: str = "") -> T:
        """What `receive` makes of the answer to a POST; `hint` is for a server that refuses what the request says.

        Raises:
            ServerUnavailable: the server is not there, not well, or lets nobody in; or the key's variable is not set.
            ServerFailed: it refuses the request, sends it elsewhere, or answers with what is no JSON or too large.
            Unavailable: requests is not installed.
        """
        return self._answer(path, payload, receive, hint, Event())

    def ask_all(
        self, path: str, payloads: Sequence[Json], receive: Callable[[Json, int], T], *, hint: str = ""
    ) -> list[T]:
        """`ask` for each payload, several at once, in the order of the payloads; `receive` is told which one it was.

        The first failure is raised as soon as it is known, and ends what has not begun.
        """
        stop = Event()
        failures: list[BaseException] = []

        def one(place: int) -> T:
            try:
                return self._answer(path, payloads[place], lambda answer: receive(answer, place), hint, stop)
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

    def failure(self, path: str, what: str, *, said: Json = None, hint: str = "") -> ServerFailed:
        """The error for an answer that cannot be believed; `said` is the part of it that shows why."""
        excerpt = "" if said is None else f": {self.excerpt(said)}"
        return ServerFailed(f"{self._shown(path)} {self.plain(what)}{excerpt}", hint=hint or self._probe)

    def excerpt(self, said: Json) -> str:
        """The beginning of something the server said, in quotation marks, fit to be shown."""
        text = self.plain(str(said))
        return f"“{text[:_EXCERPT]}…”" if len(text) > _EXCERPT else f"“{text}”"

    def plain(self, text: str) -> str:
        """A server's text on one line, without the secrets it was told and without what drives a terminal."""
        return printable(" ".join(hidden(text, self._secrets()).split()))

    # ------------------------------------------------------------------------------------------ one request

    def _answer(self, path: str, payload: Json, receive: Receive[T], hint: str, stop: Event) -> T:
        """The attempts."""
        import orjson

        key = read_key(self._api_key_env)
        body = orjson.dumps(payload)
        trouble = Passing("")
        for attempt in range(self._retries + 1):
            if stop.is_set():
                raise CancelledError
            try:
                with self._slots, self._sessions.one() as session:
                    answer = self._attempt(session, path, body, key, hint)
            except Passing as passing:
                trouble = passing
            else:
                return receive(answer)
            if attempt == self._retries or trouble.after > _LONGEST_PAUSE_S:
                break
            self._sleep(stop, self._pause(attempt, trouble.after))
        asked = f"; it asks for a pause of {trouble.after:g} s" if trouble.after > _LONGEST_PAUSE_S else ""
        often = f" ({attempt + 1} attempts)" if attempt else ""
        raise ServerUnavailable(
            f"{self._shown(path)} gave no answer: {self.plain(str(trouble))}{asked}{often}",
            hint=self._probe, status=trouble.status,
        )  # fmt: skip

    def _attempt(self, session: Session, path: str, body: bytes, key: Secret | None, hint: str) -> Json:
        """The answer after all redirects."""
        until = time.monotonic() + self._timeout_s
        url = endpoint(self._base_url, path)
        for _ in range(_MOST_REDIRECTS + 1):
            response = self._post(session, url, body, key)
            try:
                location = response.headers.get("Location")
                if response.status_code not in _REDIRECTS or location is None:
                    return self._read(response, path, hint, until)
                url = self._follow(url, location, response.status_code)
            finally:
                response.close()
        raise self.failure(path, f"redirects more than {_MOST_REDIRECTS} times")

    def _post(self, session: Session, url: str, body: bytes, key: Secret | None) -> Response:
        import requests

        def authorize(request: PreparedRequest) -> PreparedRequest:
            # A callable even where there is nothing to add: without one, requests would look into ~/.netrc.
            if key:
                request.headers["Authorization"] = key.bearer
            return request

        timeout = (min(_LONGEST_CONNECT_S, self._timeout_s), self._timeout_s)
        failure: Exception
        try:
            return session.post(url, data=body, auth=authorize, timeout=timeout, stream=True, allow_redirects=False)
        except requests.exceptions.SSLError as error:
            failure = ServerUnavailable(
                f"{self.plain(shown(url))} offers no TLS to trust: {self.plain(reason(error))}",
                hint="check base_url and the certificates (REQUESTS_CA_BUNDLE names a file of your own)",
            )
        except requests.exceptions.ReadTimeout:
            failure = Passing(f"nothing came within {self._timeout_s:g} s")
        except (requests.exceptions.ConnectionError, requests.exceptions.Timeout) as error:
            failure = Passing(reason(error))
        except (requests.exceptions.RequestException, ValueError) as error:
            failure = ServerUnavailable(
                f"{self.plain(shown(url))} cannot be asked ({type(error).__name__})",
                hint="check base_url, and HTTP_PROXY and HTTPS_PROXY where they are set",
            )
        # Out here, where the error is not chained to one that carries the request and with it the key.
        raise failure

    def _follow(self, url: str, location: str, status: int) -> str:
        try:
            target = redirected(url, location)
        except ValueError as error:
            elsewhere = self.plain(str(error))
        else:
            if status in _KEEPS_METHOD:
                return target
            elsewhere = self.plain(shown(target))
        raise ServerFailed(
            f"{origin(url)} redirects to {elsewhere} (status {status}), which is not followed",
            hint="set base_url to where the API is; a key is for the server named there alone", status=status,
        )  # fmt: skip

    def _read(self, response: Response, path: str, hint: str, until: float) -> Json:
        if not 200 <= response.status_code < 300:
            raise self._refusal(response, path, hint)
        coding = response.headers.get("Content-Encoding", "identity")
        if coding.strip().lower() != "identity":
            raise self.failure(path, "answers in a content coding that was not asked for", said=coding)
        broken = ""
        body = b""
        try:
            body = read(response, most=self._max_bytes, until=until)
            return parse(body, response.headers)
        except TooLarge:
            broken = f"answers with more than {self._max_bytes} bytes"
        except ValueError:
            broken = "answers with what is no JSON"
        raise self.failure(path, broken, said=body[:_HEAD].decode("utf-8", "replace") if body else None)

    def _refusal(self, response: Response, path: str, hint: str) -> Exception:
        status = response.status_code
        said = f"{status}: {self.excerpt(complaint(response))}"
        if status in _PASSING:
            return Passing(f"the server answered {said}", after=retry_after(response.headers), status=status)
        message = f"{self._shown(path)} answered {said}"
        if status in (401, 403):
            given = self._api_key_env
            hint = f"the key in ${given} was refused: check it" if given else "name the key's variable: api_key_env"
            return ServerUnavailable(message, hint=hint, status=status)
        if status == 404:
            # One status for two mistakes: no such endpoint, no such model.
            hint = f"check base_url, which goes without {path}, and the model's name; {self._probe}"
            return ServerUnavailable(message, hint=hint, status=status)
        return ServerFailed(message, hint=hint or self._probe, status=status)

    # ------------------------------------------------------------------------------------------ around it

    def _pause(self, attempt: int, after: float) -> float:
        backoff = self._backoff_s * 2.0**attempt * random.uniform(0.5, 1)  # noqa: S311  spread is no secret
        return min(max(backoff, after), _LONGEST_PAUSE_S)

    def _shown(self, path: str) -> str:
        return shown(endpoint(self._base_url, path))

    def _secrets(self) -> list[Secret]:
        """What may never be shown: the key as it is now, and a query in the address, which may be a signature."""
        try:
            key = read_key(self._api_key_env)
        except RetrieveError:
            key = None
        query = urlsplit(self._base_url).query
        return [secret for secret in (key, Secret(query) if query else None) if secret]

    @property
    def _probe(self) -> str:
        """A command that shows a person what the server says."""
        key = f' -H "Authorization: Bearer ${self._api_key_env}"' if self._api_key_env else ""
        return f"see what the server says: curl -sS {quote(self._shown('/models'))}{key}"
