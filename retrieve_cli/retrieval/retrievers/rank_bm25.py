"""BM25 by the rank_bm25 package: a second backend with the same interface, for comparison.

Every query scores every row, and every opening rebuilds the engine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from retrieve_cli.contracts import Json, Unit
from retrieve_cli.errors import IndexCorrupt, quoted
from retrieve_cli.retrieval.retrievers.analyzer import TextAnalyzer
from retrieve_cli.retrieval.retrievers.impacts import TermIndex
from retrieve_cli.retrieval.retrievers.term_postings import Postings, posting_blocks, stored_columns, vocabulary_of
from retrieve_cli.storage import pickles

if TYPE_CHECKING:
    from typing import Self

    from retrieve_cli.contracts import Mask, Vectors


class RankBm25Writer(Postings):
    """Writer of `bm25.pkl` for rank_bm25: a term is repeated by its weighted frequency, rounded."""

    def __init__(self, *, analyzer: TextAnalyzer, unit: Unit, k1: float, b: float) -> None:
        super().__init__(analyzer)
        self._head = {"backend": "rank_bm25", "unit": unit, "analyzer": dict(analyzer.card), "k1": k1, "b": b}

    def write(self, path: Path) -> int:
        """Write the terms of all rows; return the number of rows."""
        columns, merged = self.merged()
        stored, rows, frequencies = stored_columns(columns)
        pickles.dump({**self._head, **stored}, path, posting_blocks(merged, rows, frequencies))
        return int(stored["length"])


class RankBm25Index(TermIndex):
    """BM25Okapi of rank_bm25 over the stored terms; rebuilt at each opening, because the package cannot store it."""

    def __init__(self, stored: Mapping[str, Json]) -> None:
        """Open the contents from `RankBm25Writer`. Raises: IndexCorrupt if parts are missing or disagree."""
        try:
            self.unit: Unit = stored["unit"]
            card = stored["analyzer"]
            self.analyzer = TextAnalyzer(stemming=card["stemming"], stop_words=card["stop_words"])
            self._length: int = stored["length"]
            rows: list[list[str]] = [[] for _ in range(self._length)]
            vocabulary = vocabulary_of(stored)
            terms = np.repeat(np.arange(len(vocabulary)), np.diff(stored["starts"]))
            for row, term, count in zip(stored["rows"], terms, np.rint(stored["frequencies"]), strict=True):
                rows[row].extend([vocabulary[term]] * int(count))
            self._texts = rows
            self._parameters = {"k1": stored["k1"], "b": stored["b"]}
            self._engine = self._made(rows)
        except (KeyError, TypeError, IndexError, ValueError) as error:
            raise IndexCorrupt(f"bm25.pkl is incomplete ({quoted(error)})", hint="retrieve inspect verify") from error

    def __len__(self) -> int:
        return self._length

    def within(self, rows: Mask) -> Self:
        """Return the index over some rows, (n,) bool; the package computes it again."""
        view = super().within(rows)
        own = [self._texts[row] for row in np.flatnonzero(rows)]
        view._engine = self._made(own)  # noqa: SLF001  a copy of this very object
        return view

    def _made(self, rows: Sequence[Sequence[str]]) -> Any:
        from rank_bm25 import BM25Okapi

        return BM25Okapi(rows, **self._parameters) if any(rows) else None

    def _scores(self, query: str) -> Vectors:
        scores = np.zeros(self._length, np.float32)
        if self._engine is not None:  # the package would divide by zero terms
            with np.errstate(invalid="ignore"):  # with b = 1, a row without terms gives 0 / 0
                found = np.nan_to_num(np.asarray(self._engine.get_scores(self.analyzer.terms(query)), np.float32))
            scores[slice(None) if self.population is None else self.population] = found
        return scores
