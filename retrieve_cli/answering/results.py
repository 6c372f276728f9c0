"""Rankings to results: what the store has of each hit, how sure it is, and what a look at its source says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

from retrieve_cli.answering.trust import Trust
from retrieve_cli.assemble import sources
from retrieve_cli.contracts import Hit, Query, Ranking, Result
from retrieve_cli.generation import Generation

if TYPE_CHECKING:
    from retrieve_cli.assemble.pipelines import Indexes
    from retrieve_cli.sources.freshness import Watched


class ResultReader:
    """Reads hits out of a generation."""

    def __init__(self, generation: Generation, indexes: Indexes, *, fetched: Path) -> None:
        """`fetched` is where copies of distant sources are kept."""
        self._generation = generation
        self._indexes = indexes
        self._fetched = fetched

    def read(
        self, rankings: Sequence[Ranking], *, legs: Sequence[str], trust: Trust | None
    ) -> list[tuple[Result, ...]]:
        """The results of each ranking; where the scores are calibrated, those that are sure enough.

        Raises:
            IndexCorrupt: a row that was found cannot be read.
        """
        watched = self._watched()
        return [self._results(ranking, legs, watched, trust) for ranking in rankings]

    def _results(
        self, ranking: Ranking, legs: Sequence[str], watched: Sequence[tuple[int, Watched]], trust: Trust | None
    ) -> tuple[Result, ...]:
        ranking, sure = trust.sure(ranking) if trust else (ranking, [None] * len(ranking.hits))
        hits = ranking.hits
        if tuple(legs) == ("bm25",) and self._indexes.bm25.unit == "record":
            hits = tuple(self._with_best_chunk(hit, ranking.query) for hit in hits)
        records, chunks = self._generation.records, self._generation.chunks
        found = (
            Result(hit, records[hit.record], chunks[hit.row], confidence=confidence)
            for hit, confidence in zip(hits, sure, strict=True)
        )
        return tuple(self._looked_at(result, watched) for result in found)

    def _with_best_chunk(self, hit: Hit, query: Query) -> Hit:
        """BM25 over records knows no chunks: the one with most different words of the query stands for the record."""
        first, end = (int(row) for row in self._generation.starts[hit.record : hit.record + 2])
        if end - first == 1:
            return hit
        analyzer = self._indexes.analyzer
        terms = set(analyzer.terms(query.text))
        texts = (str(self._generation.chunks[row]["text"]) for row in range(first, end))
        shared = [len(terms.intersection(analyzer.terms(text))) for text in texts]
        row = first + shared.index(max(shared))
        return replace(hit, row=row, id=self._generation.chunk_id(row))

    def _looked_at(self, result: Result, watched: Sequence[tuple[int, Watched]]) -> Result:
        """The result with what a look at its source says."""
        row = result.hit.record
        for end, source in watched:
            if row < end:
                origin = self._generation.origins[row].tobytes()
                return replace(result, freshness=source.freshness(result.record, origin))
        return result

    def _watched(self) -> list[tuple[int, Watched]]:
        """The sources, each with the row behind its last record."""
        watched = sources.watched_of(self._generation.manifest, fetched=self._fetched)
        ends = accumulate(records for records, _ in watched)
        return [(end, source) for end, (_, source) in zip(ends, watched, strict=True)]


def staleness(results: Sequence[Sequence[Result]]) -> str | None:
    """A sentence on the hits whose sources have changed; None where none has."""
    states = [result.freshness for found in results for result in found]
    if not (changed := len(states) - states.count("fresh")):
        return None
    gone = states.count("deleted")
    what = f"{changed} of {len(states)} hits" + (f" ({gone} of them deleted)" if gone else "")
    return f"the sources of {what} have changed since the build: retrieve sync"
