"""Rows of the current generation that a sync keeps: records with an unchanged source and recipe."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from retrieve_cli.assemble.parts import Writers, companions, keep
from retrieve_cli.assemble.registry import retriever
from retrieve_cli.contracts import Json, Source
from retrieve_cli.ingest.cached_source import ItemBatch
from retrieve_cli.ingest.embedding import TextEncoding
from retrieve_cli.storage.generation import TOKENS, Generation
from retrieve_cli.storage.key_rows import KeyRows, as_keys
from retrieve_cli.storage.recipe import Recipe

if TYPE_CHECKING:
    from retrieve_cli.contracts import Rows
    from retrieve_cli.storage.key_rows import Keys


class Reuse:
    """A generation whose files are sound, as the older state of the one being written."""

    def __init__(self, generation: Generation, recipe: Recipe) -> None:
        """`recipe` is the recipe of the generation to write."""
        self.generation = generation
        self._recipe = recipe
        self.kinds = reusable(generation.manifest.recipe, recipe)
        """Kinds of sources whose rows are still right."""
        self._lacking: Rows = np.empty(0, np.int64)

    @cached_property
    def origins(self) -> KeyRows:
        """The row of each record by the SHA-1 of its item."""
        return KeyRows(as_keys(self.generation.origins))

    @cached_property
    def texts(self) -> KeyRows:
        """The row of each chunk by the SHA-1 of its text."""
        return KeyRows(as_keys(self.generation.texts))

    def begin(self, writers: Writers, encodings: Sequence[TextEncoding]) -> None:
        """Let the writers, by retriever, copy rows from here, and the encodings copy vectors and weights."""
        if not self.kinds:
            return
        before = self.generation.manifest.recipe.retrievers
        for name, writer in writers.items():
            if name in before and retriever(name).keeps(before[name], self._recipe.retrievers[name]):
                writer.reuse(self.generation)
        lacking = [encoding.lend(self.generation, self.texts) for encoding in encodings]
        self._lacking = np.unique(np.concatenate([self._lacking, *lacking]))

    def rows(self, source: Source, batch: ItemBatch) -> Rows:
        """Return the rows of the records of items like these, -1 for those that must be read."""
        return batch.rows(self.origins) if source.kind in self.kinds else np.full(len(batch), -1, np.int64)

    def keep(self, rows: range, writers: Writers, embed: Callable[[bytes, str], None]) -> None:
        """Copy the rows of records in every artifact; chunks are encoded if their vectors or weights are lost."""
        keep(writers, rows)
        first, end = np.searchsorted(self._lacking, self.generation.starts[[rows.start, rows.stop]]).tolist()
        for chunk in self._lacking[first:end].tolist():
            stored = self.generation.chunks[chunk]
            embed(self.generation.texts[chunk].tobytes(), f"{stored['header']}{stored['text']}")

    def same(self, texts: Keys, writers: Writers) -> list[list[str]]:
        """Return the artifacts that depend on texts alone and come out the same if these are the texts of all chunks;
        each as the list of its files."""
        if not np.array_equal(texts, self.texts.keys):
            return []
        before, after = self.generation.manifest, self._recipe
        if before.recipe.encoder != after.encoder:
            return []
        artifacts = [
            [retriever(name).file, *companions(writers[name], len(texts))]
            for name, card in after.retrievers.items()
            if retriever(name).by_text and before.recipe.retrievers.get(name) == card
        ]
        if after.tokens is not None and before.recipe.tokens == after.tokens:
            artifacts.append([TOKENS])
        return [files for files in artifacts if before.files.keys() >= set(files)]


def reusable(before: Recipe, after: Recipe) -> frozenset[str]:
    """Return the kinds of sources whose records would come out the same: fields, chunks, facets, rows, columns."""

    def same(old: Json, new: Json) -> bool:
        return old is not None and bool(old == new)

    if before.encoder != after.encoder or before.columns != after.columns or before.facets != after.facets:
        return frozenset()
    for name, card in after.retrievers.items():
        old = before.retrievers.get(name)
        if not retriever(name).by_text and (old is None or not retriever(name).keeps(old, card)):
            return frozenset()
    kinds = after.sources.keys() & before.sources.keys() & before.chunking.keys()
    return frozenset(
        kind
        for kind in kinds
        if same(before.sources[kind], after.sources[kind]) and same(before.chunking[kind], after.chunking[kind])
    )
