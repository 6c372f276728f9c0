"""Sample of a part that is read back after a staging, and its digest."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from retrieve_cli.contracts import TermWeights
    from retrieve_cli.contracts.values import Rows, Vectors

_SAMPLED = 64


def sampled(rows: int) -> Rows:
    """Return the numbers of the rows that are read back: 64 at even distances, the first and the last among them."""
    return np.unique(np.linspace(0, max(rows - 1, 0), min(_SAMPLED, rows)).astype(np.int64))


class RowSample:
    """Digest of the contents of sampled rows, part by part."""

    def __init__(self) -> None:
        self._sha1 = hashlib.sha1(usedforsecurity=False)

    def add_vectors(self, part: str, vectors: Vectors) -> None:
        """Add the vectors that were read back from the sampled rows of a part, (m, dim) float32."""
        self._sha1.update(f"{part} {vectors.shape}\n".encode())
        self._sha1.update(np.ascontiguousarray(vectors, "<f4").data)

    def add_weights(self, part: str, weights: Sequence[TermWeights]) -> None:
        """Add the term weights that were read back from the sampled rows of a part, terms ascending."""
        for row in weights:
            self._sha1.update(f"{part} {len(row.terms)}\n".encode())
            self._sha1.update(np.ascontiguousarray(row.terms, "<i4").data)
            self._sha1.update(np.ascontiguousarray(row.weights, "<f4").data)

    def digest(self) -> str:
        """Return the SHA-1 of all that was added, 40 hex digits."""
        return self._sha1.hexdigest()
