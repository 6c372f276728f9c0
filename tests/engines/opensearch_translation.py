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
from functools import cache
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator, ValidationError
from told_servers import Answer, Asked
from waiting import PATIENCE_S

Json = Any

ENDPOINTS = {
    r"GET /": None,
    r"GET /_cat/plugins": None,
    r"PUT /_snapshot/[^/]+": "body_snapshot_create_repository",
    r"GET /_alias/[^/]+": None,
    r"GET /[^_/][^/]*/_mapping": None,
    r"POST /[^_/][^/]*/_refresh": None,
    r"DELETE /[^_/][^/]*": None,
    r"POST /_aliases": "body_indices_update_aliases",
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
        validator(str(names[0])).validate(value)


def translated(asked: Asked, port: int) -> Answer:
    """Return the answer to a request, of the server at a port of this machine where it needs one."""
    path, body = asked.path.partition("?")[0], asked.body
    try:
        check(asked.method, path, body)
        if path == "/_cat/plugins":
            return _answer(200, json.dumps(_PLUGINS).encode())
        if path.endswith("/_msearch"):
            body = b"".join(json.dumps(search(json.loads(line))).encode() + b"\n" for line in body.splitlines())
        elif asked.method == "PUT" and path.count("/") == 1:
            body = json.dumps(index(json.loads(body))).encode()
    except (KeyError, TypeError, ValueError, ValidationError) as error:
        reason = {"error": {"type": "parsing_exception", "reason": f"unknown parameter {error}"}, "status": 400}
        return _answer(400, json.dumps(reason).encode())
    connection = HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    try:
        connection.request(asked.method, asked.path, body or None, {"content-type": "application/json"})
        response = connection.getresponse()
        status, data = response.status, response.read()
    except (OSError, HTTPException):
        return Answer(drop=True)
    finally:
        connection.close()
    if path == "/" and status == 200:
        facts = json.loads(data)
        facts["version"] |= {"distribution": "opensearch", "number": "3.1.0"}
        data = json.dumps(facts).encode()
    return _answer(status, data)


def _answer(status: int, body: bytes) -> Answer:
    return Answer(body, status, {"content-type": "application/json"})


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
