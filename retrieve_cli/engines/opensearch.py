"""OpenSearch as an engine: a document is a chunk, with its texts, term weights as rank features and vectors."""

from __future__ import annotations

import base64
import logging
import re
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import orjson

from retrieve_cli.config.index_settings import HNSW_EF_CONSTRUCTION, HNSW_EF_SEARCH, HNSW_M, OpensearchSettings
from retrieve_cli.contracts.engines import Combined, Equal, Filter, Found, Range, RowHit
from retrieve_cli.contracts.models import TermWeights
from retrieve_cli.engines import rows as stored, servers
from retrieve_cli.errors import Unavailable, UsageError, quoted

if TYPE_CHECKING:
    from retrieve_cli.contracts.engines import EngineQuery, Row, Schema
    from retrieve_cli.contracts.values import Json, Vectors

try:
    from opensearchpy import OpenSearch, exceptions as failures
except ImportError:
    hint = "pip install 'retrieve-cli[opensearch]'"
    raise Unavailable("the package opensearch-py is not installed", hint=hint) from None

_OLDEST = (2, 16)
"""The first version whose searches for vectors take `ef_search`."""
_PLUGIN = "opensearch-knn"
_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,99}")
_MARKER = "_marker"
"""Id of the document with the marker."""
_VALUES = 65_536
"""Values of a `terms` query: the default of `index.max_terms_count`."""
_CLAUSES, _WORDS = 900, 450
"""Terms of one query, and words, each of which is searched in two fields; OpenSearch takes 1,024 clauses."""
_REFRESHED_WITHIN = 600.0
"""Seconds for making all rows visible, which builds graphs of vectors."""
_CONNECTIONS = 32
_ATTEMPTS, _BUSY = 6, 429
"""Attempts for documents that a busy server rejects, and the status of those."""
_WANTED = "responses.error,responses.timed_out,responses._shards.failed,responses.hits.hits._s*"
"""Parts of answers to searches: of hits their scores and sources."""
_SMALLEST = float(np.finfo(np.float32).tiny)
"""The smallest rank feature that OpenSearch accepts."""
_KEYWORD = {"type": "keyword", "ignore_above": stored.LONGEST}
_ENGLISH = {"type": "text", "analyzer": "english", "similarity": "BM25"}


@servers.reading
class OpensearchEngine(servers.HttpServer):
    """OpenSearch 2.16 or later, with its k-NN plugin.

    A collection is an index. Words are ranked by the server's own BM25 over `title^2` and `content`. The marker is a
    document without texts and vectors.
    """

    name = "opensearch"
    product, secret_key = "OpenSearch", "password_env"
    words: ClassVar[Literal["text", "terms", ""]] = "text"
    sparse = True
    card: ClassVar[Mapping[str, object]] = {"engine": name, "m": HNSW_M, "ef_construction": HNSW_EF_CONSTRUCTION}

    def __init__(self, settings: OpensearchSettings, *, user: str | None = None, password: str | None = None) -> None:
        """Prepare a connection.

        Raises:
            UsageError: the URL or the name of the index cannot be used.
        """
        if not _NAME.fullmatch(settings.index):
            hint = "use lower-case letters, digits, `_`, `-` and `.`, 100 at most"
            raise UsageError(f"opensearch.index is {quoted(settings.index)}, which cannot name an index", hint=hint)
        super().__init__(settings.url, 9200, password)
        self._settings = settings
        # Its warnings repeat the errors, and would be printed among the output.
        logging.getLogger("opensearch").addHandler(logging.NullHandler())
        headers = {}
        if user is not None or password is not None:
            # The client encodes credentials as Latin-1, which rejects some passwords.
            credential = base64.b64encode(f"{user or ''}:{password or ''}".encode()).decode()
            headers["authorization"] = f"Basic {credential}"
        options: dict[str, Any] = {"pool_maxsize": _CONNECTIONS, "max_retries": 1, "retry_on_status": ()}
        self._client: Any = OpenSearch([self.address], headers=headers, **options)

    def create(self, collection: str, schema: Schema) -> None:
        """Create an empty index, after dropping one of this name.

        Raises:
            Unavailable: the server is too old.
        """
        for message, hint in self._outdated():
            raise Unavailable(message, hint=hint)
        self.drop(collection)
        settings = {"index": {"knn": True}} if schema.vectors else {}
        self._ask("PUT", self._index(collection), {"settings": settings, "mappings": _mapping(schema)})

    def upsert(self, collection: str, rows: Sequence[Row]) -> None:
        """Store rows as documents."""
        self._change(collection, [({"index": {"_id": stored.digest(row.id)}}, _document(row)) for row in rows])

    def delete(self, collection: str, ids: Sequence[str]) -> None:
        """Remove rows by their ids."""
        if ids:
            self._change(collection, [({"delete": {"_id": stored.digest(row_id)}}, None) for row_id in ids])

    def search(
        self, collection: str, queries: Sequence[EngineQuery], where: Filter | None, k: int, *, contents: bool = False
    ) -> Found:
        """Return the best rows for each query, and the marker, by one request."""
        source = ["chunk_id", "content", "stored"] if contents else ["chunk_id"]
        common = {"size": k, "_source": source, "track_total_hits": False}
        searches = [{"query": _query(name, query, where, k), **common} for name, query in queries]
        searches.append({"query": {"ids": {"values": [_MARKER]}}, "size": 1, "_source": ["marker"]})
        lines = [line for search in searches for line in ({}, search)]
        path = f"{self._index(collection)}/_msearch"
        answers = self._ask("POST", path, _lines(lines), filter_path=_WANTED)["responses"]
        *lists, marked = [self._hits(collection, answer) for answer in answers]
        hits = [[_hit(hit, query) for hit in found] for found, (_, query) in zip(lists, queries, strict=True)]
        return Found(hits, str(marked[0]["_source"]["marker"]) if marked else "")

    def count(self, collection: str, where: Filter | None = None) -> int:
        """Make all changes visible, and return the exact number of rows that pass a filter."""
        self._ask("POST", f"{self._index(collection)}/_refresh", timeout_s=_REFRESHED_WITHIN)
        return int(self._ask("POST", f"{self._index(collection)}/_count", {"query": _rows(where)})["count"])

    def drop(self, collection: str) -> None:
        """Remove an index, and an alias of it with it; a missing one is no error."""
        self._ask("DELETE", self._index(collection), missing={})

    def snapshot(self, collection: str) -> str:
        """Let the server store a snapshot in the repository with the name of the alias, and return its name.

        Raises:
            UsageError: the server does not have that repository.
        """
        index, repository = self._index(collection)[1:], self._settings.index
        name = f"{repository}/{index}-{time.strftime('%Y%m%d%H%M%S', time.gmtime())}"
        body = {"indices": index, "include_global_state": False}
        if not self._ask("PUT", f"/_snapshot/{name}", body, missing={}):
            message = f"OpenSearch at {self.address} has no snapshot repository {repository}"
            raise UsageError(message, hint=f"register it: PUT /_snapshot/{repository}")
        return name

    def published(self) -> str | None:
        """Return the collection that the alias names."""
        indexes = self._ask("GET", f"/_alias/{self._settings.index}", missing={})
        return next(iter(indexes), "").removeprefix(self._index("")[1:]) or None

    def publish(self, collection: str, generation: str) -> None:
        """Store the marker, make it and all changes before it visible, and let the alias name the index."""
        self._change(collection, [({"index": {"_id": _MARKER}}, {"marker": generation})])
        self._ask("POST", f"{self._index(collection)}/_refresh", timeout_s=_REFRESHED_WITHIN)
        alias, older = self._settings.index, self.published()
        if older == collection:
            return
        actions: list[Json] = [{"add": {"index": self._index(collection)[1:], "alias": alias}}]
        if older is not None:
            actions.append({"remove": {"index": self._index(older)[1:], "alias": alias}})
        self._ask("POST", "/_aliases", {"actions": actions})

    def describe(self) -> Mapping[str, str]:
        """Return the version and the address of the server."""
        return {"server": " ".join(self._version()), "address": self.address, "alias": self._settings.index}

    def problems(self) -> Sequence[tuple[str, str]]:
        """Return what keeps the server from being used well, each with its fix."""
        problems = self._outdated()
        plugins = self._ask("GET", "/_cat/plugins", format="json")
        if _PLUGIN not in {str(plugin["component"]) for plugin in plugins}:
            hint = f"install it on every node: bin/opensearch-plugin install {_PLUGIN}; or set engines.dense to local"
            problems.append((f"OpenSearch at {self.address} has no k-NN plugin, which vectors need", hint))
        return problems

    def _index(self, collection: str) -> str:
        return f"/{self._settings.index}-{collection}"

    def _version(self) -> tuple[str, str]:
        version = self._ask("GET", "/")["version"]
        return str(version.get("distribution", "elasticsearch")), str(version.get("number", "0"))

    def _outdated(self) -> list[tuple[str, str]]:
        """Return the fault of the server's version, and its fix."""
        distribution, number = self._version()
        if distribution == "opensearch" and servers.version_numbers(number) >= _OLDEST:
            return []
        message = f"the server at {self.address} is {distribution} {number}, not OpenSearch 2.16 or later"
        return [(message, "run OpenSearch 2.16 or later, or edit opensearch.url")]

    def _change(self, collection: str, changes: Sequence[tuple[Json, Json]]) -> None:
        """Send changes of documents, and those again that a busy server rejects.

        Raises:
            IndexCorrupt: the index does not exist; a document would create one.
        """
        index = self._index(collection)
        self._ask("GET", f"{index}/_mapping")
        for attempt in range(_ATTEMPTS):
            lines = [line for change in changes for line in change if line is not None]
            items = self._ask("POST", f"{index}/_bulk", _lines(lines))["items"]
            results = [next(iter(item.values())) for item in items]
            failed = [result for result in results if result.get("error") and result["status"] != _BUSY]
            if failed:
                request = f"a document of {index[1:]}"
                raise self._rejection(int(failed[0]["status"]), request, _reason(failed[0]["error"]))
            pairs = zip(changes, results, strict=True)
            changes = [change for change, result in pairs if result["status"] == _BUSY]
            if not changes:
                return
            time.sleep(0.1 * 2**attempt)
        raise self._rejection(_BUSY, f"documents of {index[1:]}", "it is too busy")

    def _hits(self, collection: str, answer: Json) -> list[Json]:
        """Return the hits of one answer. An answer without some shards is a failure, not a short list."""
        error = answer.get("error")
        name = self._index(collection)[1:]
        if error or answer.get("timed_out") or answer.get("_shards", {}).get("failed"):
            if "index_not_found_exception" in str(error):
                raise self._rejection(404, "a search", _reason(error), name)
            reason = self._safe(_reason(error) if error else "it took too long, or a shard failed")
            raise Unavailable(f"OpenSearch at {self.address} fails a search in {name}: {reason}", hint=_LOG)
        return list(answer.get("hits", {}).get("hits", []))

    def _ask(
        self, method: str, path: str, body: Json = None, *, missing: Json = None, timeout_s: float = 0.0, **params: str
    ) -> Any:
        """Return the answer to a request; `missing` if the server does not have the named thing.

        Raises:
            IndexCorrupt: the server does not have the index.
            Unavailable: it cannot be reached, does not answer in time, or rejects the request.
        """
        if body is not None and not isinstance(body, bytes):
            body = orjson.dumps(body)
        timeout_s = max(timeout_s, self._settings.timeout_s)
        options = {"params": params, "body": body, "timeout": timeout_s}
        request = f"{method} {path}"
        try:
            return self._client.transport.perform_request(method, path, **options)
        except failures.NotFoundError as error:
            if missing is not None:
                return missing
            raise self._rejection(404, request, _reason(error.info), path.split("/")[1]) from None
        except failures.ConnectionTimeout:
            raise self._late(request, timeout_s) from None
        except failures.ConnectionError as error:
            raise self._unreachable(str(error.error)) from None
        except failures.TransportError as error:
            raise self._rejection(int(error.status_code), request, _reason(error.info)) from None
        except failures.OpenSearchException as error:
            raise ValueError(str(error)) from error


def _reason(error: Json) -> str:
    """Return the reasons that the server gives for a failure."""
    if isinstance(error, dict) and "error" in error:
        error = error["error"]
    if not isinstance(error, dict):
        return str(error or "no reason given")
    roots = error.get("root_cause")
    causes = [error, *(roots if isinstance(roots, list) else ()), error.get("caused_by")]
    reasons = dict.fromkeys(str(cause["reason"]) for cause in causes if isinstance(cause, dict) and "reason" in cause)
    return "; ".join(reasons) or str(error.get("type", "unknown"))


def _mapping(schema: Schema) -> Json:
    """Return the mapping of an index. Documents are kept without their numbers, which are in the index."""
    parameters = {"m": HNSW_M, "ef_construction": HNSW_EF_CONSTRUCTION}
    method = {"name": "hnsw", "space_type": "innerproduct", "engine": "lucene", "parameters": parameters}
    properties: dict[str, Json] = dict.fromkeys(("chunk_id", "doc_id", "tenant_id", "section", "fields"), _KEYWORD)
    properties |= {"title": _ENGLISH, "content": _ENGLISH}
    properties |= {f"{name}_features": {"type": "rank_features"} for name in schema.weights}
    for name, size in schema.vectors.items():
        properties[f"{name}_vector"] = {"type": "knn_vector", "dimension": size, "method": method}
    properties |= {key: {"type": "object", "dynamic": True} for key in ("numbers", "dates")}
    return {
        "dynamic": False,
        "dynamic_templates": [{"numbers": {"match_mapping_type": "double", "mapping": {"type": "double"}}}],
        "_source": {"excludes": [name for name in properties if name.endswith(("_features", "_vector"))]},
        "properties": properties,
    }


def _document(row: Row) -> dict[str, Json]:
    """Return a row as a document."""
    document: dict[str, Json] = stored.document(row)
    for name, vector in row.vectors.items():
        document[f"{name}_vector"] = np.ascontiguousarray(vector, np.float32)
    for name, weights in row.weights.items():
        # Rank features are above 0.
        pairs = zip(weights.terms.tolist(), weights.weights.tolist(), strict=True)
        document[f"{name}_features"] = {f"t{term}": weight for term, weight in pairs if weight >= _SMALLEST}
    return document


def _query(name: str, query: Vectors | TermWeights | str | None, where: Filter | None, k: int) -> Json:
    """Return the query for rows that pass a filter. The marker has nothing that a query could match."""
    if query is None:
        return _rows(where)
    allowed = [] if where is None else [_condition(where)]
    if isinstance(query, str):
        match = {"query": " ".join(query.split()[:_WORDS]), "fields": ["title^2", "content"]}
        return {"bool": {"must": [{"multi_match": match}], "filter": allowed}}
    if isinstance(query, TermWeights):
        heaviest = np.argsort(-query.weights, kind="stable")[:_CLAUSES]
        weights = dict(zip(query.terms[heaviest].tolist(), query.weights[heaviest].tolist(), strict=True))
        fields = {f"{name}_features.t{term}": weight for term, weight in weights.items() if weight > 0}
        should = [{"rank_feature": {"field": field, "linear": {}, "boost": fields[field]}} for field in fields]
        return {"bool": {"should": should, "minimum_should_match": 1, "filter": allowed}}
    effort = {"ef_search": max(k, HNSW_EF_SEARCH)}
    search: Json = {"vector": np.ascontiguousarray(query, np.float32), "k": k, "method_parameters": effort}
    if allowed:
        search["filter"] = allowed[0]
    return {"knn": {f"{name}_vector": search}}


def _rows(where: Filter | None) -> Json:
    """Return the query for all rows that pass a filter."""
    allowed = [] if where is None else [_condition(where)]
    return {"bool": {"filter": allowed, "must_not": [{"ids": {"values": [_MARKER]}}]}}


def _condition(given: Filter) -> Json:
    """Return a filter as a query."""
    match given:
        case Combined(how, filters):
            inner = [_condition(each) for each in filters]
            if how == "any":
                return {"bool": {"should": inner, "minimum_should_match": 1}} if inner else {"match_none": {}}
            return {"bool": {"filter" if how == "all" else "must_not": inner}} if inner else {"match_all": {}}
        case Range(group, field, low, high):
            path = f"{group}.{stored.number_key(field)}"
            ends = {name: end for name, end in (("gte", low), ("lte", high)) if end is not None}
            return {"range": {path: ends}} if ends else {"exists": {"field": path}}
        case Equal("id", values):
            return {"ids": {"values": [stored.digest(value) for value in values]}}
        case Equal():
            key, values = stored.keywords_of(given)
            parts = [{"terms": {key: values[start : start + _VALUES]}} for start in range(0, len(values), _VALUES)]
            return {"bool": {"should": parts, "minimum_should_match": 1}} if parts else {"match_none": {}}


def _hit(hit: Json, query: Vectors | TermWeights | str | None) -> RowHit:
    """Return a hit with its score.

    Scores of vectors are above 0: 1 + p for a product p of at least 0, and 1 / (1 - p) for others.
    """
    source, score = hit["_source"], 0.0 if query is None else float(hit["_score"])
    if isinstance(query, np.ndarray):
        score = score - 1 if score >= 1 else 1 - 1 / max(score, _SMALLEST)
    return RowHit(source["chunk_id"], score, source.get("content", ""), source.get("stored", ""))


_LOG = "see the log of the server, or run: retrieve doctor"


def _lines(values: Sequence[Json]) -> bytes:
    return b"".join(orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY) + b"\n" for value in values)
