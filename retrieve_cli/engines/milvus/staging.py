"""A generation on its way into Milvus."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np

from retrieve_cli.contracts.engines import Census
from retrieve_cli.engines.census import Sample, sampled
from retrieve_cli.engines.milvus.entities import (
    ELSEWHERE,
    SMALL,
    SPARSE,
    VECTOR,
    field_of,
    index_of,
    labelled,
    packed,
    padded,
    schema_of,
    sparse_of,
    written,
)
from retrieve_cli.engines.milvus.parts import WEIGHTS, MilvusTerms, MilvusVectors
from retrieve_cli.errors import IndexCorrupt, UsageError, quoted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from retrieve_cli.config.engine_settings import MilvusSettings
    from retrieve_cli.contracts.engines import Batch, Label, Part
    from retrieve_cli.contracts.values import Rows
    from retrieve_cli.engines.milvus.blocks import Blocks
    from retrieve_cli.engines.milvus.names import Names
    from retrieve_cli.engines.milvus.server import Server

_BYTES = 8 * 2**20
"""About the size of one call; a server accepts 64 MiB."""
_MOST_ENTITIES = 1000


class MilvusStaging:
    """The collections of one generation while they are filled.

    Rows are sent with `upsert`, so that a call that the client repeats, or a batch that is sent again, cannot store a
    row twice: Milvus accepts two rows with one primary key.
    """

    def __init__(
        self,
        server: Server,
        settings: MilvusSettings,
        generation: str,
        *,
        parts: Sequence[Part],
        names: Names,
        blocks: Blocks,
        meta: dict[str, Any],
    ) -> None:
        self._server = server
        self._settings = settings
        self._generation = generation
        self._parts = {part.name: part for part in parts}
        self._names = names
        self._blocks = blocks
        self._meta = meta
        self._sent: dict[str, dict[int, bytes]] = {part.name: {} for part in parts}
        self._begun = time.monotonic()

    def begin(self) -> None:
        """Create the collections that are missing, with their indexes."""
        for part in self._parts.values():
            name = self._names.part(self._generation, part.name)
            if not self._server.has(name):
                self._server.ask("create_collection", name, schema=schema_of(part), consistency_level="Strong")
            if not self._server.ask("list_indexes", name):
                self._server.ask("create_index", name, index_of(part, self._settings))

    def put(self, part: str, batch: Batch) -> None:
        """Store rows. A row that is there already is replaced."""
        chosen = self._part(part)
        numbers = np.asarray(batch.rows, np.int64)
        self._remember(chosen, batch, numbers)
        collection = self._names.part(self._generation, part)
        entities: list[dict[str, Any]] = []
        size = 0
        for entity, weight in self._entities(chosen, batch, numbers):
            entities.append(entity)
            size += weight
            if size >= _BYTES or len(entities) >= _MOST_ENTITIES:
                self._server.ask("upsert", collection, entities)
                entities, size = [], 0
        if entities:
            self._server.ask("upsert", collection, entities)

    def copy(
        self,
        part: str,  # noqa: ARG002
        older: str,  # noqa: ARG002
        rows: Rows,  # noqa: ARG002
        older_rows: Rows,  # noqa: ARG002
        labels: Sequence[Label],  # noqa: ARG002
    ) -> None:
        """Raise UsageError: Milvus does not copy rows between collections."""
        raise UsageError("Milvus does not copy rows between collections", hint="send the rows")

    def put_block(self, file: str, number: int, data: bytes) -> None:
        """Store a block of a file; one that is there already is replaced."""
        self._blocks.put("file", file, number, data)

    def finish(self) -> Census:
        """Flush, wait for the indexes, load, count and read back, and mark the generation as complete.

        Raises:
            IndexCorrupt: rows are missing, or a row that was read back is not what was sent.
        """
        sample, rows, signed = Sample(), {}, []
        for part in self._parts.values():
            name = self._names.part(self._generation, part.name)
            self._server.flush(name)
            self._server.wait_for_index(name, field_of(part))
            self._server.load(name)
            rows[part.name] = self._server.count(name)
            if rows[part.name] != part.rows:
                message = f"Milvus holds {rows[part.name]} of {part.rows} rows of {part.name}"
                raise IndexCorrupt(message, hint="run: retrieve engines push")
            if part.dim is None and self._server.count(name, f"least < {SMALL}"):
                signed.append(part.name)
            self._read_back(part, sample)
        census = Census(rows, sample.digest(), time.monotonic() - self._begun)
        kept = {"rows": dict(census.rows), "sample": census.sample, "seconds": census.seconds, "bytes": census.bytes}
        # Milvus acknowledges a row when it is in its log, in order: blocks are there before the mark.
        self._blocks.put_meta({**self._meta, "complete": True, "signed": signed, "census": kept})
        self._blocks.flush()
        return census

    def close(self) -> None:
        """Do nothing: the connection belongs to the engine."""

    def _part(self, name: str) -> Part:
        part = self._parts.get(name)
        if part is None:
            raise UsageError(f"the generation has no part {quoted(name)}, but: {', '.join(self._parts) or 'none'}")
        return part

    def _entities(self, part: Part, batch: Batch, numbers: Rows) -> Iterator[tuple[dict[str, Any], int]]:
        """Yield entities with their approximate sizes in bytes."""
        vectors = None if batch.vectors is None else padded(np.asarray(batch.vectors, np.float32))
        for place, (row, label) in enumerate(zip(numbers.tolist(), batch.labels, strict=True)):
            entity = labelled(row, label)
            size = len(entity["text"]) + len(entity["title"]) + 40 * len(entity["tags"]) + 200
            if part.dim is not None and vectors is not None:
                entity[VECTOR] = vectors[place]
                size += 4 * vectors.shape[1]
            else:
                weights = batch.weights[place]
                data = packed(weights)
                entity["weights"] = written(data)
                if entity["weights"] == ELSEWHERE:
                    self._blocks.put(WEIGHTS, part.name, row, data)
                entity["least"] = float(weights.weights.min()) if len(weights.weights) else 1.0
                entity[SPARSE] = sparse_of(weights)
                size += 20 * len(weights.terms)
            yield entity, size

    def _remember(self, part: Part, batch: Batch, numbers: Rows) -> None:
        """Keep what is sent of the rows that are read back at the end."""
        wanted = set(sampled(part.rows).tolist())
        for place, row in enumerate(numbers.tolist()):
            if row in wanted:
                sent = packed(batch.weights[place]) if batch.vectors is None else _bytes(batch.vectors[place])
                self._sent[part.name][row] = sent

    def _read_back(self, part: Part, sample: Sample) -> None:
        name, rows = self._names.part(self._generation, part.name), sampled(part.rows)
        if part.dim is not None:
            vectors = MilvusVectors(self._server, name, part, settings=self._settings).vectors(rows)
            sample.add_vectors(part.name, vectors)
            stored = [_bytes(vector) for vector in vectors]
        else:
            terms = MilvusTerms(self._server, name, part, blocks=self._blocks, signed=False)
            weights = terms.weights(rows, np.empty(0, np.int32))
            sample.add_weights(part.name, weights)
            stored = [packed(row) for row in weights]
        for row, data in zip(rows.tolist(), stored, strict=True):
            if self._sent[part.name].get(row, data) != data:
                message = f"row {row} of {part.name} in Milvus is not what was sent"
                raise IndexCorrupt(message, hint="run: retrieve engines push")


def _bytes(vector: Any) -> bytes:
    return np.ascontiguousarray(vector, "<f4").tobytes()
