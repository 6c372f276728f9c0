"""Dense retrieval: ranks by the inner product of embeddings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from retrieve_cli.contracts import Card, Chunk, Package, Passages, Record
from retrieve_cli.errors import IndexCorrupt, UsageError
from retrieve_cli.retrieval.retrievers.retriever import VECTOR, Building, IndexWriter, Retriever
from retrieve_cli.retrieval.retrievers.vector_index import DenseIndex, Parameters, open_vectors, write

if TYPE_CHECKING:
    from retrieve_cli.config.settings import Settings
    from retrieve_cli.contracts import Rows, Vectors
    from retrieve_cli.retrieval.retrievers.hnsw_index import HnswGraph
    from retrieve_cli.retrieval.retrievers.vector_index import FlatVectors
    from retrieve_cli.storage.generation import Generation
    from retrieve_cli.storage.segment import Segment

_WORTH_GRAPH = 100_000
"""Rows of a segment from which on it has a graph, if one is configured; fewer are scanned."""


class _Writer:
    """Writer of the vectors of all chunks of all records."""

    def __init__(self, parameters: Parameters, dim: int) -> None:
        self._parameters = parameters
        self._dim = dim

    def add(self, record: Record, chunks: Sequence[Chunk]) -> None:
        """Do nothing: vectors come with the passages."""

    def take(self, segment: Segment, records: Rows, chunks: Rows) -> None:
        """Do nothing: vectors come with the passages."""

    def write(self, path: Path, passages: Passages) -> int:
        rows = passages.chunks
        parameters = self._parameters if rows >= _WORTH_GRAPH else Parameters()
        return write(passages.vectors(), path, rows=rows, dim=self._dim, parameters=parameters)


class Dense(Retriever["Vectors"]):
    """Dense retriever: ranks by the inner product of embeddings."""

    name = "dense"
    file = "dense.faiss"
    form = VECTOR
    weight = 0.65
    similarity = True
    role = "dense"
    packages = (Package(("faiss-cpu", "faiss-gpu-cu12", "faiss-gpu"), "index", "hnsw", "kind"),)

    def card(self, building: Building) -> Card | None:
        return None if building.encoder is None else self._parameters(building).card

    def writer(self, building: Building) -> IndexWriter:
        if building.encoder is None:
            raise UsageError("vectors need an encoder", hint=f"set {self.name}.enabled: true")
        return _Writer(self._parameters(building), building.encoder.card.dim)

    def open(self, generation: Generation, settings: Settings) -> DenseIndex:
        chosen, dim = settings.dense, generation.manifest.recipe.encoder_card.dim
        segments = [stored_by(segment, hnsw_ef_search=chosen.hnsw_ef_search) for segment in generation.segments]
        if different := [segment.dim for segment in segments if segment.dim != dim]:
            message = f"{self.file} has vectors of {different[0]} numbers; the recipe has {dim}"
            raise IndexCorrupt(message, hint="build again: retrieve build")
        return DenseIndex(segments, device=chosen.device, lowest=generation.lowest)

    def required(self, settings: Settings) -> bool:
        """Return True if a search without it is an error: by policy, or because the configuration asks for a GPU."""
        chosen = settings.encoder
        return chosen.policy == "required" or (chosen.device == "cuda" and chosen.kind != "remote")

    def configured(self, settings: Settings) -> bool:
        return settings.dense.enabled

    @staticmethod
    def _parameters(building: Building) -> Parameters:
        chosen = building.settings.dense
        return Parameters(chosen.index, chosen.hnsw_m, chosen.hnsw_ef_construction)


RETRIEVER = Dense()


def stored_by(segment: Segment, *, hnsw_ef_search: int = 1) -> FlatVectors | HnswGraph:
    """Return the vectors of the chunks of a segment. Raises: IndexCorrupt: the file is damaged."""
    vectors = open_vectors(segment.file(RETRIEVER.file), hnsw_ef_search=hnsw_ef_search)
    segment.expect(RETRIEVER.file, len(vectors))
    return vectors


def stored_vectors(generation: Generation, rows: Rows) -> Vectors:
    """Return the vectors of chunk rows, (n, dim) float32. Raises: IndexCorrupt: a file is damaged."""
    return DenseIndex([stored_by(segment) for segment in generation.segments]).vectors(rows)
