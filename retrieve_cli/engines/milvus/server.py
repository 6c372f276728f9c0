"""Connection to a Milvus server: the client, its failures as ours, versions, and waiting."""

from __future__ import annotations

import importlib
import logging
import os
import re
import sys
import time
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

from retrieve_cli.errors import IndexCorrupt, Unavailable, shortened
from retrieve_cli.http.addresses import shown
from retrieve_cli.http.secrets import Secret, hide

if TYPE_CHECKING:
    from retrieve_cli.config.index_settings import MilvusSettings

_VERSION = re.compile(r"(\d{1,4})\.(\d{1,4})")
_LITE = "milvus_lite"
_NOT_FOUND = 100
"""Code of Milvus and of Milvus Lite for a collection that does not exist."""
_PATIENCE_S = 600.0
"""Maximum time without progress while the server writes, builds an index or loads."""
_PAUSE_S = 0.1
_IMPORTING = Lock()


class MilvusVersion(NamedTuple):
    """Version of a server."""

    text: str
    number: tuple[int, int]
    """Major and minor number; Milvus Lite has its own numbering."""
    lite: bool

    @property
    def name(self) -> str:
        """Return product and version for people."""
        return f"Milvus Lite {self.text}" if self.lite else f"Milvus {self.text}"

    @property
    def has_sparse(self) -> bool:
        """True if it has sparse vectors: Milvus since 2.4, and Milvus Lite."""
        return self.lite or self.number >= (2, 4)


def parsed(text: str) -> MilvusVersion:
    """Return the version that a server reports: `v2.3.5`, `2.6.1-dev`, `milvus_lite-3.2.2`."""
    match = _VERSION.search(text)
    number = (int(match[1]), int(match[2])) if match else (0, 0)
    return MilvusVersion(text.removeprefix(f"{_LITE}-").removeprefix("v"), number, text.startswith(_LITE))


class MilvusServer:
    """A Milvus server, connected to at the first question. Safe to share between threads."""

    def __init__(self, settings: MilvusSettings, token: str | None) -> None:
        self._settings = settings
        self._secrets = [Secret(token)] if token else []
        self._lock = Lock()
        self._client: Any = None
        self._version: MilvusVersion | None = None

    @property
    def address(self) -> str:
        """Address without a user or password."""
        return shown(self._settings.url)

    @property
    def version(self) -> MilvusVersion:
        """Version that the server reports."""
        if self._version is None:
            self._version = parsed(str(self.ask("get_server_version")))
        return self._version

    def ask(self, method: str, *arguments: Any, seconds: float | None = None, **named: Any) -> Any:
        """Return the answer to one call of the client, waiting at most `timeout_s` or the seconds given.

        Raises:
            IndexCorrupt: the collection does not exist.
            Unavailable: the server cannot be reached, rejects the call, or does not answer in time.
        """
        client = self._connected()
        try:
            return getattr(client, method)(*arguments, timeout=seconds or self._settings.timeout_s, **named)
        except _failures() as error:
            raise self._failure(error) from None
        except ValueError as error:
            # gRPC reports a call on a connection that another thread has just closed as this.
            raise self._failure(error) from None

    def collections(self) -> list[str]:
        """Return the names of all collections."""
        return [str(name) for name in self.ask("list_collections")]

    def has(self, collection: str) -> bool:
        """Return True if there is a collection or an alias of that name."""
        return bool(self.ask("has_collection", collection))

    def target(self, alias: str) -> str | None:
        """Return the collection that an alias names, the name itself if it is a collection; None if it is neither."""
        return str(self.ask("describe_collection", alias)["collection_name"]) if self.has(alias) else None

    def count(self, collection: str, condition: str = "") -> int:
        """Return the exact number of rows, of all writes so far."""
        answer = self.ask("query", collection, filter=condition, output_fields=["count(*)"], consistency_level="Strong")
        return int(answer[0]["count(*)"])

    def flush(self, collection: str) -> None:
        """Make the server write the rows that it holds in memory to its storage."""
        self.ask("flush", collection, seconds=_PATIENCE_S)

    def load(self, collection: str) -> None:
        """Let the server load a collection for queries; quick if it is loaded."""
        self.ask("load_collection", collection, seconds=_PATIENCE_S)

    def wait_for_index(self, collection: str, field: str) -> None:
        """Wait until the index of all written rows is built."""
        progress, end = -1, time.monotonic() + _PATIENCE_S
        while time.monotonic() < end:
            state = self.ask("describe_index", collection, field) or {}
            indexed = int(state.get("indexed_rows", 0))
            if int(state.get("pending_index_rows", 0)) == 0 and state.get("state", "Finished") == "Finished":
                return
            if indexed > progress:
                progress, end = indexed, time.monotonic() + _PATIENCE_S
            time.sleep(_PAUSE_S)
        hint = "read the server's log; it may lack memory"
        raise Unavailable(f"Milvus at {self.address} does not finish the index of {collection}", hint=hint)

    def close(self) -> None:
        """Close the connection; the next question opens one."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    def _connected(self) -> Any:
        with self._lock:
            if self._client is None:
                client, url = client_package().MilvusClient, self._settings.url
                token = self._secrets[0].reveal() if self._secrets else ""
                try:
                    # `dedicated`: another engine object that is closed must not close this one's connection.
                    self._client = client(uri=url, token=token, timeout=self._settings.timeout_s, dedicated=True)
                except _failures() as error:
                    raise self._failure(error) from None
            return self._client

    def _failure(self, error: Exception) -> IndexCorrupt | Unavailable:
        """Return our error for one of the client, without the credential."""
        text = str(getattr(error, "message", "") or error)
        said = shortened(hide(text, self._secrets), 300)
        if getattr(error, "code", None) == _NOT_FOUND:
            return IndexCorrupt(f"Milvus at {self.address}: {said}", hint="run: retrieve engines push")
        hint = "check milvus.url, and that the server runs"
        if "auth" in text.lower() or "permission" in text.lower():
            hint = "check the token in the environment variable that milvus.token_env names"
        return Unavailable(f"Milvus at {self.address}: {said}", hint=hint)


def client_package() -> Any:
    """Return the client package, imported without its side effects.

    On import it reads a file `.env` into the environment, which could change settings and credentials of this process,
    and prints each failed call with its traceback on stderr, whose content may come from documents.
    """
    with _IMPORTING:
        if (loaded := sys.modules.get("pymilvus")) is not None:
            return loaded
        before = os.environ.get("PYTHON_DOTENV_DISABLED")
        os.environ["PYTHON_DOTENV_DISABLED"] = "1"
        try:
            package = importlib.import_module("pymilvus")
        except ImportError as error:
            hint = "pip install 'retrieve-cli[milvus]'"
            raise Unavailable("the package pymilvus is not installed", hint=hint) from error
        finally:
            if before is None:
                del os.environ["PYTHON_DOTENV_DISABLED"]
            else:
                os.environ["PYTHON_DOTENV_DISABLED"] = before
        for name in ("pymilvus", "pymilvus.milvus_client", "pymilvus.bulk_writer"):
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)
        return package


def _failures() -> tuple[type[Exception], ...]:
    grpc = importlib.import_module("grpc")
    return (client_package().MilvusException, grpc.RpcError, grpc.FutureTimeoutError)
