"""Rows of the current generation that a sync keeps: those of records whose source and recipe are as they were."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from retrieve_cli.assemble.parts import Writers
from retrieve_cli.assemble.registry import retriever
from retrieve_cli.contracts import Item, Json, Source
from retrieve_cli.ingest.embedding import Encoding
from retrieve_cli.storage.content_cache import as_keys
from retrieve_cli.storage.generation import Generation
from retrieve_cli.storage.recipe import Recipe


class Reuse:
    """A generation whose files are sound, as the older state of the one being written."""

    def __init__(self, generation: Generation, recipe: Recipe) -> None:
        """`recipe` is that of the generation being written."""
        self.generation = generation
        self._recipe = recipe
        self.kinds = reusable(generation.manifest.recipe, recipe)
        """Kinds of sources whose rows are still right."""
        self._lacking: frozenset[int] = frozenset()

    def begin(self, writers: Writers, encodings: Sequence[Encoding]) -> None:
        """Let the writers, by retriever, take rows from here, and the encodings what is known of the texts."""
        if not self.kinds:
            return
        before = self.generation.manifest.recipe.retrievers
        for name, writer in writers.items():
            if name in before and retriever(name).keeps(before[name], self._recipe.retrievers[name]):
                writer.reuse(self.generation)
        keys = as_keys(self.generation.texts)
        for encoding in encodings:
            encoding.lend(self.generation)
        self._lacking = frozenset[int]().union(*(encoding.lacks(keys) for encoding in encodings))

    def row(self, source: Source, item: Item) -> int | None:
        """The row of the record that was read from an item like this."""
        return self.generation.rows_by_origin.get(item.digest) if source.kind in self.kinds else None

    def name(self, row: int) -> str:
        """The id of that record."""
        return self.generation.record_id(row)

    def keep(self, row: int, writers: Writers, embed: Callable[[bytes, str], None]) -> None:
        """Keep a record's rows in every artifact; its chunks are encoded if what was made of them is lost."""
        for writer in writers.values():
            writer.keep(row)
        first, end = self.generation.starts[row : row + 2].tolist()
        for chunk in self._lacking.intersection(range(first, end)) if self._lacking else ():
            stored = self.generation.chunks[chunk]
            embed(self.generation.texts[chunk].tobytes(), f"{stored['header']}{stored['text']}")


def reusable(before: Recipe, after: Recipe) -> frozenset[str]:
    """Return the kinds of sources whose records would come out the same: same fields, same chunks, same rows."""

    def same(old: Json, new: Json) -> bool:
        return old is not None and bool(old == new)

    if before.encoder != after.encoder:
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
