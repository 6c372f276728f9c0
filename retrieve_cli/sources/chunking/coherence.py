"""Changes of subject in prose: similarity of neighbouring sentences, after TextTiling."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from retrieve_cli.contracts import Json

    Encode = Callable[[Sequence[str]], NDArray[np.float32]]

_SENTENCE = 1_000
"""Characters of a sentence that are embedded: its beginning shows its subject."""


class Coherence:
    """Scorer of the gaps between sentences, by the depth of the valley of similarity at each gap.

    Hearst, "TextTiling: Segmenting Text into Multi-paragraph Subtopic Passages", Computational Linguistics 23(1),
    1997, with sentence embeddings instead of term counts. `encode` returns (n, dim) float32, one row per sentence;
    """

    def __init__(self, encode: Encode, *, block: int = 2) -> None:
        self._encode = encode
        self._block = block

    @property
    def card(self) -> Mapping[str, Json]:
        return {"block": self._block}

    def drops(self, sentences: Sequence[str]) -> NDArray[np.float32]:
        """Return (n - 1,) float32 in [0, 1]: the strength of the change of subject after each sentence but the last.

        0 if the similarity has no valley there, or one that is not deeper than mean - deviation / 2 of all depths
        (Hearst's liberal cut-off); 1 at the deepest valley.
        """
        if len(sentences) < 3:
            return np.zeros(max(0, len(sentences) - 1), dtype=np.float32)
        vectors = self._encode([sentence.strip()[:_SENTENCE] for sentence in sentences])
        similarity = gap_similarity(vectors, self._block)
        depths = depth_scores(similarity)
        cutoff = float(depths.mean() - depths.std() / 2)
        deepest = float(depths.max())
        if deepest <= 0:
            return np.zeros(len(depths), dtype=np.float32)
        padded = np.concatenate(([np.inf], similarity, [np.inf]))
        valley = (similarity <= padded[:-2]) & (similarity < padded[2:]) & (depths > cutoff)
        return np.where(valley, depths / deepest, 0).astype(np.float32)


def gap_similarity(vectors: NDArray[np.float32], block: int) -> NDArray[np.float64]:
    """Return (n - 1,) float64: cosine of the mean vectors of up to `block` sentences before and after each gap."""
    sums = np.vstack([np.zeros((1, vectors.shape[1])), np.cumsum(vectors, axis=0, dtype=np.float64)])
    gaps = np.arange(1, len(vectors))
    before = sums[gaps] - sums[np.maximum(gaps - block, 0)]
    behind = sums[np.minimum(gaps + block, len(vectors))] - sums[gaps]
    norms = np.linalg.norm(before, axis=1) * np.linalg.norm(behind, axis=1)
    # Rounded, so that last-bit differences between machines do not move a cut.
    cosine: NDArray[np.float64] = np.round((before * behind).sum(axis=1) / np.maximum(norms, 1e-12), 6)
    return cosine


def depth_scores(similarity: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return (g,) float64: the rise of similarity from each gap to the nearest peaks on its left and right, summed."""
    return _rise(similarity) + _rise(similarity[::-1])[::-1]


def _rise(similarity: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the rise from each gap leftwards to the top of its slope."""
    rise = np.zeros_like(similarity)
    peak = similarity[0]
    for gap in range(1, len(similarity)):
        peak = peak if similarity[gap] <= similarity[gap - 1] else similarity[gap]
        rise[gap] = peak - similarity[gap]
    return rise
