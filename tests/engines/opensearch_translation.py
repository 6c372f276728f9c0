"""A server in front of one that speaks Elasticsearch's API, for clients of OpenSearch.

It translates the requests in which the two differ and that the engine makes: the version, the list of plugins, vectors
in mappings, and searches by vectors. Everything else passes as it is. Field names, parameters and the formula of scores
are those that OpenSearch documents for its k-NN plugin; anything else in these requests is rejected.
"""

from __future__ import annotations

import json
import socket
import threading
from http.client import HTTPConnection, HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from waiting import PATIENCE_S

Json = Any

_PLUGINS = [{"name": "node", "component": "opensearch-knn", "version": "3.1.0.0"}]


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
            if path == "/_cat/plugins":
                return self.send(200, json.dumps(_PLUGINS).encode())
            if path.endswith("/_msearch"):
                body = b"".join(json.dumps(search(json.loads(line))).encode() + b"\n" for line in body.splitlines())
            elif body and self.command == "PUT" and path.count("/") == 1:
                body = json.dumps(index(json.loads(body))).encode()
        except (KeyError, TypeError, ValueError) as error:
            reason = {"error": {"type": "parsing_exception", "reason": f"unknown parameter {error}"}, "status": 400}
            return self.send(400, json.dumps(reason).encode())
        status, data = self.passed(body)
        if path == "/" and status == 200:
            facts = json.loads(data)
            facts["version"] |= {"distribution": "opensearch", "number": "3.1.0"}
            data = json.dumps(facts).encode()
        return self.send(status, data)

    do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = answer  # noqa: N815

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
            expected = {"type": "knn_vector", "dimension": field["dimension"], "method": method}
            parameters = method["parameters"]
            if field != expected or [method["name"], method["space_type"], method["engine"]] != _METHOD:
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


_METHOD = ["hnsw", "innerproduct", "lucene"]
_MOST = 10_000
