"""Requests to an OpenSearch server: every failure becomes an error that a user can act on.

Checks of a server: its version, its plugins, and how it is reached.
"""

from __future__ import annotations

import base64
import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

import orjson

from retrieve_cli.contracts.values import Json
from retrieve_cli.errors import IndexCorrupt, RetrieveError, Unavailable, UsageError, shortened

if TYPE_CHECKING:
    from retrieve_cli.config.index_settings import OpensearchSettings


_BULK_BYTES = 5_000_000
"""Size of a request; servers of some providers accept 10 MB at most."""
_CONNECTIONS = 64
"""Connections that are kept open: a batch asks for 16 queries at a time."""
_RESENT = 6
"""Attempts for documents that a busy server rejects; waits of 0.1 s, doubled each time, lie between them."""
_TOO_MANY_REQUESTS = 429
_BAD_REQUEST = 400

Line = tuple[str, bytes]
"""Id of a document, and the document as JSON."""


class ResourceMissing(RetrieveError):
    """The index, document or repository of a request is not there."""


class RequestRejected(RetrieveError):
    """The server understands a request and rejects it, with its reason."""


class OpensearchVersion(NamedTuple):
    """Version of a server."""

    distribution: str
    number: str

    def __str__(self) -> str:
        return f"{self.distribution} {self.number}"

    @property
    def at_least(self) -> tuple[int, int]:
        """Major and minor number; (0, 0) if the server writes them in another way."""
        numbers = [int(part) if part.isascii() and part.isdecimal() else 0 for part in self.number.split(".")[:2]]
        return (numbers[0], numbers[1]) if len(numbers) > 1 else (0, 0)


class OpensearchServer:
    """Connections to a server. The first request opens them; threads may share them."""

    def __init__(self, settings: OpensearchSettings, *, user: str | None, password: str | None) -> None:
        parts = urlsplit(settings.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            hint = "write it as http://HOST:9200 or https://HOST:9200"
            raise UsageError("opensearch.url is not the address of a server", hint=hint)
        if parts.username is not None or parts.password is not None:
            hint = "name environment variables in opensearch.user_env and password_env instead"
            raise UsageError("opensearch.url has a user name or a password in it", hint=hint)
        self.address = settings.url
        self._timeout = settings.timeout_s
        self._credential = f"{user or ''}:{password or ''}" if user is not None or password is not None else None
        self._client: Any = None
        self._lock = Lock()

    def version(self) -> OpensearchVersion:
        """Return the version that the server reports."""
        facts = self.ask("GET", "/")["version"]
        return OpensearchVersion(str(facts.get("distribution", "elasticsearch")), str(facts.get("number", "0")))

    def plugins(self) -> set[str] | None:
        """Return the names of the installed plugins; None if the credential may not list them."""
        try:
            installed = self.ask("GET", "/_cat/plugins", params={"format": "json"})
            return {str(plugin["component"]) for plugin in installed}
        except (RequestRejected, ResourceMissing):
            return None

    def ask(
        self,
        method: str,
        path: str,
        body: Json = None,
        *,
        params: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> Json:
        """Return the answer to a request. `body` is a value for JSON, or bytes.

        Raises:
            ResourceMissing: the server has nothing at this path.
            RequestRejected: the server reports that the request is invalid or not allowed.
            Unavailable: the server does not answer, or rejects the credential.
        """
        client = self._opened()
        from opensearchpy import exceptions as failures

        if body is not None and not isinstance(body, bytes):
            body = orjson.dumps(body, option=orjson.OPT_SERIALIZE_NUMPY)
        options = {"params": dict(params or {}), "body": body, "timeout": timeout or self._timeout}
        try:
            return client.transport.perform_request(method, path, **options)
        except failures.TransportError as error:
            raise self._failure(error) from error
        # The client takes the body of an error for an object, and parses without a bound on depth.
        except (failures.SerializationError, ValueError, TypeError, AttributeError, RecursionError) as error:
            hint = "check opensearch.url"
            raise Unavailable(f"{self.address} does not answer as OpenSearch does", hint=hint) from error

    def store(self, index: str, lines: Iterable[Line]) -> None:
        """Store documents under their ids; one that is there already is replaced.

        Raises:
            Unavailable: the server does not store one of them.
        """
        batch: list[Line] = []
        size = 0
        for line in lines:
            if batch and size + len(line[1]) > _BULK_BYTES:
                self._store_batch(index, batch)
                batch, size = [], 0
            batch.append(line)
            size += len(line[1])
        if batch:
            self._store_batch(index, batch)

    def close(self) -> None:
        """Close the connections; a later request opens them again."""
        with self._lock:
            if self._client is not None:
                self._client.close()
                self._client = None

    def _store_batch(self, index: str, batch: Sequence[Line]) -> None:
        """Store some documents with one request, and those that a busy server rejects with further ones."""
        for attempt in range(_RESENT):
            body = b"".join(b'{"index":{"_id":%b}}\n%b\n' % (orjson.dumps(id_), document) for id_, document in batch)
            try:
                answer = self.ask("POST", f"/{index}/_bulk", body)
            except (ResourceMissing, RequestRejected) as error:
                raise Unavailable(f"OpenSearch does not store documents in {index}: {error}", hint=_DISK) from error
            items = [item["index"] for item in answer["items"]]
            if len(items) != len(batch):
                raise Unavailable(f"OpenSearch answered {len(items)} of {len(batch)} documents", hint="try again")
            rejected = []
            for line, item in zip(batch, items, strict=True):
                if item["status"] == _TOO_MANY_REQUESTS:
                    rejected.append(line)
                elif item["status"] >= _BAD_REQUEST:
                    message = f"OpenSearch does not store document {line[0]} of {index}: {_why(item.get('error'))}"
                    raise Unavailable(message, hint=_DISK)
            if not rejected:
                return
            batch = rejected
            time.sleep(0.1 * 2**attempt)
        message = f"OpenSearch is too busy to store documents in {index}"
        raise Unavailable(message, hint="try again when its load is lower")

    def _failure(self, error: Any) -> Exception:
        from opensearchpy import exceptions as failures

        if isinstance(error, failures.NotFoundError):
            return ResourceMissing(f"OpenSearch at {self.address}: {_reason(error)}")
        if isinstance(error, failures.AuthenticationException):
            hint = "set the variables that opensearch.user_env and password_env name"
            return Unavailable(f"OpenSearch at {self.address} rejects the credential", hint=hint)
        if isinstance(error, failures.ConnectionTimeout):
            hint = "raise opensearch.timeout_s, or check the load of the server"
            return Unavailable(f"OpenSearch at {self.address} does not answer in time", hint=hint)
        if isinstance(error, failures.ConnectionError):
            message = f"OpenSearch at {self.address} cannot be reached: {shortened(str(error.error))}"
            return Unavailable(message, hint="start the server, or edit opensearch.url")
        status = error.status_code if isinstance(error.status_code, int) else 0
        if status == _TOO_MANY_REQUESTS or status >= 500:
            hint = "check the health of the server, and try again"
            return Unavailable(f"OpenSearch at {self.address} failed ({status}): {_reason(error)}", hint=hint)
        return RequestRejected(f"OpenSearch at {self.address}: {_reason(error)}")

    def _opened(self) -> Any:
        with self._lock:
            if self._client is not None:
                return self._client
            try:
                from opensearchpy import OpenSearch
            except ModuleNotFoundError as error:
                hint = "pip install 'retrieve-cli[opensearch]'"
                raise Unavailable("the package opensearch-py is not installed", hint=hint) from error
            # Its warnings repeat the errors, and would be printed among the output.
            logging.getLogger("opensearch").addHandler(logging.NullHandler())
            options: dict[str, Any] = {"headers": {}, "pool_maxsize": _CONNECTIONS, "http_compress": False}
            if self._credential is not None:
                # The client encodes credentials as Latin-1, which rejects some passwords.
                options["headers"]["authorization"] = "Basic " + base64.b64encode(self._credential.encode()).decode()
            self._client = OpenSearch([self.address], max_retries=1, retry_on_status=(), **options)
            return self._client


_DISK = "check the free disk space and the log of the server"


def corrupt(index: str, reason: object = "it is not there") -> IndexCorrupt:
    """Return the error for an index of a generation that is damaged or missing."""
    hint = "run: retrieve engines push"
    return IndexCorrupt(f"index {index} of OpenSearch is damaged: {shortened(str(reason))}", hint=hint)


def _reason(error: Any) -> str:
    info = error.info if isinstance(error.info, dict) else {}
    return _why(info.get("error")) if info.get("error") else shortened(str(error.error))


def _why(error: Json) -> str:
    if not isinstance(error, dict):
        return shortened(str(error))
    roots = error.get("root_cause")
    causes = [error, *(roots if isinstance(roots, list) else ())][-1], error.get("caused_by")
    reasons = dict.fromkeys(str(cause["reason"]) for cause in causes if isinstance(cause, dict) and cause.get("reason"))
    return shortened("; ".join(reasons) or str(error.get("type", "unknown")), 300)


_OLDEST = (2, 16)
"""The first version whose searches for vectors take `ef_search`."""
_PLUGIN = "opensearch-knn"
_INSTALL = "install it on every node: bin/opensearch-plugin install opensearch-knn; or set engines.dense to local"


def require_vectors(server: OpensearchServer) -> None:
    """Check that the server can hold vectors.

    Raises:
        Unavailable: it is too old, or the k-NN plugin is not installed.
    """
    for message, hint in server_problems(server):
        raise Unavailable(message, hint=hint)


def server_problems(server: OpensearchServer) -> Sequence[tuple[str, str]]:
    """Return what keeps a server from being used, or used well, each with the edit or command that fixes it."""
    try:
        version = server.version()
    except RetrieveError as error:
        return [(error.message, error.hint or _UPGRADE)]
    if version.distribution != "opensearch" or version.at_least < _OLDEST:
        message = f"the server is {version}, and OpenSearch 2.16 or later is needed"
        return [(message, _UPGRADE)]
    plugins = server.plugins()
    if plugins is not None and _PLUGIN not in plugins:
        return [(f"OpenSearch at {server.address} has no k-NN plugin, which vectors need", _INSTALL)]
    return []


_UPGRADE = "run OpenSearch 2.16 or later, or edit opensearch.url"
