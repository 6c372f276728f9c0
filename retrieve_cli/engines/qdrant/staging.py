"""A generation on its way into Qdrant."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from retrieve_cli.contracts.engines import Batch, Census, Label, Part
from retrieve_cli.contracts.models import TermWeights
from retrieve_cli.contracts.values import Json
from retrieve_cli.engines.answers import reading
from retrieve_cli.engines.census import Sample, sampled
from retrieve_cli.engines.qdrant import about
from retrieve_cli.engines.qdrant.names import Names
from retrieve_cli.engines.qdrant.parts import TermPart, VectorPart
from retrieve_cli.engines.qdrant.points import KEYWORDS, TERMS, VECTOR, WEIGHTS, requests
from retrieve_cli.engines.qdrant.server import Server
from retrieve_cli.errors import IndexCorrupt, Unavailable, UsageError

if TYPE_CHECKING:
    from retrieve_cli.contracts.values import Rows, Vectors

INDEXED_FROM = 10_000
"""Size of the vectors of a segment, in KiB, from which Qdrant builds an HNSW graph; smaller ones are scanned."""
_SECONDS_PER_ROW = 0.01
"""Time that building an index may take; on 2 cores it takes a tenth of it."""


@reading("Qdrant")
class QdrantStaging:
    """A generation whose collections exist, and whose rows are being sent."""

    def __init__(self, server: Server, names: Names, generation: str, record: about.About, *, timeout_s: float) -> None:
        self._server, self._names, self._generation, self._record = server, names, generation, record
        self._collection = names.generation(generation)
        self._timeout_s = timeout_s
        self._parts = {part.name: part for part in record.parts}
        self._sampled = {part.name: set(sampled(part.rows).tolist()) for part in record.parts}
        self._sent: dict[tuple[str, int], Vectors | TermWeights] = {}
        self._start = time.monotonic()

    def put(self, part: str, batch: Batch) -> None:
        """Store rows; a row that is there already is replaced."""
        for body in requests(batch, self._part(part).unit):
            self._change(part, "PUT", "points", body)
        for place, row in enumerate(batch.rows.tolist()):
            if row in self._sampled[part]:
                # Copies, since the caller may use the arrays of a batch for the next one.
                contents = batch.weights[place] if batch.vectors is None else batch.vectors[place].astype(np.float32)
                self._sent[part, row] = contents

    def copy(self, part: str, older: str, rows: Rows, older_rows: Rows, labels: Sequence[Label]) -> NoReturn:  # noqa: ARG002
        """Reject the request: Qdrant does not copy rows between collections.

        Raises:
            UsageError: always.
        """
        raise UsageError("Qdrant does not copy rows between generations", hint="send the rows")

    def put_block(self, file: str, number: int, data: bytes) -> None:
        """Store a block of a file; one that is there already is replaced."""
        about.put_block(self._server, self._collection, file, number, data)

    def finish(self) -> Census:
        """Wait until all rows are stored and indexed, count and read back, and mark the generation as complete.

        Raises:
            IndexCorrupt: rows are missing, or a row that was read back is not what was sent.
            Unavailable: the indexes were not ready in a time that grows with the number of rows.
        """
        for part in self._record.parts:
            # Changes of a collection are applied in order: once this one, which removes nothing, is visible, all are.
            self._change(part.name, "POST", "points/delete", {"filter": {"must": [{"has_id": [part.rows]}]}}, wait=True)
            self._server.call("PATCH", self._path(part.name), body={"optimizers_config": _threshold(INDEXED_FROM)})
        rows = {}
        for part in self._record.parts:
            self._wait_for_index(part)
            rows[part.name] = self._count(part)
        census = Census(rows, self._read_back(), round(time.monotonic() - self._start, 3))
        about.write(self._server, self._collection, self._record._replace(census=census))
        return census

    def close(self) -> None:
        """Forget what was sent; the engine keeps the connection."""
        self._sent.clear()

    def _wait_for_index(self, part: Part) -> None:
        end = time.monotonic() + self._timeout_s + part.rows * _SECONDS_PER_ROW
        # The optimizer starts some time after it was configured, so that one good answer is not enough if there is
        # something to build.
        needed = 1 if part.rows * (part.dim or 0) * 4 < INDEXED_FROM * 1024 else 3
        pause, good = 0.02, 0
        while True:
            info = self._server.call("GET", self._path(part.name))
            error = info["optimizer_status"]
            if error != "ok":
                message = f"Qdrant cannot index {self._names.part(self._generation, part.name)}: {error}"
                raise Unavailable(message[:300], hint="see the log of the server")
            good = good + 1 if info["status"] == "green" else 0
            if good == needed:
                return
            if time.monotonic() > end:
                message = f"Qdrant has not indexed {part.rows} rows of {part.name} in time: status {info['status']}"
                raise Unavailable(message, hint="repeat the command later: rows that were sent stay there")
            time.sleep(pause)
            pause = min(pause * 2, 1.0) if not good else 0.2

    def _count(self, part: Part) -> int:
        count = int(self._server.call("POST", f"{self._path(part.name)}/points/count", body={"exact": True})["count"])
        if count != part.rows:
            message = f"Qdrant has {count} rows of {part.name}, not {part.rows}"
            raise IndexCorrupt(message, hint="repeat the command: missing rows are sent again")
        return count

    def _read_back(self) -> str:
        """Return the digest of sampled rows. Raises: IndexCorrupt: one is not what was sent."""
        sample = Sample()
        for part in self._record.parts:
            rows, collection = sampled(part.rows), self._names.part(self._generation, part.name)
            if part.dim is None:
                weights = TermPart(self._server, collection).weights(rows, np.empty(0, np.int32))
                sample.add_weights(part.name, weights)
                stored: Sequence[Vectors | TermWeights] = weights
            else:
                vectors = VectorPart(self._server, collection, dim=part.dim, ef=1).vectors(rows)
                sample.add_vectors(part.name, vectors)
                stored = list(vectors)
            for row, contents in zip(rows.tolist(), stored, strict=True):
                sent = self._sent.get((part.name, row))
                if sent is not None and not _same(sent, contents):
                    message = f"row {row} of {part.name} in Qdrant is not what was sent"
                    raise IndexCorrupt(message, hint="check that no other program writes to these collections")
        return sample.digest()

    def _part(self, name: str) -> Part:
        if name not in self._parts:
            raise UsageError(f"generation {self._generation} has no part {name}", hint="name one of its parts")
        return self._parts[name]

    def _path(self, part: str) -> str:
        return f"/collections/{self._names.part(self._generation, part)}"

    def _change(self, part: str, method: str, what: str, body: Json | bytes, *, wait: bool = False) -> None:
        # Waiting includes all changes before: it may take as long as building the index does.
        longest = self._timeout_s + self._part(part).rows * _SECONDS_PER_ROW if wait else None
        self._server.call(method, f"{self._path(part)}/{what}", body=body, wait=wait, timeout_s=longest)


def create_part(server: Server, collection: str, part: Part, *, card: Json) -> None:
    """Create the empty collection of a part."""
    # No index is built before all rows are there: it would be built several times.
    body: dict[str, Json] = {"optimizers_config": _threshold(0)}
    if part.dim is None:
        body |= {"vectors": {}, "sparse_vectors": {WEIGHTS: {"index": {"datatype": "float32"}}}}
    else:
        body["vectors"] = {VECTOR: {"size": part.dim, "distance": "Dot"}}
        body["hnsw_config"] = {"m": card["hnsw_m"], "ef_construct": card["hnsw_ef_construction"]}
        if card["quantize"] == "int8":
            scalar = {"type": "int8", "quantile": card["quantile"], "always_ram": True}
            body["quantization_config"] = {"scalar": scalar}
    server.call("PUT", f"/collections/{collection}", body=body, repeatable=False)


def index_payload(server: Server, collection: str, part: Part) -> None:
    """Create the indexes of a part's payload; those that are there stay."""
    schemas = dict.fromkeys(KEYWORDS, "keyword") | ({TERMS: "integer"} if part.dim is None else {})
    for key, schema in schemas.items():
        index = {"field_name": key, "field_schema": schema}
        server.call("PUT", f"/collections/{collection}/index", body=index, wait=True)


def create_record(server: Server, collection: str, record: about.About) -> None:
    """Create the collection of a generation and write its record."""
    server.call("PUT", f"/collections/{collection}", body={"vectors": {}}, repeatable=False)
    about.write(server, collection, record)


def _threshold(size: int) -> Json:
    return {"indexing_threshold": size}


def _same(sent: Vectors | TermWeights, stored: Vectors | TermWeights) -> bool:
    """Return True if both have the same bits."""
    if isinstance(sent, TermWeights) and isinstance(stored, TermWeights):
        order = np.argsort(sent.terms, kind="stable")
        terms, weights = sent.terms[order].astype(np.int32), sent.weights[order].astype(np.float32)
        return terms.tobytes() == stored.terms.tobytes() and weights.tobytes() == stored.weights.tobytes()
    return np.asarray(sent).tobytes() == np.asarray(stored).tobytes()
