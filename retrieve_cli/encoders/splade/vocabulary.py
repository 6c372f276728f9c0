"""The tokenizer of a SPLADE model, which also knows its vocabulary's entries by their ids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from retrieve_cli.contracts import TermWeights
from retrieve_cli.encoders.threads import once
from retrieve_cli.encoders.tokenizer import ModelTokenizer, Tokenized
from retrieve_cli.frozen import Frozen

if TYPE_CHECKING:
    from retrieve_cli.contracts import Terms, Vectors


class SpladeTokenizer(ModelTokenizer):
    """`ModelTokenizer`, and the entries of its vocabulary."""

    @once
    def entries(self) -> dict[str, int]:
        """Ids by entry of the vocabulary, special tokens included."""
        known: dict[str, int] = self._tokenizer.get_vocab(with_added_tokens=True)
        return known

    def words(self, size: int) -> list[str]:
        """Entries of the vocabulary by id, the empty string where the tokenizer knows none."""
        words = [""] * size
        for entry, number in self.entries.items():
            if number < size:
                words[number] = entry
        return words

    def own_ids(self, texts: Sequence[str], *, max_tokens: int) -> Tokenized:
        """Ids of each text without special tokens around it, cut at the end to at most `max_tokens`."""
        ids = [encoding.ids for encoding in self._plain(texts)]
        return Tokenized([each[:max_tokens] for each in ids], sum(len(each) > max_tokens for each in ids))


class Pruning(Frozen):
    """Keeps the weights above 0 that are at least `min_weight`, and of these the `top_terms` heaviest."""

    min_weight: float = 0.0
    top_terms: int | None = None

    def dense(self, weights: Vectors) -> TermWeights:
        """Return what is kept of one weight for each entry of the vocabulary, (v,) float32."""
        terms = np.flatnonzero(weights > 0).astype(np.int32)
        return self.kept(terms, weights[terms])

    def kept(self, terms: Terms, weights: Vectors) -> TermWeights:
        """Return what is kept of terms in ascending order; of equal weights those of the lower ids."""
        heavy = (weights > 0) & (weights >= np.float32(self.min_weight))
        terms, weights = terms[heavy], weights[heavy]
        if self.top_terms is not None and len(terms) > self.top_terms:
            best = np.sort(np.lexsort((terms, -weights))[: self.top_terms])
            terms, weights = terms[best], weights[best]
        return TermWeights(terms, weights)
