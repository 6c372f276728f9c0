"""Connection to a Qdrant server: one function that sends a request, and its failures in the program's words.

The package qdrant-client opens the connection and sends the credential. Bodies are made and read here with orjson: the
client's own models take 4 times as long for vectors and 10 times as long for long lists of rows.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import orjson

from retrieve_cli.contracts.values import Json
from retrieve_cli.errors import IndexCorrupt, Unavailable, UsageError, printable, quoted, shortened
from retrieve_cli.http.secrets import Secret, hide
from retrieve_cli.untrusted.foreign_json import foreign_json

if TYPE_CHECKING:
    from qdrant_client import QdrantClient

_HEADERS = {"Content-Type": "application/json"}
_WRONG = "check that qdrant.url is the address of Qdrant"


class Missing(IndexCorrupt):
    """A collection that the server does not have."""

    kind = "index_corrupt"


class QdrantServer:
    """A Qdrant server. The connection is opened by the first request; threads may share it."""

    def __init__(self, url: str, *, api_key: str | None, timeout_s: float) -> None:
        """Prepare the connection to `url`, with a limit in seconds for each step of a request.

        Raises:
            UsageError: the URL is not one of a server.
        """
        self.address = _address(url)
        self.has_key = api_key is not None
        self._key = Secret(api_key or "")
        self._url, self._timeout_s = url, timeout_s
        self._lock = threading.Lock()
        self._client: QdrantClient | None = None

    def call(
        self,
        method: str,
        path: str,
        *,
        body: Json | bytes = None,
        wait: bool | None = None,
        repeatable: bool = True,
        timeout_s: float | None = None,
    ) -> Json:
        """Send a request and return the `result` of its answer.

        `body` is encoded as JSON; NumPy arrays may be part of it. With `wait` the server answers a change when it is
        visible to queries. A request that is `repeatable` is sent once more if the connection is dropped.

        Raises:
            Missing: the server does not know the collection.
            Unavailable: the server cannot be reached, does not answer in time, or rejects the request.
        """
        request: dict[str, Any] = {"timeout": timeout_s or self._timeout_s}
        if body is not None:
            content = body if isinstance(body, bytes) else orjson.dumps(body, option=orjson.OPT_SERIALIZE_NUMPY)
            request |= {"content": content, "headers": _HEADERS}
        if wait is not None:
            request["params"] = {"wait": str(wait).lower()}
        answer = self._sent(method, path, request, attempts=2 if repeatable else 1)
        if not isinstance(answer, dict):
            message = f"{self.address} answers {quoted(path)} with something else than an object of JSON"
            raise Unavailable(message, hint=_WRONG)
        return answer.get("result", answer)

    def close(self) -> None:
        """Close the connection; a later request opens it again."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    def _sent(self, method: str, path: str, request: Mapping[str, Any], *, attempts: int) -> Json:
        client = self._connected()
        from qdrant_client.common.client_exceptions import QdrantException, ResourceExhaustedResponse
        from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

        while True:
            attempts -= 1
            try:
                return client.http.client.request(type_=Any, method=method, url=path, **request)
            except UnexpectedResponse as error:
                raise self._rejection(error.status_code or 0, error.content, path) from None
            except ResponseHandlingException as error:
                # Only `http/` may import the HTTP client whose failures these are, so that they are known by name.
                late = "Timeout" in type(error.source).__name__
                if late:
                    message = f"Qdrant at {self.address} does not answer within {self._timeout_s:g} s"
                    raise Unavailable(message, hint="raise qdrant.timeout_s") from None
                if not attempts:
                    message = f"cannot reach Qdrant at {self.address}: {self._safe(str(error.source))}"
                    raise Unavailable(message, hint="start the server or change qdrant.url") from None
            except ResourceExhaustedResponse as error:
                text = self._safe(error.message)
                hint = "try again later, or raise the limits of strict mode in the server"
                raise Unavailable(f"Qdrant at {self.address} limits the rate of requests: {text}", hint=hint) from None
            except (QdrantException, ValueError, TypeError, ArithmeticError, RecursionError):
                message = f"{self.address} answers {quoted(path)} with something else than JSON"
                raise Unavailable(message, hint=_WRONG) from None

    def _connected(self) -> QdrantClient:
        with self._lock:
            if self._client is None:
                try:
                    from qdrant_client import QdrantClient
                except ImportError:
                    message = "the package qdrant-client is not installed"
                    raise Unavailable(message, hint="pip install 'retrieve-cli[qdrant]'") from None
                # The key travels as a header of every request: as a parameter the client prints a warning if the
                # address is not encrypted, which `retrieve doctor` reports.
                key: dict[str, Any] = {"metadata": {"api-key": self._key.reveal()}} if self.has_key else {}
                self._client = QdrantClient(url=self._url, check_compatibility=False, **key)
            return self._client

    def _rejection(self, status: int, content: bytes, path: str) -> Unavailable | Missing:
        text = self._safe(_error_text(content))
        if status in (401, 403):
            hint = "set the environment variable that qdrant.api_key_env names to a key with write access"
            return Unavailable(f"Qdrant at {self.address} rejects the credential: {text}", hint=hint)
        if status == 404:
            return Missing(f"Qdrant at {self.address}: {text}", hint="run `retrieve engines push`")
        if status == 413:
            hint = "raise service.max_request_size_mb in the configuration of the server"
        elif status >= 500:
            hint = "see the log of the server"
        else:
            hint = "see the log of the server, and its limits"
        request = path.rpartition("/")[2]
        return Unavailable(f"Qdrant at {self.address} answers {status} to a request for {request}: {text}", hint=hint)

    def _safe(self, text: str) -> str:
        return shortened(printable(hide(text, [self._key])), 300)


def _address(url: str) -> str:
    """Return the address of a URL without a user and password."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host or parts.scheme not in ("http", "https"):
        raise UsageError("qdrant.url must be an address such as http://localhost:6333", hint="change qdrant.url")
    named = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{named}:{port or 6333}"


def _error_text(content: bytes) -> str:
    """Return the sentence of a failed request: `{"status": {"error": "…"}}`, or the beginning of the answer."""
    try:
        status = foreign_json(content)["status"]
        return str(status["error"] if isinstance(status, dict) else status)
    except (ValueError, KeyError, TypeError, IndexError):
        return content[:300].decode("utf-8", "replace") or "no reason given"
