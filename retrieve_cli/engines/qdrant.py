"""Qdrant as an engine: a point is a chunk, with dense and sparse vectors by name and its texts and metadata."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal
from uuid import UUID

import numpy as np

from retrieve_cli.config.index_settings import HNSW_EF_CONSTRUCTION, HNSW_EF_SEARCH, HNSW_M, QdrantSettings
from retrieve_cli.contracts.engines import Combined, Equal, Filter, Found, Range, RowHit
from retrieve_cli.contracts.models import TermWeights
from retrieve_cli.engines import rows as stored, servers
from retrieve_cli.errors import Unavailable, UsageError, quoted
from retrieve_cli.untrusted.foreign_json import foreign_json

if TYPE_CHECKING:
    from retrieve_cli.contracts.engines import EngineQuery, Row, Schema
    from retrieve_cli.contracts.values import Card

try:
    from qdrant_client import QdrantClient, models
    from qdrant_client.common.client_exceptions import QdrantException, ResourceExhaustedResponse
    from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse
except ImportError:
    hint = "pip install 'retrieve-cli[qdrant]'"
    raise Unavailable("the package qdrant-client is not installed", hint=hint) from None

_OLDEST = (1, 15)
_QUANTILE = 0.99
"""Share of the numbers of vectors inside the range that is quantised; those outside are clipped to its ends.

Recall@10 in Qdrant's core before and after rescoring, 400 queries of 5,000 texts (docstrings of Python's library):
all-MiniLM-L6-v2 0.9862 and 1 with 0.8, 0.9875 and 1 with 0.99; vectors with heavy tails (Student's t, 3 degrees of
freedom) 0.8393 and 0.9218, 0.8890 and 0.9955."""
_OVERSAMPLING = 2.0
"""Candidates by quantised vectors that are rescored, for each row of the result."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}")
_KEYWORDS = ("doc_id", "section", "fields")
"""Keys of the payload that are indexed as keywords, beside the tenants."""
_LARGEST = sys.float_info.max


def point_id(row_id: str) -> str:
    """Return the id of a point, a UUID made from the id of a row."""
    return str(UUID(stored.digest(row_id)[:32], version=5))


MARKER = str(UUID(int=0))
"""Id of the point with the marker, which has no vectors."""
_NOBODY = str(UUID(int=1))
"""Id of no point."""


@servers.reading
class QdrantEngine(servers.HttpServer):
    """Qdrant 1.15 or later, by its REST interface.

    A collection has named vectors: dense ones in an HNSW graph of int8 with rescoring, sparse ones for term weights.
    Distances are inner products. The marker is a point without vectors, which no search finds.
    """

    name = "qdrant"
    product, secret_key = "Qdrant", "api_key_env"
    words: ClassVar[Literal["text", "terms", ""]] = "terms"
    sparse = True

    def __init__(self, settings: QdrantSettings, *, api_key: str | None = None) -> None:
        """Prepare a connection.

        Raises:
            UsageError: the URL or the name of the collection cannot be used.
        """
        if not _NAME.fullmatch(settings.collection):
            message = f"qdrant.collection is {quoted(settings.collection)}, which cannot name a collection"
            raise UsageError(message, hint="use up to 128 letters, digits, `_` and `-`")
        super().__init__(settings.url, 6333, api_key)
        self._settings = settings
        # The key travels as a header: as a parameter the client prints a warning if the address is not encrypted,
        # which `retrieve doctor` reports.
        options: dict[str, Any] = {"timeout": settings.timeout_s, "metadata": {"api-key": api_key} if api_key else {}}
        self._client = QdrantClient(url=settings.url, check_compatibility=False, **options)
        self._infos: dict[str, models.CollectionInfo] = {}

    @property
    def card(self) -> Card:
        """Parameters of the indexes."""
        quantile = _QUANTILE if self._settings.quantize == "int8" else None
        return {"engine": self.name, "m": HNSW_M, "ef_construction": HNSW_EF_CONSTRUCTION, "quantile": quantile}

    def create(self, collection: str, schema: Schema) -> None:
        """Create an empty collection, after dropping one of this name.

        Raises:
            Unavailable: the server is too old, or has a collection with the name of the alias.
        """
        for message, hint in self.problems():
            raise Unavailable(message, hint=hint)
        self.drop(collection)
        int8 = self._settings.quantize == "int8"
        scalar = models.ScalarQuantizationConfig(type=models.ScalarType.INT8, quantile=_QUANTILE, always_ram=True)
        idf = {True: models.Modifier.IDF, False: None}
        self._ask(
            collection,
            "create_collection",
            # The vectors before quantisation are only needed for rescoring.
            vectors_config={
                name: models.VectorParams(size=size, distance=models.Distance.DOT, on_disk=int8)
                for name, size in schema.vectors.items()
            },
            sparse_vectors_config={
                name: models.SparseVectorParams(modifier=idf[weighted]) for name, weighted in schema.weights.items()
            },
            hnsw_config=models.HnswConfigDiff(m=HNSW_M, ef_construct=HNSW_EF_CONSTRUCTION),
            quantization_config=models.ScalarQuantization(scalar=scalar) if int8 else None,
        )
        tenants = models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, is_tenant=True)
        self._ask(collection, "create_payload_index", field_name="tenant_id", field_schema=tenants)
        for key in _KEYWORDS:
            self._ask(collection, "create_payload_index", field_name=key, field_schema=models.PayloadSchemaType.KEYWORD)

    def upsert(self, collection: str, rows: Sequence[Row]) -> None:
        """Store rows, and wait until they are visible."""
        missing = set(stored.number_fields(rows)) - self._info(collection).payload_schema.keys()
        for key in sorted(missing):
            self._ask(collection, "create_payload_index", field_name=key, field_schema=models.PayloadSchemaType.FLOAT)
        if missing:
            self._infos.pop(collection, None)
        points = [
            models.PointStruct(id=point_id(row.id), vector=_vectors(row), payload=stored.document(row)) for row in rows
        ]
        most = self._strict(collection).upsert_max_batchsize or len(points)
        for start in range(0, len(points), most):
            self._ask(collection, "upsert", points=points[start : start + most], wait=True)

    def delete(self, collection: str, ids: Sequence[str]) -> None:
        """Remove rows, and wait until they are invisible."""
        if ids:
            self._ask(collection, "delete", points_selector=[point_id(row_id) for row_id in ids], wait=True)

    def search(
        self, collection: str, queries: Sequence[EngineQuery], where: Filter | None, k: int, *, contents: bool = False
    ) -> Found:
        """Return the best rows for each query, and the marker, by one batch of queries."""
        strict = self._strict(collection)
        oversampling = min(_OVERSAMPLING, strict.search_max_oversampling or _OVERSAMPLING)
        ef = max(HNSW_EF_SEARCH, k)
        shown = ["chunk_id", "content", "stored"] if contents else ["chunk_id"]
        params = models.SearchParams(
            hnsw_ef=min(ef, strict.search_max_hnsw_ef or ef),
            quantization=models.QuantizationSearchParams(rescore=True, oversampling=oversampling),
        )
        allowed = {listed: self._allowed(collection, where, listed=listed) for listed in (False, True)}
        batch = [
            models.QueryRequest(
                query=None if query is None else models.NearestQuery(nearest=_vector(query)),
                using=None if query is None else name,
                filter=allowed[query is None],
                params=params,
                limit=k,
                with_payload=shown,
            )
            for name, query in queries
        ]
        marker = models.Filter(must=[models.HasIdCondition(has_id=[MARKER])])
        batch.append(models.QueryRequest(filter=marker, limit=1, with_payload=["marker"]))
        *answers, marked = self._ask(collection, "query_batch_points", requests=batch)
        hits = [
            [_hit(point, scored=query is not None) for point in answer.points]
            for (_, query), answer in zip(queries, answers, strict=True)
        ]
        return Found(hits, str((marked.points[0].payload or {}).get("marker", "")) if marked.points else "")

    def count(self, collection: str, where: Filter | None = None) -> int:
        """Return the exact number of rows that pass a filter."""
        allowed = self._allowed(collection, where, listed=True)
        return int(self._ask(collection, "count", count_filter=allowed, exact=True).count)

    def drop(self, collection: str) -> None:
        """Remove a collection, and an alias of it with it; a missing one is no error."""
        self._infos.pop(collection, None)
        self._ask(collection, "delete_collection")

    def snapshot(self, collection: str) -> str:
        """Let the server make a snapshot, and return its name."""
        return str(self._ask(collection, "create_snapshot", wait=True).name)

    def published(self) -> str | None:
        """Return the collection that the alias names."""
        aliases = self._ask(None, "get_aliases").aliases
        named = [one.collection_name for one in aliases if one.alias_name == self._settings.collection]
        return named[0].removeprefix(self._full_name("")) if named else None

    def publish(self, collection: str, generation: str) -> None:
        """Store the marker, and let the alias name a collection."""
        point = models.PointStruct(id=MARKER, vector={}, payload={"marker": generation})
        self._ask(collection, "upsert", points=[point], wait=True)
        published = self.published()
        if published == collection:
            return
        alias, name = self._settings.collection, self._full_name(collection)
        create = models.CreateAliasOperation(create_alias=models.CreateAlias(collection_name=name, alias_name=alias))
        delete = models.DeleteAliasOperation(delete_alias=models.DeleteAlias(alias_name=alias))
        operations = [create] if published is None else [delete, create]
        self._ask(None, "update_collection_aliases", name=name, change_aliases_operations=operations)

    def describe(self) -> Mapping[str, str]:
        """Return the version and the address of the server."""
        return {
            "server": f"Qdrant {self._ask(None, 'info').version}",
            "address": self.address,
            "alias": self._settings.collection,
        }

    def problems(self) -> Sequence[tuple[str, str]]:
        """Return what keeps the server from being used well, each with its fix."""
        version, alias = str(self._ask(None, "info").version), self._settings.collection
        if servers.version_numbers(version) < _OLDEST:
            message = f"Qdrant at {self.address} has version {version}, and 1.15 or later is needed"
            return [(message, "install Qdrant 1.15 or later, or set engines to local")]
        if any(one.name == alias for one in self._ask(None, "get_collections").collections):
            message = f"Qdrant at {self.address} has a collection {alias}, so that no alias can have this name"
            return [(message, "change qdrant.collection, or remove that collection")]
        return []

    def _full_name(self, collection: str) -> str:
        return f"{self._settings.collection}_{collection}"

    def _info(self, collection: str) -> models.CollectionInfo:
        """Return the facts of a collection, which are read once: the keys that have an index, and strict mode."""
        if collection not in self._infos:
            self._infos[collection] = self._ask(collection, "get_collection")
        return self._infos[collection]

    def _strict(self, collection: str) -> models.StrictModeConfigOutput:
        """Return the limits of strict mode; those that are not set are None."""
        strict = self._info(collection).config.strict_mode_config
        return strict if strict is not None and strict.enabled else models.StrictModeConfigOutput()

    def _allowed(self, collection: str, given: Filter | None, *, listed: bool) -> models.Filter | None:
        """Return the rows that pass a filter. Only if rows are listed there is a marker among them."""
        must = [] if given is None else [self._condition(collection, given)]
        if listed:
            return models.Filter(must=must, must_not=[models.HasIdCondition(has_id=[MARKER])])
        return models.Filter(must=must) if must else None

    def _condition(self, collection: str, given: Filter) -> models.Condition:
        """Return a filter as a condition on points."""
        nobody = models.HasIdCondition(has_id=[_NOBODY])
        match given:
            case Combined(how, filters):
                inner = [self._condition(collection, each) for each in filters]
                if how == "all":
                    return models.Filter(must=inner) if inner else models.Filter(must_not=[nobody])
                if how == "any":
                    return models.Filter(should=inner) if inner else nobody
                return models.Filter(must_not=inner or [nobody])
            case Range(group, field, low, high):
                key = f"{group}.{stored.number_key(field)}"
                if key not in self._info(collection).payload_schema:
                    self._infos.pop(collection, None)  # another process may have added the first row with it
                if key not in self._info(collection).payload_schema:
                    return nobody
                # An end beyond all numbers keeps the rows that have one.
                ends = models.Range(gte=max(-_LARGEST, -_LARGEST if low is None else low), lte=high)
                return models.FieldCondition(key=key, range=ends)
            case Equal(key):
                keys, values = stored.keywords_of(given) if key != "id" else ("", [*map(point_id, set(given.values))])
                most = self._strict(collection).condition_max_size or max(len(values), 1)
                parts = [_any_of(keys, values[start : start + most]) for start in range(0, len(values), most)]
                if len(parts) == 1:
                    return parts[0]
                return models.Filter(should=parts) if parts else nobody

    def _ask(self, collection: str | None, method: str, *, name: str = "", **options: Any) -> Any:
        """Return the answer of a method of the client. A dropped connection is opened once more.

        Raises:
            IndexCorrupt: the server does not have the collection.
            Unavailable: the server cannot be reached, does not answer in time, or rejects the request.
        """
        if collection is not None:
            name = options["collection_name"] = self._full_name(collection)
        call: Callable[..., Any] = getattr(self._client, method)
        for attempt in (1, 2):
            try:
                return call(**options)
            except ResponseHandlingException as error:
                # Only `http/` imports the HTTP client whose failures these are, so that they are known by name.
                kind = type(error.source).__name__
                if kind == "ValidationError":
                    raise ValueError(kind) from error
                if "Timeout" in kind:
                    raise self._late(method, self._settings.timeout_s) from None
                if attempt == 2:
                    raise self._unreachable(str(error.source)) from None
            except ResourceExhaustedResponse as error:
                raise self._rejection(429, method, error.message) from None
            except UnexpectedResponse as error:
                raise self._rejection(error.status_code or 0, method, _reason(error.content), name) from None
            except QdrantException as error:
                raise ValueError(str(error)) from error
        raise AssertionError(method)


def _reason(content: bytes) -> str:
    """Return the reason that the server gives for a failure."""
    try:
        answer = foreign_json(content)["status"]
        return str(answer["error"] if isinstance(answer, dict) else answer)
    except (ValueError, LookupError, TypeError):
        return content[:300].decode("utf-8", "replace") or "no reason given"


def _vectors(row: Row) -> dict[str, Any]:
    """Return the vectors of a row by name."""
    weights = {name: weights for name, weights in row.weights.items() if len(weights.terms)}
    return {name: _vector(vector) for name, vector in {**row.vectors, **weights}.items()}


def _vector(given: Any) -> Any:
    """Return a vector or term weights as the client takes them."""
    if isinstance(given, TermWeights):
        return models.SparseVector(indices=given.terms.tolist(), values=given.weights.tolist())
    # A float32 as JSON has 20 digits; 8 decimals keep what a vector of norm 1 has, in half the bytes.
    return np.round(np.asarray(given, np.float64), 8).tolist()


def _any_of(key: str, values: list[str]) -> models.Condition:
    """Return the points with one of some values; without a key, of some ids."""
    if not key:
        return models.HasIdCondition(has_id=list(values))
    return models.FieldCondition(key=key, match=models.MatchAny(any=values))


def _hit(point: models.ScoredPoint, *, scored: bool) -> RowHit:
    payload = point.payload or {}
    text, row = str(payload.get("content", "")), str(payload.get("stored", ""))
    return RowHit(str(payload["chunk_id"]), point.score if scored else 0.0, text, row)
