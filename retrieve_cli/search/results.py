"""Rankings to results: the record and chunk of each hit, the freshness of its source, its neighbours and dependencies,
related records, and how much of all that a budget has room for.

Confidence of an answer: the calibration that holds for its scores, and the hits that are dropped.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from retrieve_cli.assemble.graph import graph_of
from retrieve_cli.assemble.registry import retriever
from retrieve_cli.contracts import Analyzer, Filed, Hit, Json, Query, Ranking
from retrieve_cli.errors import UsageError
from retrieve_cli.frozen import Frozen, replace
from retrieve_cli.search.answer import Bundle, Dependency, Result, Spent
from retrieve_cli.search.opened import Opened
from retrieve_cli.search.options import SearchOptions
from retrieve_cli.search.ranking import Ranked
from retrieve_cli.storage.generation import Generation

if TYPE_CHECKING:
    from retrieve_cli.assemble.tokenizers import Counter
    from retrieve_cli.retrieval.calibration import Calibration
    from retrieve_cli.retrieval.graph.graph import Graph


class Shown(Frozen):
    """Results of one ranking, ready to be shown."""

    found: tuple[Result, ...]
    """Results of enough confidence."""
    results: tuple[Result, ...]
    """The same in their context, as far as the budget goes."""
    spent: Spent | None
    """Set if there is a budget."""
    related: tuple[Result, ...]
    """Linked records that are listed apart, as far as the budget goes."""
    confidence: Mapping[str, Json] | None
    """Origin of the confidence of the results, if they have one."""


class ResultReader:
    """Reads hits out of a generation."""

    def __init__(self, opened: Opened, options: SearchOptions) -> None:
        self._opened = opened
        self._generation = opened.generation
        self._indexes = opened.indexes
        self._options = options
        self._counter = cache(partial(counter_of, opened))
        self._windows = {"window": options.context, "table_window": options.table_context}

    def read(self, ranked: Ranked, confidence: Confidence | None) -> list[Shown]:
        """Return the shown part of each ranking; if the scores are calibrated, only results of enough confidence.

        Raises:
            IndexCorrupt: a row that was found cannot be read.
            Unavailable: the tokenizer of the budget is not on this machine.
        """
        self._generation.prefetch([hit.row for ranking in ranked.rankings for hit in ranking.hits])
        return [self._shown(ranking, ranked, confidence) for ranking in ranked.rankings]

    def _shown(self, ranking: Ranking, ranked: Ranked, confidence: Confidence | None) -> Shown:
        passed, confidences = confidence.filter(ranking) if confidence else (ranking, [None] * len(ranking.hits))
        page, before = replace(passed, hits=passed.hits[self._options.offset :]), self._options.offset
        found = self._results(page, ranked.retrievers, confidences[before:])
        if self._options.dependencies and (graph := graph_of(self._generation)) is not None:
            bundles = (bundle(graph, self._generation, each.hit.record, ranking.query) for each in found)
            found = tuple(replace(each, bundle=own) for each, own in zip(found, bundles, strict=True))
        results = found
        if any(self._windows.values()):
            from retrieve_cli.search.context import in_context

            results = in_context(found, self._generation.chunks, self._generation.starts, **self._windows)
        results, spent = self._within_budget(results, found)
        beside, spent = self._beside(ranked.related(passed) if results else (), results, spent)
        left_out = len(ranking.hits) - len(passed.hits)
        return Shown(found, results, spent, beside, confidence.source(left_out) if confidence else None)

    def _beside(
        self, hits: Sequence[Hit], results: Sequence[Result], spent: Spent | None
    ) -> tuple[tuple[Result, ...], Spent | None]:
        """The related records that no result lists among its dependencies, as far as the rest of the budget goes."""
        listed = {need.id for result in results if result.bundle for need in result.bundle.needs}
        beside = tuple(result for result in map(self._read, hits) if result.record["id"] not in listed)
        if spent is None or not beside:
            return beside, spent
        from retrieve_cli.search.budget import fitting

        return fitting(beside, spent)

    def _results(
        self, ranking: Ranking, retrievers: Sequence[str], confidences: Sequence[float | None]
    ) -> tuple[Result, ...]:
        hits = ranking.hits
        if len(retrievers) == 1 and (analyzer := self._of_records(retrievers[0])) is not None:
            hits = tuple(self._with_best_chunk(hit, ranking.query, analyzer) for hit in hits)
        return tuple(self._read(hit, own) for hit, own in zip(hits, confidences, strict=True))

    def _read(self, hit: Hit, confidence: float | None = None) -> Result:
        """A hit with its record, its chunk, and the freshness of its source."""
        record, chunk = self._generation.records[hit.record], self._generation.chunks[hit.row]
        result = Result(hit, record, chunk, confidence=confidence)
        if (source := self._opened.source_of(hit.record)) is None:
            return result
        freshness = source.freshness(record, self._generation.origin(hit.record))
        file = source.file_of(record) if isinstance(source, Filed) else ""
        return replace(result, freshness=freshness, file=file)

    def _of_records(self, name: str) -> Analyzer | None:
        """Return the analyzer of a retriever that ranks records only; None if it ranks chunks, or compares no terms.

        A retriever without an index uses the analyzer of the others.
        """
        if name not in self._indexes:
            return self._indexes.analyzer if self._options.unit == "record" else None
        index = self._indexes[name]
        return retriever(name).analyzer(index) if index.unit == "record" else None

    def _with_best_chunk(self, hit: Hit, query: Query, analyzer: Analyzer) -> Hit:
        """The hit with the chunk that has the most words of the query: a retriever of records knows no chunks."""
        rows = [row for row in self._chunks_of(hit) if query.chunks is None or query.chunks[row]]
        if len(rows) == 1:
            return hit
        terms = set(analyzer.terms(query.text))
        texts = (str(self._generation.chunks[row]["text"]) for row in rows)
        shared = [len(terms.intersection(analyzer.terms(text))) for text in texts]
        row = rows[shared.index(max(shared))]
        return replace(hit, row=row, id=self._generation.chunk_id(row))

    def _chunks_of(self, hit: Hit) -> range:
        return range(*self._generation.starts[hit.record : hit.record + 2].tolist())

    def _within_budget(
        self, results: tuple[Result, ...], found: tuple[Result, ...]
    ) -> tuple[tuple[Result, ...], Spent | None]:
        """Return the results that fit into the budget, and the spent budget; `found` are the same without context."""
        budget = self._options
        if budget.max_chunks is None and budget.max_tokens is None:
            return results, None
        from retrieve_cli.search.budget import spend

        narrower = None
        if any(self._windows.values()):
            from retrieve_cli.search.context import Narrower

            narrower = Narrower(self._generation.chunks, self._generation.starts, **self._windows)
        limits = {"max_chunks": budget.max_chunks, "max_tokens": budget.max_tokens}
        kept, spent = spend(results, found, **limits, counter=self._counter, narrower=narrower)
        skipped = tuple(each._replace(rank=each.rank + budget.offset) for each in spent.skipped)
        return kept, replace(spent, skipped=skipped)


def counter_of(opened: Opened) -> Counter:
    """Return the counter of the tokens of a budget. Raises: Unavailable: the tokenizer is not on this machine."""
    from retrieve_cli.assemble.tokenizers import counter

    opened.settings.expect_trusted("budget")
    named = str(opened.settings.budget.tokenizer or "encoder")
    if named == "encoder" and opened.generation.manifest.recipe.encoder is None:
        named = "words"
    return counter(named, lambda: opened.models.encoder)


def bundle(graph: Graph, generation: Generation, record: int, query: Query) -> Bundle:
    """Return the dependencies of a result of a query, in an order that can be run.

    Records that are not visible to the query are not among them. Records that its filters exclude are, and are marked.
    """
    from retrieve_cli.retrieval.graph.graph import prerequisites

    found = prerequisites(graph.within(query.visible), record)
    firsts = generation.starts[list(found.order)].tolist()
    needs = (
        Dependency(
            id=generation.record_id(row),
            name=str(generation.records[row]["name"]),
            text=str(generation.chunks[first]["text"]),
            outside_filter=query.records is not None and not query.records[row],
        )
        for row, first in zip(found.order, firsts, strict=True)
    )
    return Bundle(tuple(needs), tuple(tuple(map(generation.record_id, circle)) for circle in found.cycles))


class Confidence(Frozen):
    """A calibration, and the least confidence that is asked for."""

    calibration: Calibration
    least: float | None

    @classmethod
    def of(
        cls, path: Path, card: Mapping[str, Json], least: float | None, say: Callable[[str], None]
    ) -> Confidence | None:
        """Return the calibration in a file, made on scores of this card; None without one.

        A file that cannot be read is an error only if a confidence is requested, and a notice otherwise.

        Raises:
            UsageError: a confidence is requested without a calibration, or the file is damaged.
        """
        if least is None and not os.path.lexists(path):
            return None
        from retrieve_cli.retrieval.calibration import AGAIN, read  # most indexes are not calibrated

        try:
            known = read(path)
        except UsageError as error:
            if least is not None:
                raise
            say(f"no confidence: {error.message} ({error.hint})")
            known = []
        found = next((each for each in known if each.card == card), None)
        if found is not None:
            if least is not None:
                found.at(least)
            return cls(found, least)
        if least is not None and known:
            raise UsageError("the calibration was made for other scores: the index or the search changed", hint=AGAIN)
        if least is not None:
            hint = "make one from judged queries: retrieve eval --gold FILE --calibrate"
            raise UsageError("there is no calibration yet, so results have no confidence", hint=hint)
        return None

    def filter(self, ranking: Ranking) -> tuple[Ranking, list[float]]:
        """Return the hits that are confident enough, and the confidence of each."""
        found = self.calibration.confidence([hit.score for hit in ranking.hits]).tolist()
        kept = [pair for pair in zip(ranking.hits, found, strict=True) if pair[1] >= (self.least or 0.0)]
        hits = tuple(hit for hit, _ in kept)
        return Ranking(ranking.query, hits, ranking.trace), [confidence for _, confidence in kept]

    def source(self, left_out: int) -> dict[str, Json]:
        """Return the origin of the confidence, its quality, and the error rates of a least confidence."""
        calibration = self.calibration
        source: dict[str, Json] = {
            "method": calibration.method,
            "queries": calibration.queries,
            "generation": calibration.generation,
            "calibration_error": calibration.calibration_error,
            "base_rate": calibration.relevant / calibration.pairs if calibration.pairs else 0.0,
        }
        if self.least is not None:
            accepted, rejected = calibration.at(self.least)
            source |= {"min_confidence": self.least, "left_out": left_out}
            source |= {"false_accept_rate": accepted, "false_reject_rate": rejected}
        return source
