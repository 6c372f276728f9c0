"""A server in front of one that speaks Elasticsearch's API, for clients of OpenSearch.

It holds every body of a request against OpenSearch's published API description, and translates the requests in which
the two differ and that the engine makes: the version, the list of plugins, vectors in mappings, and searches by
vectors. Everything else passes as it is; requests that the engine does not make are rejected.

`opensearch_api.json` is the part of github.com/opensearch-project/opensearch-api-specification at fbe9edeb that these
bodies reach, without keys that the engine does not use; an object may have no others.
"""

from __future__ import annotations

import json
import re
import socket
import threading
from functools import cache
from http.client import HTTPConnection, HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator, ValidationError
from waiting import PATIENCE_S

Json = Any

ENDPOINTS = {
    r"GET /": None,
    r"GET /_cat/plugins": None,
    r"GET /_snapshot/[^/]+": None,
    r"PUT /_snapshot/[^/]+": "body_snapshot_create_repository",
    r"GET /[^_/][^/]*/(_alias|_mapping)": None,
    r"POST /[^_/][^/]*/_refresh": None,
    r"DELETE /[^_/][^/]*": None,
    r"POST /_aliases": "body_indices_update_aliases",
    r"POST /_mget": "body_mget",
    r"PUT /_snapshot/[^/]+/[^/]+": "body_snapshot_create",
    r"PUT /[^_/][^/]*": "body_indices_create",
    r"PUT /[^_/][^/]*/_mapping": "body_indices_put_mapping",
    r"POST /[^_/][^/]*/_count": "body_count",
    r"POST /[^_/][^/]*/_msearch": "core_msearch__RequestItem",
    r"POST /[^_/][^/]*/_bulk": "core_bulk__OperationContainer",
}
"""Requests, and the schemas of their bodies, or of each line."""
DEFINITIONS = json.loads(Path(__file__).with_name("opensearch_api.json").read_text("utf-8"))
_PLUGINS = [{"name": "node", "component": "opensearch-knn", "version": "3.1.0.0"}]
_METHOD = ["hnsw", "innerproduct", "lucene"]
_MOST = 10_000


@cache
def validator(name: str) -> Draft202012Validator:
    return Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": DEFINITIONS})


def check(method: str, path: str, body: bytes) -> None:
    """Raises: ValueError, ValidationError: OpenSearch's description does not have such a request."""
    names = [name for pattern, name in ENDPOINTS.items() if re.fullmatch(pattern, f"{method} {path}")]
    if len(names) != 1 or bool(body) != (names[0] is not None):
        raise ValueError(f"{method} {path}")
    for line in body.splitlines():
        value = json.loads(line)
        if names[0] == "core_bulk__OperationContainer" and not value.keys() <= {"index", "delete"}:
            continue
        if (shape := (names[0], form(value))) not in CHECKED:
            validator(str(names[0])).validate(value)
            CHECKED.add(shape)


CHECKED = set[tuple[str | None, str]]()
"""Forms of bodies that were checked: checks are slow."""


def form(value: Json) -> str:
    """Return a value without numbers and without the texts of lists, all items of which are alike."""
    if isinstance(value, dict):
        return json.dumps({name: "text" if name == "_id" else form(inner) for name, inner in value.items()})
    if isinstance(value, list):
        return json.dumps(sorted({"text" if isinstance(each, str) else form(each) for each in value}))
    return value if isinstance(value, str) else type(value).__name__


class Translation:
    """The translating server, in threads of this process."""

    def __init__(self, port: int) -> None:
        """`port` is that of the server behind it, on this machine."""
        self._connections: set[socket.socket] = set()
        connections = self._connections

        class Handler(_Handler):
            behind = port

            def setup(self) -> None:
                super().setup()
                connections.add(self.connection)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        """Stop listening, and cut all connections."""
        self._server.shutdown()
        self._server.server_close()
        for connection in self._connections:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    behind = 0

    def answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        path = self.path.partition("?")[0]
        try:
            check(self.command, path, body)
            if path == "/_cat/plugins":
                return self.send(200, json.dumps(_PLUGINS).encode())
            if path.endswith("/_msearch"):
                body = b"".join(json.dumps(search(json.loads(line))).encode() + b"\n" for line in body.splitlines())
            elif self.command == "PUT" and path.count("/") == 1:
                body = json.dumps(index(json.loads(body))).encode()
        except (KeyError, TypeError, ValueError, ValidationError) as error:
            reason = {"error": {"type": "parsing_exception", "reason": f"unknown parameter {error}"}, "status": 400}
            return self.send(400, json.dumps(reason).encode())
        status, data = self.passed(body)
        if path == "/" and status == 200:
            facts = json.loads(data)
            facts["version"] |= {"distribution": "opensearch", "number": "3.1.0"}
            data = json.dumps(facts).encode()
        return self.send(status, data)

    do_GET = do_POST = do_PUT = do_DELETE = answer  # noqa: N815

    def passed(self, body: bytes) -> tuple[int, bytes]:
        """Return the answer of the server behind; without one the connection ends."""
        connection = HTTPConnection("127.0.0.1", self.behind, timeout=PATIENCE_S)
        try:
            connection.request(self.command, self.path, body or None, {"content-type": "application/json"})
            response = connection.getresponse()
            return response.status, response.read()
        except (OSError, HTTPException) as error:
            self.close_connection = True
            raise ConnectionAbortedError from error
        finally:
            connection.close()

    def send(self, status: int, data: bytes) -> None:
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def handle(self) -> None:
        try:
            super().handle()
        except OSError:
            self.close_connection = True

    def finish(self) -> None:
        try:
            super().finish()
        except OSError:
            self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Requests are not printed."""


def index(body: Json) -> Json:
    """Return the body that creates an index, in Elasticsearch's words."""
    body.get("settings", {}).get("index", {}).pop("knn", None)
    for name, field in body.get("mappings", {}).get("properties", {}).items():
        if field["type"] == "knn_vector":
            method = field["method"]
            parameters = method["parameters"]
            if [method["name"], method["space_type"], method["engine"]] != _METHOD:
                raise ValueError(name)
            options = {"type": "hnsw", "m": parameters["m"], "ef_construction": parameters["ef_construction"]}
            body["mappings"]["properties"][name] = {
                "type": "dense_vector",
                "dims": field["dimension"],
                "index": True,
                "similarity": "max_inner_product",
                "index_options": options,
            }
    return body


def search(body: Json) -> Json:
    """Return the body of a search, in Elasticsearch's words."""
    query = body.get("query", {})
    if "knn" in query:
        ((field, clause),) = query["knn"].items()
        if not 0 < clause["k"] <= _MOST or set(clause) - {"vector", "k", "method_parameters", "filter"}:
            raise ValueError("k")
        candidates = min(_MOST, max(clause["k"], clause["method_parameters"]["ef_search"]))
        knn = {"field": field, "query_vector": clause["vector"], "k": clause["k"], "num_candidates": candidates}
        body["query"] = {"knn": knn | ({"filter": clause["filter"]} if "filter" in clause else {})}
    return body
