"""A client of a running `retrieve serve`, which answers in place of this process: `query.server`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from retrieve_cli.errors import Unavailable, UsageError
from retrieve_cli.http.addresses import Wording, check_url, shown
from retrieve_cli.http.limits import Clock, HttpFailed, TransientFailure, limit_size
from retrieve_cli.http.secrets import Secret, read_key
from retrieve_cli.http.transport import HttpRequest, Redirect, Transport

if TYPE_CHECKING:
    from retrieve_cli.config.query_settings import QuerySettings

HINT = "is it `retrieve serve`? query.server is its address"
_WORDING = Wording(
    "query.server", "http://HOST:PORT", "query.server {} contains a user", "name a variable: query.api_key_env"
)
_LONGEST = 64_000_000
"""Most bytes of an answer."""
_PATIENCE_S = 120.0


class ServerAnswer(NamedTuple):
    """An answer of the server, of any status."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class ServerClient:
    """Sends requests to the configured server, from any number of threads."""

    def __init__(self, query: QuerySettings, *, connections: int = 1) -> None:
        """Raises: UsageError: the address is missing or invalid. Unavailable: the variable of the key is not set."""
        self.server = (query.server or "").rstrip("/")
        check_url(self.server, _WORDING)
        key = read_key(query.api_key_env)
        self._authorization = None if key is None else Secret(key.bearer)
        self._transport = Transport(self.server, called="query.server", follow=self._stay, connections=connections)

    def post(self, path: str, body: bytes, headers: Mapping[str, str] | None = None) -> ServerAnswer:
        """Return the answer to a body of JSON.

        Raises:
            UsageError: the server redirects to another address.
            Unavailable: it cannot be reached, or its answer is too large.
        """
        sent = {"Content-Type": "application/json", **(headers or {})}
        request = HttpRequest(self.server + path, sent, body, self._authorization)
        try:
            with self._transport.open(request, Clock(_PATIENCE_S, _PATIENCE_S)) as reply:
                content = b"".join(limit_size(reply.decoded(), _LONGEST, self._too_large))
                return ServerAnswer(reply.status, reply.headers, content)
        except (TransientFailure, HttpFailed) as error:
            hint = "is it running? retrieve serve"
            raise Unavailable(f"{self.server} does not answer: {error}", hint=hint) from error

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()

    def _stay(self, redirect: Redirect) -> str:
        message = f"{self.server} leads to another address ({shown(redirect.location)})"
        raise UsageError(message, hint="name that address: --server URL")

    def _too_large(self) -> Exception:
        return Unavailable(f"the answer of {self.server} exceeds {_LONGEST:,} bytes", hint="ask for fewer results")
