"""Qdrant as an engine: one collection per part of a generation, and an alias for the current generation."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence

from retrieve_cli.config.index_settings import HNSW_EF_CONSTRUCTION, HNSW_EF_SEARCH, HNSW_M, QdrantSettings
from retrieve_cli.contracts.engines import Batch, Capabilities, Part
from retrieve_cli.contracts.values import Card, Json
from retrieve_cli.engines.collections import CollectionLifeCycle, Names, reading
from retrieve_cli.engines.lifecycle import PUSH, GenerationRecord
from retrieve_cli.engines.qdrant.parts import (
    KEYWORDS,
    OVERSAMPLING,
    VECTOR,
    WEIGHTS,
    TermPart,
    VectorPart,
    requests,
)
from retrieve_cli.engines.qdrant.server import Missing, QdrantServer
from retrieve_cli.errors import IndexCorrupt, Unavailable, UsageError, quoted

INDEXED_FROM = 10_000
"""Size of the vectors of a segment, in KiB, from which Qdrant builds an HNSW graph; smaller ones are scanned."""
_SECONDS_PER_ROW = 0.01
"""Time that building an index may take; on 2 cores it takes a tenth of it."""
_QUANTILE = 0.99
"""Share of the numbers of vectors inside the range that is quantised; those outside are clipped to its ends. Candidates
by such vectors are rescored with the vectors before quantisation.

Recall@10 in Qdrant's core before and after rescoring, 400 queries of 5,000 texts (docstrings of Python's library):
all-MiniLM-L6-v2 0.9862 and 1 with 0.8, 0.9875 and 1 with 0.99; hashed 0.9663 and 0.9990, 0.9620 and 0.9997; vectors
with heavy tails (Student's t, 3 degrees of freedom) 0.8393 and 0.9218, 0.8890 and 0.9955."""
_MOST_ROWS = 50_000
_OLDEST = (1, 10)
"""First version with the endpoint `points/query`."""
_PREFIX = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}")
_RECORD = 0
"""Id of the point with the record."""


@reading("Qdrant")
class QdrantEngine(CollectionLifeCycle):
    """Qdrant 1.10 or later, by its REST interface.

    Each part has a separate collection, because a row is a record in one part and a chunk in another: points are
    numbered by row. The home of a generation has no vectors. The alias names the first part with vectors. Distances are
    inner products, since Qdrant normalises vectors for cosine and would not return the same bits.

    Tests run searches, filters, sparse and quantised vectors, and counts in Qdrant's own core (qdrant-edge-py). The
    REST interface itself, with aliases, the status of optimizers and credentials, was run
    against a substitute only, which checks requests by Qdrant's published OpenAPI file.
    """

    name = "qdrant"
    product = "Qdrant"

    def __init__(self, settings: QdrantSettings, *, api_key: str | None = None) -> None:
        """Prepare a connection.

        Raises:
            UsageError: the URL or the name of the collection cannot be used.
        """
        if not _PREFIX.fullmatch(settings.collection):
            message = f"qdrant.collection is {quoted(settings.collection)}, which is not the name of a collection"
            raise UsageError(message, hint="use up to 128 letters, digits, `_` and `-`")
        self._settings = settings
        self._names = Names(settings.collection)
        self._server = QdrantServer(settings.url, api_key=api_key, timeout_s=settings.timeout_s)

    @property
    def card(self) -> Card:
        """Parameters that decide which candidates it finds."""
        settings = self._settings
        card = {
            "engine": self.name,
            "quantize": settings.quantize,
            "hnsw_m": HNSW_M,
            "hnsw_ef_construction": HNSW_EF_CONSTRUCTION,
            "hnsw_ef_search": HNSW_EF_SEARCH,
        }
        return card | ({"quantile": _QUANTILE, "oversampling": OVERSAMPLING} if settings.quantize == "int8" else {})

    @property
    def capabilities(self) -> Capabilities:
        """Abilities of Qdrant."""
        return Capabilities(most_rows=_MOST_ROWS)

    def collections(self) -> Mapping[str, Sequence[str]]:
        """Return collections by generation."""
        return self._names.grouped(self._listed())

    def create_home(self, generation: str) -> None:
        """Create the collection with the record."""
        path = f"/collections/{self._names.home(generation)}"
        self._server.call("PUT", path, body={"vectors": {}}, repeatable=False)

    def create_parts(self, record: GenerationRecord) -> None:
        """Create the collections, and the indexes of their payload."""
        for part in record.parts:
            name = self._names.part(record.generation, part.name)
            # No index is built before all rows are there: it would be built several times.
            body: dict[str, Json] = {"optimizers_config": {"indexing_threshold": 0}}
            body |= {"vectors": {}, "sparse_vectors": _SPARSE} if part.dim is None else self._dense(part.dim)
            self._server.call("PUT", f"/collections/{name}", body=body, repeatable=False)
            for key in KEYWORDS:
                index = {"field_name": key, "field_schema": "keyword"}
                self._server.call("PUT", f"/collections/{name}/index", body=index, wait=True)

    def drop_collection(self, collection: str) -> None:
        """Remove a collection."""
        self._server.call("DELETE", f"/collections/{collection}")

    def record(self, generation: str) -> GenerationRecord | None:
        """Return the record of a generation; None if it does not exist. Raises: IndexCorrupt: it cannot be read."""
        collection = self._names.home(generation)
        body = {"ids": [_RECORD], "with_payload": True, "with_vector": False}
        try:
            found = self._server.call("POST", f"/collections/{collection}/points", body=body)
        except Missing:
            return None
        if not found:
            return None
        payload = found[0]["payload"]
        try:
            parts = [Part(*part) for part in payload["parts"]]
            return GenerationRecord(generation, parts, bool(payload["complete"]))
        except (KeyError, TypeError) as error:
            raise IndexCorrupt(f"the record of {collection} cannot be read", hint=PUSH) from error

    def put_record(self, record: GenerationRecord) -> None:
        """Replace the record, and wait until it can be read."""
        payload = {"parts": [list(part) for part in record.parts], "complete": record.complete}
        body: Json = {"points": [{"id": _RECORD, "vector": {}, "payload": payload}]}
        self._server.call("PUT", f"/collections/{self._names.home(record.generation)}/points", body=body, wait=True)

    def set_alias(self, record: GenerationRecord) -> None:
        """Let the alias name the first part with vectors, in one request."""
        collection, alias = self._names.published(record), self._names.prefix
        actions: list[Json] = [{"delete_alias": {"alias_name": alias}}] if self._aliased() is not None else []
        actions.append({"create_alias": {"collection_name": collection, "alias_name": alias}})
        self._server.call("POST", "/collections/aliases", body={"actions": actions})

    def drop_alias(self) -> None:
        """Remove the alias."""
        actions = [{"delete_alias": {"alias_name": self._names.prefix}}]
        self._server.call("POST", "/collections/aliases", body={"actions": actions})

    def live(self) -> str | None:
        """Return the generation that the alias names; None if there is no alias."""
        collection = self._aliased()
        return self._names.owner(collection) if collection is not None else None

    def put_rows(self, record: GenerationRecord, part: Part, batch: Batch) -> None:
        """Store rows."""
        for body in requests(batch, part.unit):
            self._change(record, part, "PUT", "points", body)

    def settle(self, record: GenerationRecord) -> None:
        """Wait until all rows are stored and indexed.

        Raises:
            Unavailable: the indexes were not ready in a time that grows with the number of rows.
        """
        for part in record.parts:
            # Changes of a collection are applied in order: once this one, which removes nothing, is visible, all are.
            nothing = {"filter": {"must": [{"has_id": [part.rows]}]}}
            self._change(record, part, "POST", "points/delete", nothing, wait=True)
            path = f"/collections/{self._names.part(record.generation, part.name)}"
            self._server.call("PATCH", path, body={"optimizers_config": {"indexing_threshold": INDEXED_FROM}})
        for part in record.parts:
            self._wait_for_index(record.generation, part)

    def count(self, record: GenerationRecord, part: Part) -> int:
        """Return the number of rows of a part."""
        path = f"/collections/{self._names.part(record.generation, part.name)}/points/count"
        return int(self._server.call("POST", path, body={"exact": True})["count"])

    def collection(self, record: GenerationRecord, part: Part) -> VectorPart | TermPart:
        """Return the rows of a part."""
        collection = self._names.part(record.generation, part.name)
        if part.dim is None:
            return TermPart(self._server, collection)
        return VectorPart(self._server, collection, ef=HNSW_EF_SEARCH)

    def describe(self) -> Mapping[str, str]:
        """Return the version and the address of the server."""
        version = str(self._server.call("GET", "/").get("version", "unknown"))
        return {"server": f"Qdrant {version}", "address": self._server.address, "collection": self._names.prefix}

    def faults(self) -> Sequence[tuple[str, str]]:
        """Return what keeps the server from being used, or used well, each with its fix."""
        server, faults = self._server, []
        version = str(server.call("GET", "/").get("version", ""))
        if _numbers(version) < _OLDEST:
            faults.append((f"Qdrant {version} has no endpoint points/query", "install Qdrant 1.10 or later"))
        collections = self._listed()
        if self._names.prefix in collections:
            fix = "change qdrant.collection, or remove that collection"
            faults.append((f"there is a collection {self._names.prefix}, so that no alias can have this name", fix))
        return faults

    def close(self) -> None:
        """Close the connection."""
        self._server.close()

    def _listed(self) -> list[str]:
        return [str(each["name"]) for each in self._server.call("GET", "/collections")["collections"]]

    def _aliased(self) -> str | None:
        aliases = self._server.call("GET", "/aliases")["aliases"]
        named = (str(each["collection_name"]) for each in aliases if each["alias_name"] == self._names.prefix)
        return next(named, None)

    def _dense(self, dim: int) -> dict[str, Json]:
        settings = self._settings
        body: dict[str, Json] = {"vectors": {VECTOR: {"size": dim, "distance": "Dot"}}}
        body["hnsw_config"] = {"m": HNSW_M, "ef_construct": HNSW_EF_CONSTRUCTION}
        if settings.quantize == "int8":
            scalar = {"type": "int8", "quantile": _QUANTILE, "always_ram": True}
            body["quantization_config"] = {"scalar": scalar}
        return body

    def _change(
        self, record: GenerationRecord, part: Part, method: str, what: str, body: Json | bytes, *, wait: bool = False
    ) -> None:
        # Waiting includes all changes before: it may take as long as building the index does.
        longest = self._settings.timeout_s + part.rows * _SECONDS_PER_ROW if wait else None
        path = f"/collections/{self._names.part(record.generation, part.name)}/{what}"
        self._server.call(method, path, body=body, wait=wait, timeout_s=longest)

    def _wait_for_index(self, generation: str, part: Part) -> None:
        collection = self._names.part(generation, part.name)
        end = time.monotonic() + self._settings.timeout_s + part.rows * _SECONDS_PER_ROW
        # The optimizer starts some time after it was configured, so that one good answer is not enough if there is
        # something to build.
        needed = 1 if part.rows * (part.dim or 0) * 4 < INDEXED_FROM * 1024 else 3
        pause, good = 0.02, 0
        while True:
            info = self._server.call("GET", f"/collections/{collection}")
            error = info["optimizer_status"]
            if error != "ok":
                message = f"Qdrant cannot index {collection}: {error}"
                raise Unavailable(message[:300], hint="see the log of the server")
            good = good + 1 if info["status"] == "green" else 0
            if good == needed:
                return
            if time.monotonic() > end:
                message = f"Qdrant has not indexed {part.rows} rows of {part.name} in time: status {info['status']}"
                raise Unavailable(message, hint="repeat the command when its load is lower")
            time.sleep(pause)
            pause = min(pause * 2, 1.0) if not good else 0.2


_SPARSE = {WEIGHTS: {"index": {"datatype": "float32"}}}


def _numbers(version: str) -> tuple[int, ...]:
    """Return the first two numbers of a version; (0, 0) if it has others."""
    numbers = version.split(".")[:2]
    return tuple(map(int, numbers)) if all(number.isdecimal() for number in numbers) else (0, 0)
