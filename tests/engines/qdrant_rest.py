"""A substitute for a Qdrant server, as a process: its REST interface, as far as the engine uses it, over Qdrant's core.

    python qdrant_rest.py FOLDER [API_KEY]

prints its port. Every request is held against the forms of qdrant_api.py. Changes are applied in the order of their
arrival, and optimizing happens in the background, as in Qdrant. Snapshots are archives of the core's files.
"""

import json
import shutil
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import orjson
import qdrant_edge as edge

sys.path.insert(0, str(Path(__file__).parent))
from qdrant_api import COLLECTION, ENDPOINTS, faults

VERSION = "1.19.0"
HIDDEN = "hidden"
"""Name of the sparse vector of a collection without vectors: the core needs one."""
NO_INDEX = 2**40
"""A size that no collection reaches, for a threshold of 0, which means that no index is built."""
SCHEMAS = {"keyword": edge.PayloadSchemaType.Keyword, "integer": edge.PayloadSchemaType.Integer}


class Problem(Exception):
    """A request that is answered with a status other than 200."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class Collection:
    """A collection: a shard of the core, and its configuration."""

    def __init__(self, folder: Path, config: dict[str, Any]) -> None:
        self.folder, self.config, self.lock, self.waiting = folder, config, threading.RLock(), 0
        self.shard = edge.EdgeShard.create(str(folder), self._config())

    def _config(self) -> edge.EdgeConfig:
        scalar = self.config.get("quantization_config", {}).get("scalar")
        quantization = None
        if scalar:
            quantile = scalar.get("quantile")
            if quantile is not None and not 0.5 <= quantile <= 1.0:
                raise Problem(422, "quantile: must be between 0.5 and 1.0")
            quantization = edge.ScalarQuantizationConfig(
                edge.ScalarType.Int8, quantile=quantile, always_ram=scalar.get("always_ram")
            )
        vectors = {
            name: edge.EdgeVectorParams(each["size"], getattr(edge.Distance, each["distance"]))
            for name, each in self.config.get("vectors", {}).items()
        }
        sparse = dict.fromkeys(self.config.get("sparse_vectors", {}), edge.EdgeSparseVectorParams())
        hnsw = self.config.get("hnsw_config", {})
        threshold = self.config.get("optimizers_config", {}).get("indexing_threshold", 10_000)
        return edge.EdgeConfig(
            vectors=vectors or None,
            sparse_vectors=sparse if sparse or vectors else {HIDDEN: edge.EdgeSparseVectorParams()},
            hnsw_config=edge.HnswIndexConfig(hnsw.get("m", 16), hnsw.get("ef_construct", 100), 10_000),
            quantization_config=quantization,
            optimizers=edge.EdgeOptimizersConfig(default_segment_number=1, indexing_threshold=threshold or NO_INDEX),
            wal_enabled=False,
        )

    def change(self, operation: Any) -> dict[str, Any]:
        with self.lock:
            self.shard.update(operation)
        return {"operation_id": 0, "status": "completed"}

    def configure(self, diff: dict[str, Any]) -> None:
        """Change the configuration; optimizing begins in the background."""
        self.waiting += 1
        self.config = {**self.config, "optimizers_config": {**self.config.get("optimizers_config", {}), **diff}}
        threading.Thread(target=self._optimize, daemon=True).start()

    def _optimize(self) -> None:
        with self.lock:
            self.shard.close()
            self.shard = edge.EdgeShard.load(str(self.folder), self._config())
            self.shard.optimize()
            self.waiting -= 1

    def info(self) -> dict[str, Any]:
        return {
            "status": "yellow" if self.waiting else "green",
            "optimizer_status": "ok",
            "indexed_vectors_count": 0 if self.waiting else self.shard.info().indexed_vectors_count,
        }


def filter_of(value: dict[str, Any] | None) -> Any:
    if value is None:
        return None
    must, must_not = ([_condition(each) for each in value.get(name, [])] for name in ("must", "must_not"))
    return edge.Filter(must=must or None, must_not=must_not or None)


def _condition(value: dict[str, Any]) -> Any:
    if "has_id" in value:
        if len(set(value["has_id"])) < len(value["has_id"]):
            raise Problem(422, "has_id: has items that are not unique")
        return edge.HasIdCondition(set(value["has_id"]))
    return edge.FieldCondition(value["key"], match=edge.MatchAny(value["match"]["any"]))


def _vectors(value: dict[str, Any]) -> dict[str, Any]:
    return {
        name: edge.SparseVector(each["indices"], each["values"]) if isinstance(each, dict) else each
        for name, each in value.items()
    }


def _record(record: Any) -> dict[str, Any]:
    return {"id": _id(record.id), "payload": record.payload}


def _id(value: Any) -> Any:
    return value if isinstance(value, int) else str(value)


class Rest:
    """The endpoints."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.lock = folder, threading.RLock()
        self.collections: dict[str, Collection] = {}
        self.aliases: dict[str, str] = {}

    def collection(self, name: str) -> Collection:
        found = self.collections.get(self.aliases.get(name, name))
        if found is None:
            raise Problem(404, f"Not found: Collection `{name}` doesn't exist!")
        return found

    def root(self, name: str, body: Any) -> Any:
        return {"title": "qdrant - vector search engine", "version": VERSION}

    def list(self, name: str, body: Any) -> Any:
        return {"collections": [{"name": each} for each in self.collections]}

    def list_aliases(self, name: str, body: Any) -> Any:
        return {"aliases": [{"alias_name": key, "collection_name": each} for key, each in self.aliases.items()]}

    def change_aliases(self, name: str, body: Any) -> Any:
        with self.lock:
            aliases = dict(self.aliases)
            for action in body["actions"]:
                ((kind, value),) = action.items()
                if kind == "delete_alias":
                    if aliases.pop(value["alias_name"], None) is None:
                        raise Problem(404, f"Not found: Alias {value['alias_name']} does not exists!")
                    continue
                if value["collection_name"] not in self.collections:
                    raise Problem(404, f"Not found: Collection `{value['collection_name']}` doesn't exist!")
                if value["alias_name"] in self.collections:
                    raise Problem(409, f"Collection `{value['alias_name']}` already exists!")
                aliases[value["alias_name"]] = value["collection_name"]
            self.aliases = aliases
        return True

    def create(self, name: str, body: Any) -> Any:
        with self.lock:
            if name in self.collections or name in self.aliases:
                raise Problem(409, f"Wrong input: Collection `{name}` already exists!")
            self.collections[name] = Collection(self.folder / "collections" / name, body)
        return True

    def remove(self, name: str, body: Any) -> Any:
        with self.lock:
            collection = self.collections.pop(name, None)
            self.aliases = {key: each for key, each in self.aliases.items() if each != name}
        if collection is None:
            return False
        with collection.lock:
            collection.shard.close()
            shutil.rmtree(collection.folder, ignore_errors=True)
        return True

    def info(self, name: str, body: Any) -> Any:
        return self.collection(name).info()

    def configure(self, name: str, body: Any) -> Any:
        self.collection(name).configure(body["optimizers_config"])
        return True

    def index(self, name: str, body: Any) -> Any:
        schema = SCHEMAS[body["field_schema"]]
        return self.collection(name).change(edge.UpdateOperation.create_field_index(body["field_name"], schema))

    def upsert(self, name: str, body: Any) -> Any:
        points = [edge.Point(each["id"], _vectors(each["vector"]), each.get("payload")) for each in body["points"]]
        return self.collection(name).change(edge.UpdateOperation.upsert_points(points))

    def delete(self, name: str, body: Any) -> Any:
        chosen = filter_of(body["filter"])
        return self.collection(name).change(edge.UpdateOperation.delete_points_by_filter(chosen))

    def retrieve(self, name: str, body: Any) -> Any:
        collection, shown = self.collection(name), (body.get("with_payload", True), body.get("with_vector", False))
        with collection.lock:
            return [_record(each) for each in collection.shard.retrieve(body["ids"], *shown)]

    def count(self, name: str, body: Any) -> Any:
        collection, request = self.collection(name), edge.CountRequest(exact=True, filter=filter_of(body.get("filter")))
        with collection.lock:
            return {"count": collection.shard.count(request)}

    def query(self, name: str, body: Any) -> Any:
        collection, query, params = self.collection(name), body["query"], body.get("params", {})
        if body.get("limit", 10) < 1:
            raise Problem(422, "limit: must be at least 1")
        if isinstance(query, dict):
            if len(set(query["indices"])) < len(query["indices"]):
                raise Problem(422, "query.indices: must be unique")
            query = edge.SparseVector(query["indices"], query["values"])
        request = edge.QueryRequest(
            limit=body.get("limit", 10),
            query=edge.Query.Nearest(query, using=body.get("using")),
            filter=filter_of(body.get("filter")),
            params=edge.SearchParams(
                hnsw_ef=params.get("hnsw_ef"),
                quantization=edge.QuantizationSearchParams(**params.get("quantization", {})),
            ),
        )
        with collection.lock:
            points = collection.shard.query(request)
        return {"points": [{"id": _id(each.id), "version": each.version, "score": each.score} for each in points]}


METHODS: dict[tuple[str, str], Callable[[Rest, str, Any], Any]] = {
    ("GET", "/"): Rest.root,
    ("GET", "/aliases"): Rest.list_aliases,
    ("GET", "/collections"): Rest.list,
    ("POST", "/collections/aliases"): Rest.change_aliases,
    ("GET", COLLECTION): Rest.info,
    ("DELETE", COLLECTION): Rest.remove,
    ("PUT", COLLECTION): Rest.create,
    ("PATCH", COLLECTION): Rest.configure,
    ("PUT", COLLECTION + "/index"): Rest.index,
    ("PUT", COLLECTION + "/points"): Rest.upsert,
    ("POST", COLLECTION + "/points"): Rest.retrieve,
    ("POST", COLLECTION + "/points/delete"): Rest.delete,
    ("POST", COLLECTION + "/points/count"): Rest.count,
    ("POST", COLLECTION + "/points/query"): Rest.query,
}


def _route(method: str, path: str) -> tuple[tuple[str, str], str]:
    """Return the endpoint of a request and the collection that it names."""
    if (method, path) in METHODS:
        return (method, path), ""
    pieces = path.split("/")
    name = pieces[2] if len(pieces) > 2 else ""
    endpoint = method, "/".join([*pieces[:2], "{collection_name}", *pieces[3:]])
    if endpoint not in METHODS:
        raise Problem(404, f"{method} {path} is not an endpoint of this substitute")
    return endpoint, name


class Handler(BaseHTTPRequestHandler):
    """Requests of one connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    rest: Rest
    api_key: str | None

    def answer(self) -> None:
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            value: Any = {"result": self.result(raw), "status": "ok", "time": 0.0}
            if self.path == "/":
                value = value["result"]
            status = 200
        except Problem as problem:
            status, value = problem.status, {"status": {"error": str(problem)}, "time": 0.0}
        except Exception as error:  # noqa: BLE001  the core's own failures, of several classes
            status, value = 400, {"status": {"error": f"Wrong input: {error}"}, "time": 0.0}
        content = orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY)
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def result(self, raw: bytes) -> Any:
        if self.api_key and self.headers.get("api-key") != self.api_key:
            raise Problem(401, "Must provide an API key or an Authorization bearer token")
        url = urlsplit(self.path)
        endpoint, name = _route(self.command, url.path)
        form = ENDPOINTS[endpoint]
        body = json.loads(raw) if raw else None
        wrong = [f"parameter {key} is not known" for key, _ in parse_qsl(url.query) if key not in form.parameters]
        if form.schema is None:
            wrong += ["there is a body"] if raw else []
        else:
            wrong += faults(form.form, body)
        if wrong:
            raise Problem(422, "; ".join(wrong[:5]))
        return METHODS[endpoint](self.rest, name, body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  the name in the standard library
        """Print nothing."""

    do_GET = do_PUT = do_POST = do_PATCH = do_DELETE = answer  # noqa: N815


def main(folder: str, api_key: str | None = None) -> None:
    Handler.rest, Handler.api_key = Rest(Path(folder)), api_key
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
