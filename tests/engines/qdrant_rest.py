"""A substitute for a Qdrant server, as a process: its REST interface, as far as the engine uses it, over Qdrant's core.

    python qdrant_rest.py FOLDER [API_KEY]

prints its port. Bodies of requests are read by the models of qdrant-client, which are made from Qdrant's published
OpenAPI file and reject what it does not have. Filters need an index of the payload, and limits of strict mode are held,
as in a server that is configured so.
"""

import shutil
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import orjson
import qdrant_edge as edge
from pydantic import BaseModel, ValidationError
from qdrant_client import models

sys.path.insert(0, str(Path(__file__).parents[1]))
from told_servers import Answer, Asked, Server

VERSION = "1.15.4"
STRICT = {
    "enabled": True,
    "unindexed_filtering_retrieve": False,
    "unindexed_filtering_update": False,
    "max_query_limit": 10_000,
    "search_max_hnsw_ef": 500,
    "search_max_oversampling": 2.0,
    "upsert_max_batchsize": 100,
    "condition_max_size": 500,
}
"""Limits of every collection."""
KEYWORD, NUMBER = edge.KeywordIndexParams(), edge.FloatIndexParams()
INDEXES = {"keyword": KEYWORD, "float": NUMBER, "tenant": edge.KeywordIndexParams(is_tenant=True)}
RANGES = {"Range": edge.RangeFloat}
"""Forms of the API whose names in the core differ."""


class Problem(Exception):
    """A request that is answered with a status other than 200."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class Collection:
    """A collection: a shard of the core, its configuration, and the indexes of its payload."""

    def __init__(self, folder: Path, config: models.CreateCollection) -> None:
        self.folder, self.config = folder, config
        self.indexes: dict[str, Any] = {}
        self.shard = edge.EdgeShard.create(str(folder), _edge_config(config))

    def change(self, operation: Any) -> dict[str, Any]:
        self.shard.update(operation)
        return {"operation_id": 0, "status": "completed"}

    def core(self, given: Any) -> Any:
        """Return a form of the API as the core's. Raises: Problem: strict mode does not allow it."""
        if isinstance(given, list):
            if len(given) > STRICT["condition_max_size"]:
                raise Problem(400, "Condition size limit exceeded")
            return [self.core(each) for each in given]
        if not isinstance(given, BaseModel):
            return given
        key = getattr(given, "key", None)
        if key is not None and key not in self.indexes:
            raise Problem(400, f'Index required but not found for "{key}"')
        fields = {name: self.core(value) for name, value in given if value is not None}
        kind = type(given).__name__
        if kind in ("HasIdCondition", "MatchAny"):
            return getattr(edge, kind)(*map(set if kind == "HasIdCondition" else list, fields.values()))
        return (RANGES.get(kind) or getattr(edge, kind))(**fields)


def _edge_config(config: models.CreateCollection) -> Any:
    vectors, quantization = {}, None
    for name, each in (config.vectors or {}).items():
        vectors[name] = edge.EdgeVectorParams(each.size, getattr(edge.Distance, each.distance.value))
    if config.quantization_config is not None:
        scalar = config.quantization_config.scalar
        quantization = edge.ScalarQuantizationConfig(
            edge.ScalarType.Int8, quantile=scalar.quantile, always_ram=scalar.always_ram
        )
    sparse = {
        name: edge.EdgeSparseVectorParams(modifier=edge.Modifier.Idf if each.modifier == "idf" else None)
        for name, each in (config.sparse_vectors or {}).items()
    }
    hnsw = config.hnsw_config or models.HnswConfigDiff()
    return edge.EdgeConfig(
        vectors=vectors or None,
        sparse_vectors=sparse or None,
        hnsw_config=edge.HnswIndexConfig(hnsw.m or 16, hnsw.ef_construct or 100, 10_000),
        quantization_config=quantization,
        optimizers=edge.EdgeOptimizersConfig(default_segment_number=1, indexing_threshold=200),
        wal_enabled=False,
    )


def _vector(given: Any) -> Any:
    return edge.SparseVector(given.indices, given.values) if isinstance(given, models.SparseVector) else given


def _shown(given: Any) -> Any:
    return edge.PayloadSelector.Include(given) if isinstance(given, list) else given


class Rest:
    """The endpoints."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.lock = folder, threading.Lock()
        self.collections: dict[str, Collection] = {}
        self.aliases: dict[str, str] = {}

    def collection(self, name: str) -> Collection:
        collection = self.collections.get(self.aliases.get(name, name))
        if collection is None:
            raise Problem(404, f"Not found: Collection `{name}` doesn't exist!")
        return collection

    def root(self, name: str, body: None) -> Any:
        return {"title": "qdrant - vector search engine", "version": VERSION}

    def list(self, name: str, body: None) -> Any:
        return {"collections": [{"name": each} for each in self.collections]}

    def list_aliases(self, name: str, body: None) -> Any:
        return {"aliases": [{"alias_name": key, "collection_name": each} for key, each in self.aliases.items()]}

    def change_aliases(self, name: str, body: models.ChangeAliasesOperation) -> Any:
        for action in body.actions:
            if isinstance(action, models.DeleteAliasOperation):
                del self.aliases[action.delete_alias.alias_name]
                continue
            target, alias = action.create_alias.collection_name, action.create_alias.alias_name
            if target not in self.collections or alias in self.collections:
                raise Problem(404, f"Not found: Collection `{target}` doesn't exist, or `{alias}` does!")
            self.aliases[alias] = target
        return True

    def create(self, name: str, body: models.CreateCollection) -> Any:
        if name in self.collections or name in self.aliases:
            raise Problem(409, f"Wrong input: Collection `{name}` already exists!")
        self.collections[name] = Collection(self.folder / "collections" / name, body)
        return True

    def remove(self, name: str, body: None) -> Any:
        collection = self.collections.pop(name, None)
        self.aliases = {key: each for key, each in self.aliases.items() if each != name}
        if collection is not None:
            collection.shard.close()
            shutil.rmtree(collection.folder, ignore_errors=True)
        return collection is not None

    def info(self, name: str, body: None) -> Any:
        collection = self.collection(name)
        config = collection.config.model_dump(mode="json", exclude_none=True)
        collection.shard.optimize()  # a server does it in the background
        core = collection.shard.info()
        return {
            "status": "green",
            "optimizer_status": "ok",
            "segments_count": core.segments_count,
            "points_count": core.points_count,
            "indexed_vectors_count": core.indexed_vectors_count,
            "payload_schema": {key: {"data_type": each, "points": 0} for key, each in collection.indexes.items()},
            "config": {
                "params": {key: config[key] for key in ("vectors", "sparse_vectors") if key in config},
                "hnsw_config": {"m": 16, "ef_construct": 100, "full_scan_threshold": 10_000},
                "optimizer_config": {"default_segment_number": 1, "flush_interval_sec": 5},
                "strict_mode_config": STRICT,
            },
        }

    def index(self, name: str, body: models.CreateFieldIndex) -> Any:
        collection, schema = self.collection(name), body.field_schema
        kind = str(getattr(schema, "type", schema).value)
        collection.indexes[body.field_name] = kind
        params = INDEXES["tenant" if getattr(schema, "is_tenant", False) else kind]
        return collection.change(edge.UpdateOperation.create_field_index(body.field_name, params))

    def upsert(self, name: str, body: models.PointsList) -> Any:
        if len(body.points) > STRICT["upsert_max_batchsize"]:
            raise Problem(400, "Upsert limit exceeded")
        points = [
            edge.Point(each.id, {key: _vector(value) for key, value in each.vector.items()}, each.payload)
            for each in body.points
        ]
        return self.collection(name).change(edge.UpdateOperation.upsert_points(points))

    def delete(self, name: str, body: models.PointIdsList) -> Any:
        return self.collection(name).change(edge.UpdateOperation.delete_points(body.points))

    def count(self, name: str, body: models.CountRequest) -> Any:
        collection = self.collection(name)
        request = edge.CountRequest(exact=body.exact is not False, filter=collection.core(body.filter))
        return {"count": collection.shard.count(request)}

    def query(self, name: str, body: models.QueryRequestBatch) -> Any:
        collection = self.collection(name)
        return [self._query(collection, each) for each in body.searches]

    def _query(self, collection: Collection, given: models.QueryRequest) -> Any:
        params, nearest = given.params or models.SearchParams(), getattr(given.query, "nearest", given.query)
        if (given.limit or 10) > STRICT["max_query_limit"] or (params.hnsw_ef or 0) > STRICT["search_max_hnsw_ef"]:
            raise Problem(400, "Limit exceeded")
        if params.quantization and (params.quantization.oversampling or 0) > STRICT["search_max_oversampling"]:
            raise Problem(400, "Oversampling limit exceeded")
        request = edge.QueryRequest(
            limit=given.limit or 10,
            query=None if nearest is None else edge.Query.Nearest(_vector(nearest), using=given.using),
            filter=collection.core(given.filter),
            with_payload=_shown(given.with_payload),
            params=collection.core(params),
        )
        points = collection.shard.query(request)
        hits = [{"id": str(each.id), "version": 0, "score": each.score, "payload": each.payload} for each in points]
        return {"points": hits}

    def snapshot(self, name: str, body: None) -> Any:
        self.collection(name)
        return {"name": f"{name}-1.snapshot", "size": 1}


COLLECTION = "/collections/{collection_name}"
METHODS: dict[tuple[str, str], tuple[Callable[[Rest, str, Any], Any], Any]] = {
    ("GET", "/"): (Rest.root, None),
    ("GET", "/aliases"): (Rest.list_aliases, None),
    ("GET", "/collections"): (Rest.list, None),
    ("POST", "/collections/aliases"): (Rest.change_aliases, models.ChangeAliasesOperation),
    ("GET", COLLECTION): (Rest.info, None),
    ("DELETE", COLLECTION): (Rest.remove, None),
    ("PUT", COLLECTION): (Rest.create, models.CreateCollection),
    ("PUT", COLLECTION + "/index"): (Rest.index, models.CreateFieldIndex),
    ("PUT", COLLECTION + "/points"): (Rest.upsert, models.PointsList),
    ("POST", COLLECTION + "/points/delete"): (Rest.delete, models.PointIdsList),
    ("POST", COLLECTION + "/points/count"): (Rest.count, models.CountRequest),
    ("POST", COLLECTION + "/points/query/batch"): (Rest.query, models.QueryRequestBatch),
    ("POST", COLLECTION + "/snapshots"): (Rest.snapshot, None),
}


def _route(method: str, path: str) -> tuple[tuple[str, str], str]:
    """Return the endpoint of a request and the collection that it names."""
    pieces = path.split("/")
    named = (method, path) not in METHODS
    endpoint = method, "/".join([*pieces[:2], "{collection_name}", *pieces[3:]]) if named else path
    if endpoint not in METHODS:
        raise Problem(404, f"{method} {path} is not an endpoint of this substitute")
    return endpoint, unquote(pieces[2]) if named else ""


def answered(rest: Rest, asked: Asked, api_key: str | None) -> Answer:
    """Return the answer to a request."""
    try:
        if api_key and asked.headers.get("api-key") != api_key:
            raise Problem(401, "Must provide an API key or an Authorization bearer token")
        endpoint, name = _route(asked.method, urlsplit(asked.path).path)
        method, form = METHODS[endpoint]
        body = None if form is None else form.model_validate_json(asked.body)
        with rest.lock:
            result = method(rest, name, body)
        status, value = 200, result if asked.path == "/" else {"result": result, "status": "ok", "time": 0.0}
    except Problem as problem:
        status, value = problem.status, {"status": {"error": str(problem)}, "time": 0.0}
    except ValidationError as error:
        status, value = 422, {"status": {"error": f"Validation error in JSON body: {error}"}, "time": 0.0}
    except Exception as error:  # noqa: BLE001  the core's own failures, of several classes
        status, value = 400, {"status": {"error": f"Wrong input: {error}"}, "time": 0.0}
    return Answer(orjson.dumps(value), status, {"content-type": "application/json"})


def main(folder: str, api_key: str | None = None) -> None:
    rest = Rest(Path(folder))
    server = Server(lambda asked: answered(rest, asked, api_key))
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
