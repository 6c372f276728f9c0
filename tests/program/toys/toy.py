"""A retriever as a package outside of the program adds it, in one file: chunks by the pairs of letters they share."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from retrieve_cli.config.settings import Settings
from retrieve_cli.contracts import Card, Chunk, Passages, Record, Unit
from retrieve_cli.retrieval.retrievers.retriever import TEXT, Building, IndexWriter, Retriever
from retrieve_cli.retrieval.retrievers.selection import ScoringIndex
from retrieve_cli.storage import pickles
from retrieve_cli.storage.generation import Generation

if TYPE_CHECKING:
    from retrieve_cli.contracts import Rows, Vectors
    from retrieve_cli.storage.segment import Segment


def pairs(text: str) -> set[str]:
    return {text[at : at + 2] for at in range(len(text) - 1) if text[at : at + 2].isalpha()}


class ToyIndex(ScoringIndex[str]):
    unit: Unit = "chunk"

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = texts

    def __len__(self) -> int:
        return len(self._texts)

    def _scores(self, query: str) -> Vectors:
        wanted = pairs(query.lower())
        return np.array([len(wanted & pairs(text)) / (len(wanted) or 1) for text in self._texts], np.float32)


class ToyWriter:
    def __init__(self) -> None:
        self._texts: dict[int, str] = {}

    def add(self, record: Record, chunks: Sequence[Chunk]) -> None:
        for chunk in chunks:
            self._texts[len(self._texts)] = chunk.embedded.lower()

    def take(self, segment: Segment, records: Rows, chunks: Rows) -> None:
        texts = pickles.load(segment.file(Toy.file))["texts"]
        self._texts |= {row: text for row, text in zip(chunks.tolist(), texts, strict=True) if row >= 0}

    def write(self, path: Path, passages: Passages) -> int:
        pickles.dump({"texts": [self._texts[row] for row in range(len(self._texts))]}, path)
        return len(self._texts)


class Toy(Retriever[str]):
    name = "toy"
    file = "toy.pkl"
    form = TEXT
    weight = 0.2

    def card(self, building: Building) -> Card:
        return {"letters": 2, "color": building.settings.plugins.get(self.name, {}).get("color", "blue")}

    def writer(self, building: Building) -> IndexWriter:
        return ToyWriter()

    def open(self, generation: Generation, settings: Settings) -> ToyIndex:
        return ToyIndex(pickles.load(generation.folder / self.file)["texts"])


RETRIEVER = Toy()
