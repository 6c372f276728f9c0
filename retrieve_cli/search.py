"""The way out: text -> Query -> legs -> fusion -> Ranking -> Answer, over the live generation. Reads top to bottom."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Literal

from retrieve_cli import assemble
from retrieve_cli.config import Settings
from retrieve_cli.contracts import Answer, Hit, Query, Ranking, Result, Unit
from retrieve_cli.errors import Unavailable, UsageError
from retrieve_cli.generation import Generation
from retrieve_cli.store import Store

if TYPE_CHECKING:
    from retrieve_cli.contracts import Encoder, Vectors
    from retrieve_cli.indexes.analyzer import Analyzer

Mode = Literal["hybrid", "dense", "bm25"]
LEGS: Mapping[Mode, tuple[str, ...]] = {"hybrid": ("bm25", "dense"), "dense": ("dense",), "bm25": ("bm25",)}


class Searcher:
    """The live generation, opened for as many queries as one likes."""

    def __init__(self, store: Store, settings: Settings) -> None:
        """Raises: IndexMissing, IndexCorrupt where there is nothing sound to search."""
        begun = time.perf_counter()
        folder, manifest = store.open()
        self.generation = Generation(folder, manifest)
        self._settings = settings
        self._indexes = assemble.open_indexes(self.generation, settings)
        self._opened = time.perf_counter() - begun
        self.notices: list[str] = []
        """What the user should know about the last answers; the caller prints them."""

    def answer(self, queries: Sequence[Query], *, k: int, mode: Mode, unit: Unit = "record") -> list[Answer]:
        """An answer to each query, in order, all legs run over the whole batch.

        Raises:
            UsageError: a query is empty, or `k` is below 1.
            Unavailable: `mode` is dense and the model is not on this machine.
            IndexCorrupt: a row that was found cannot be read.
        """
        for query in queries:
            if not query.text.strip():
                raise UsageError(
                    f"query {query.id!r} is empty", hint='for example: retrieve query "segment lungs in CT"'
                )
        if k < 1:
            raise UsageError(f"-k is {k}; it takes a whole number from 1", hint="retrieve query -k 10 TEXT")
        begun = time.perf_counter()
        skipped: dict[str, str] = {}
        vectors = self._encode(queries, mode, skipped)
        encoded = time.perf_counter()
        legs = [leg for leg in LEGS[mode] if leg not in skipped]
        stage, method = assemble.pipeline(
            self.generation, self._indexes, self._settings, legs=legs, unit=unit, k=k, vectors=vectors
        )
        rankings = stage([Ranking(query) for query in queries])
        results = [tuple(map(self._result, ranking.hits[:k])) for ranking in rankings]
        done = time.perf_counter()
        timings = self._timings(encoded - begun, done - encoded, len(queries))
        return [
            Answer(
                query=ranking.query,
                results=found,
                unit=unit,
                strategies_used=tuple(legs),
                strategies_skipped={**skipped, **self._silent(ranking.query, legs)},
                fusion_method=method,
                pipeline=str(stage),
                generation=self.generation.manifest.id,
                timings_ms=timings,
                matches=partial(_matches, self._indexes.analyzer, ranking.query.text),
            )
            for ranking, found in zip(rankings, results, strict=True)
        ]

    def _encode(self, queries: Sequence[Query], mode: Mode, skipped: dict[str, str]) -> Sequence[Vectors]:
        """The queries' vectors; in hybrid mode a missing model leaves the dense leg out, and says so."""
        if "dense" not in LEGS[mode]:
            return []
        try:
            vectors = list(self._encoder.encode_queries([query.text for query in queries]))
        except Unavailable as error:
            if mode == "dense":
                raise
            skipped["dense"] = f"{error.message}: {error.hint}"
            self.notices.append(f"the dense leg was skipped: {skipped['dense']}")
            return []
        if self._encoder.truncated:
            limit = self._encoder.card.max_tokens
            self.notices.append(f"the dense leg reads the first {limit} tokens of a query; this one is longer")
        return vectors

    def _silent(self, query: Query, legs: Sequence[str]) -> dict[str, str]:
        """Legs that ran and could say nothing about this query."""
        if "bm25" in legs and not self._indexes.analyzer.terms(query.text):
            return {"bm25": "the query has no words besides stop words"}
        return {}

    def _result(self, hit: Hit) -> Result:
        return Result(hit, self.generation.records[hit.record], self.generation.chunks[hit.row])

    def _timings(self, encode: float, search: float, queries: int) -> dict[str, float]:
        each = 1000.0 / max(queries, 1)
        timings = {"open": self._opened * 1000.0, "encode": encode * each, "search": search * each}
        return {name: round(value, 3) for name, value in {**timings, "total": sum(timings.values())}.items()}

    @cached_property
    def _encoder(self) -> Encoder:
        return assemble.encoder_to_query(self._settings, self.generation.manifest.recipe)


def _matches(analyzer: Analyzer, query: str, text: str) -> list[tuple[int, int]]:
    """Spans of the words of `text` that share a term with the query."""
    wanted = set(analyzer.terms(query))
    return [(start, end) for start, end, terms in analyzer.spans(text) if wanted.intersection(terms)]
