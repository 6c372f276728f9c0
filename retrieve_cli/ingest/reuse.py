"""What of the live generation a sync may take over: rows of records whose source and recipe are as they were."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from retrieve_cli.assemble.parts import Parts, TextIndex
from retrieve_cli.assemble.pipelines import stored_vectors
from retrieve_cli.contracts import Item, Json, Source
from retrieve_cli.storage import pickles
from retrieve_cli.storage.content_cache import as_keys
from retrieve_cli.storage.generation import BM25, DENSE, SPLADE, TOKENS, Generation
from retrieve_cli.storage.manifest import faults
from retrieve_cli.storage.token_cache import TokenCache
from retrieve_cli.storage.token_table import CARD, TokenTable
from retrieve_cli.storage.vector_cache import VectorCache

_BLOCK = 16_384


class Reuse:
    """A generation whose files are sound, as the older state of the one being written."""

    def __init__(self, generation: Generation, recipe: Mapping[str, Json]) -> None:
        """`recipe` is that of the generation being written."""
        self.generation = generation
        self.kinds = reusable(generation.manifest.recipe, recipe)
        """Kinds of sources whose rows are still right."""
        self._unit = recipe["bm25"]["unit"]
        self._lacking: frozenset[int] = frozenset()

    def begin(self, parts: Parts, cache: VectorCache, tokens: TokenCache | None) -> None:
        """Opens what rows are taken from, and sees to it that the caches have their vectors and tokens."""
        if not self.kinds:
            return
        parts.text_index.reuse(pickles.load(self.generation.folder / BM25))
        keys = as_keys(self.generation.texts)
        lacking = cache.lacks(keys)
        if len(lacking) and not faults(self.generation.folder, self.generation.manifest, [DENSE]):
            missing = lacking[np.unique(keys[lacking], return_index=True)[1]]
            for start in range(0, len(missing), _BLOCK):
                rows = missing[start : start + _BLOCK]
                digests = [self.generation.texts[row].tobytes() for row in rows]
                cache.append(digests, stored_vectors(self.generation, rows))
            lacking = cache.lacks(keys)
        self._lacking = frozenset(lacking.tolist())
        if tokens is not None:
            self._lacking |= self._give_tokens(tokens)

    def splade(self, recipe: Mapping[str, Json]) -> tuple[Mapping[str, Json] | None, dict[bytes, int]]:
        """The older SPLADE index, where its weights are still right, and the row of each text in it."""
        before = self.generation.manifest
        if before.recipe.get("splade") != recipe["splade"]:
            return None, {}
        rows = {digest.tobytes(): row for row, digest in enumerate(self.generation.texts)}
        return pickles.load(self.generation.folder / SPLADE), rows

    def _give_tokens(self, cache: TokenCache) -> frozenset[int]:
        """Lends the cache the tokens that are here, where they are packed alike; the rows of those that are nowhere."""
        keys = [digest.tobytes() for digest in self.generation.texts]
        if self.generation.manifest.recipe.get("tokens") == CARD:
            rows = {key: row for row, key in enumerate(keys)}
            cache.lend(TokenTable(pickles.load(self.generation.folder / TOKENS)), rows)
            return frozenset()
        return frozenset(row for row, key in enumerate(keys) if key not in cache)

    def row(self, source: Source, item: Item) -> int | None:
        """The row of the record that was read from an item like this."""
        return self.generation.rows_by_origin.get(item.digest) if source.kind in self.kinds else None

    def name(self, row: int) -> str:
        """The id of that record."""
        return self.generation.record_id(row)

    def keep(self, row: int, text_index: TextIndex, embed: Callable[[bytes, str], None]) -> None:
        """Takes over a record's rows of the text index; embeds its chunks where their vectors are lost."""
        first, end = int(self.generation.starts[row]), int(self.generation.starts[row + 1])
        for old in (row,) if self._unit == "record" else range(first, end):
            text_index.keep(old)
        for chunk in self._lacking.intersection(range(first, end)) if self._lacking else ():
            stored = self.generation.chunks[chunk]
            embed(self.generation.texts[chunk].tobytes(), f"{stored['header']}{stored['text']}")


def reusable(before: Mapping[str, Json], after: Mapping[str, Json]) -> frozenset[str]:
    """The kinds of sources whose records would come out the same: same fields, same chunks, same tokens, same terms."""

    def same(*path: str) -> bool:
        old: Json = before
        new: Json = after
        for key in path:
            old, new = old.get(key), new.get(key)
            if old is None or new is None:
                return False
        return bool(old == new)

    if not (same("encoder") and same("bm25", "unit") and same("bm25", "analyzer")):
        return frozenset()
    return frozenset(kind for kind in after["sources"] if same("sources", kind) and same("chunking", kind))
