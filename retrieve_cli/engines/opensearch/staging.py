"""A generation on its way into OpenSearch."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import orjson

from retrieve_cli.contracts.engines import Batch, Census, Label, Part
from retrieve_cli.contracts.models import TermWeights
from retrieve_cli.engines.answers import reading
from retrieve_cli.engines.census import Sample, sampled
from retrieve_cli.engines.opensearch import documents
from retrieve_cli.engines.opensearch.collections import IndexReader
from retrieve_cli.engines.opensearch.metadata import Metadata, write_metadata
from retrieve_cli.engines.opensearch.server import Absent, Rejected, Server, corrupt
from retrieve_cli.errors import IndexCorrupt, UsageError

if TYPE_CHECKING:
    from retrieve_cli.contracts.values import Rows

_ROWS_AT_ONCE = 500
"""Rows that are in memory as JSON at a time."""
_REFRESHED_WITHIN = 600.0
"""Seconds for making all rows visible, which builds graphs of vectors."""


@reading("OpenSearch")
class OpensearchStaging:
    """Indexes of a generation that is not visible to queries yet."""

    def __init__(self, server: Server, names: documents.Names, generation: str, metadata: Metadata) -> None:
        self._server = server
        self._home = names.home(generation)
        self._metadata = metadata
        self._parts = {part.name: part for part in metadata.parts}
        self._indexes = {part.name: names.part(generation, part.name) for part in metadata.parts}
        self._principal = documents.principal(metadata.parts)
        self._sent: dict[tuple[str, int], bytes] = {}
        self._begun = time.monotonic()

    def put(self, part: str, batch: Batch) -> None:
        if part not in self._parts:
            raise UsageError(f"generation {self._home} has no part {part}", hint="stage it with this part")
        self._remember(self._parts[part], batch)
        with_text = self._parts[part] == self._principal
        for piece in _pieces(batch):
            lines = documents.documents(self._parts[part], piece, with_text=with_text)
            self._server.store(self._indexes[part], lines)

    def copy(self, part: str, older: str, rows: Rows, older_rows: Rows, labels: Sequence[Label]) -> None:  # noqa: ARG002
        raise UsageError("OpenSearch does not copy rows of another generation", hint="send them with `put`")

    def put_block(self, file: str, number: int, data: bytes) -> None:
        document = {"file": file, "number": number, "data": base64.b64encode(data).decode()}
        self._server.store(self._home, [(documents.block_id(file, number), orjson.dumps(document))])

    def finish(self) -> Census:
        self._refresh()
        sample, counts, lowered = Sample(), {}, {}
        for part in self._metadata.parts:
            reader = IndexReader(self._server, self._indexes[part.name])
            counts[part.name] = reader.count({"match_all": {}})
            if counts[part.name] != part.rows:
                raise corrupt(self._indexes[part.name], f"it has {counts[part.name]} of {part.rows} rows")
            self._sample(sample, reader, part)
            if part.dim is None:
                lowered[part.name] = reader.count({"exists": {"field": "lowered"}})
        seconds = time.monotonic() - self._begun
        census = Census(counts, sample.digest(), seconds, self._bytes())
        write_metadata(self._server, self._home, self._metadata._replace(lowered=lowered, census=census))
        return census

    def close(self) -> None:
        """The connections belong to the engine."""

    def _remember(self, part: Part, batch: Batch) -> None:
        """Keep the numbers of rows that `finish` reads back."""
        for place in np.flatnonzero(np.isin(batch.rows, sampled(part.rows))).tolist():
            if batch.vectors is not None:
                data = np.ascontiguousarray(batch.vectors[place], "<f4").tobytes()
            else:
                data = _bytes(batch.weights[place])
            self._sent[part.name, int(batch.rows[place])] = data

    def _sample(self, sample: Sample, reader: IndexReader, part: Part) -> None:
        """Add the sampled rows of a part, and compare those that this object sent."""
        rows = sampled(part.rows)
        exact = reader.exact(rows)
        if part.dim is not None:
            vectors = documents.read_vectors(exact, part.dim)
            sample.add_vectors(part.name, vectors)
            stored = [vector.tobytes() for vector in vectors]
        else:
            weights = [documents.read_weights(text) for text in exact]
            sample.add_weights(part.name, weights)
            stored = list(map(_bytes, weights))
        for row, data in zip(rows.tolist(), stored, strict=True):
            if self._sent.get((part.name, row), data) != data:
                raise corrupt(self._indexes[part.name], f"row {row} that was read back is not what was sent")

    def _refresh(self) -> None:
        """Make everything that was stored visible to searches."""
        for index in (self._home, *self._indexes.values()):
            try:
                answer = self._server.ask("POST", f"/{index}/_refresh", timeout=_REFRESHED_WITHIN)
            except (Absent, Rejected) as error:
                raise corrupt(index, error) from error
            if answer["_shards"]["failed"]:
                raise IndexCorrupt(f"a shard of {index} failed", hint="check the log of the server, and push again")

    def _bytes(self) -> int | None:
        """Return the size of all indexes; None if the credential does not allow asking."""
        indexes = ",".join((self._home, *self._indexes.values()))
        try:
            statistics = self._server.ask("GET", f"/{indexes}/_stats/store")
            return int(statistics["_all"]["total"]["store"]["size_in_bytes"])
        except (Absent, Rejected, KeyError):
            return None


def _pieces(batch: Batch) -> Iterator[Batch]:
    for start in range(0, len(batch.rows), _ROWS_AT_ONCE):
        piece = slice(start, start + _ROWS_AT_ONCE)
        vectors = None if batch.vectors is None else batch.vectors[piece]
        yield Batch(batch.rows[piece], batch.labels[piece], vectors, batch.weights[piece])


def _bytes(weights: TermWeights) -> bytes:
    return np.ascontiguousarray(weights.terms, "<i4").tobytes() + np.ascontiguousarray(weights.weights, "<f4").tobytes()
