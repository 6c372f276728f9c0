"""Keyword search in an engine: texts become weighted terms here, by the vocabulary of the local index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from retrieve_cli.contracts import Analyzer, Candidates, Unit
from retrieve_cli.retrieval.retrievers.impacts import Bm25Index

if TYPE_CHECKING:
    from retrieve_cli.contracts import Mask, Rows, Vectors
    from retrieve_cli.contracts.engines import AnyOf


class RemoteTexts:
    """A `contracts.RemoteIndex` whose queries are texts, over one whose queries are term weights."""

    def __init__(self, index: Any, words: Bm25Index) -> None:
        """`index` is a `RemoteIndex[TermWeights]` that is also `Matching`; `words` has the vocabulary of its terms."""
        self._index = index
        self._words = words
        self.unit: Unit = index.unit
        self.analyzer: Analyzer = words.analyzer

    def __len__(self) -> int:
        return len(self._index)

    @property
    def completed(self) -> int:
        """Number of lists that the engine returned too short, and that were completed exactly."""
        return int(self._index.completed)

    def within(self, rows: Mask) -> Bm25Index:
        """Return the index over some rows, (n,) bool: from the local file, since the weights in the engine are computed
        over all rows."""
        return self._words.within(rows)

    def search(
        self,
        queries: Sequence[str],
        *,
        depth: int,
        starts: Rows | None = None,
        allowed: Sequence[Mask | None] | None = None,
        visible: Sequence[Mask | None] | None = None,
        conditions: Sequence[Sequence[AnyOf] | None] | None = None,
        seen: Sequence[Sequence[AnyOf] | None] | None = None,
    ) -> list[Candidates]:
        """Return the best rows with a term of the query; rows without one are never listed."""
        weights = [self._words.weights_of(query) for query in queries]
        limits = {"allowed": allowed, "visible": visible, "conditions": conditions, "seen": seen}
        found: list[Candidates] = self._index.search(weights, depth=depth, starts=starts, **limits)
        return found

    def score(self, query: str, rows: Rows, *, starts: Rows | None = None) -> Vectors:
        """Return the score of each of `rows` (or groups of rows), 0 if no term of the query occurs."""
        scores: Vectors = self._index.score(self._words.weights_of(query), rows, starts=starts)
        return scores

    def matching(
        self,
        query: str,
        *,
        starts: Rows | None = None,
        allowed: Mask | None = None,
        conditions: Sequence[AnyOf] | None = None,
    ) -> Rows:
        """Return rows (or groups of rows) with a term of the query, in ascending order, at most 10,000."""
        weights = self._words.weights_of(query)
        rows: Rows = self._index.matching(weights, starts=starts, allowed=allowed, conditions=conditions)
        return rows
