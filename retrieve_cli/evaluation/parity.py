"""Parity certificate: answers through engines, compared with answers of the local index of the same generation.

    judged queries -> lists of each retriever, in both places -> overlap, short lists, filters, latency
                   -> rankings of each retriever and of the whole pipeline -> differences of nDCG@10, paired by query

The local index is the reference. Where scores of several retrievers are fused, the reference normalises them by the
stored statistics that indexes in engines use; a separate line shows how far local answers with a pass over all rows
are from these.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from retrieve_cli.assemble import registry
from retrieve_cli.assemble.engines import engine
from retrieve_cli.assemble.indexes import local_indexes
from retrieve_cli.contracts.progress import Task, task
from retrieve_cli.errors import UsageError
from retrieve_cli.evaluation.evaluate import check_complete, check_ids, queries_of, rank_all
from retrieve_cli.evaluation.measures import Scorer, parse
from retrieve_cli.evaluation.parity_lists import (
    CUTOFF,
    Compared,
    ExactIndex,
    Pair,
    ParityFilter,
    WatchedIndexes,
    mean,
    selections,
    with_same_spread,
)
from retrieve_cli.evaluation.statistics import Difference, differences
from retrieve_cli.frozen import Frozen, replace
from retrieve_cli.search.searcher import Searcher
from retrieve_cli.storage import engine_record

if TYPE_CHECKING:
    from retrieve_cli.contracts import Index, Json, Query
    from retrieve_cli.evaluation.judgments import Topic
    from retrieve_cli.search.opened import Opened
    from retrieve_cli.search.options import SearchOptions

MEASURE = f"nDCG@{CUTOFF}"
_GRAPH = "hnsw"


class ParityLimits(NamedTuple):
    """Thresholds of a certificate."""

    min_overlap: float = 0.99
    """Least mean overlap of the first ten results of each retriever, without a filter and with each."""
    max_loss: float | None = None
    """Largest loss of mean nDCG@10, of each retriever and of the whole pipeline; None: any."""


class Quality(NamedTuple):
    """nDCG@10 with the local index and with an engine."""

    ndcg: float
    """Mean of the local index, or of another reference."""
    difference: Difference
    """Quality of the engine minus the quality of the reference."""

    @classmethod
    def of(cls, reference: Mapping[str, float], engine: Mapping[str, float]) -> Quality:
        """Return the comparison of two measures by query id."""
        (found,) = differences({MEASURE: reference}, {"engine": {MEASURE: engine}})
        return cls(mean(reference.values()), found)

    def faults(self, name: str, limits: ParityLimits) -> Iterator[str]:
        """Yield a reason if the loss is above the limit."""
        lost = -self.difference.interval.mean
        if limits.max_loss is not None and lost > limits.max_loss:
            yield f"{name}: {MEASURE} is {lost:.6g} lower than with the local index, and may lose {limits.max_loss:g}"

    def to_json(self) -> dict[str, Json]:
        return {
            MEASURE: {"local": self.ndcg, "engine": self.ndcg + self.difference.interval.mean},
            "difference": self.difference.to_json(),
        }


class RetrieverParity(Frozen):
    """One retriever in an engine."""

    name: str
    engine: str
    rows: int
    depth: int
    plain: Compared
    """Without a filter."""
    filtered: Sequence[tuple[ParityFilter, Compared]]
    quality: Quality
    local_bytes: int

    def faults(self, limits: ParityLimits) -> Iterator[str]:
        """Yield the reasons for which the retriever fails."""
        name = f"{self.name} in {self.engine}"
        yield from _list_faults(name, self.plain, limits)
        for selection, counts in self.filtered:
            yield from _list_faults(f"{name}, filter of {selection.share:.2%}", counts, limits)
        yield from self.quality.faults(name, limits)

    def to_json(self) -> dict[str, Json]:
        return {
            "retriever": self.name,
            "engine": self.engine,
            "rows": self.rows,
            "depth": self.depth,
            **self.plain.to_json(),
            **self.quality.to_json(),
            "filters": [
                {
                    "share": selection.share,
                    "records": int(np.count_nonzero(selection.mask)),
                    "condition": selection.written,
                    **counts.to_json(),
                }
                for selection, counts in self.filtered
            ],
            "latency_ms": self.plain.latency_ms,
            "statistics": self.plain.statistics,
            "local_bytes": self.local_bytes,
        }


class Certificate(Frozen):
    """Measurements of a generation in engines, and the limits that they are held to."""

    generation: str
    queries: int
    retrievers: Sequence[RetrieverParity]
    pipeline: str
    quality: Quality
    """Quality of the pipeline."""
    full_pass: Quality
    """Quality of the pipeline over unchanged local indexes in place of engines."""
    facts: Mapping[str, Mapping[str, str]]
    """Facts about each engine."""
    engine_bytes: Mapping[str, int | None]
    limits: ParityLimits
    notes: Sequence[str]

    @property
    def faults(self) -> list[str]:
        """Reasons for which it fails; none if it passes."""
        found = [fault for measured in self.retrievers for fault in measured.faults(self.limits)]
        return [*found, *self.quality.faults("the whole pipeline", self.limits)]

    def to_json(self) -> dict[str, Json]:
        return {
            "schema_version": 1,
            "generation": self.generation,
            "queries": self.queries,
            "engines": {
                name: {"facts": dict(facts), "bytes": self.engine_bytes[name]} for name, facts in self.facts.items()
            },
            "retrievers": [measured.to_json() for measured in self.retrievers],
            "pipeline": {
                "pipeline": self.pipeline,
                **self.quality.to_json(),
                "difference_of_full_pass": self.full_pass.difference.to_json(),
            },
            "limits": self.limits._asdict(),
            "faults": self.faults,
            "notes": list(self.notes),
        }


def certify(opened: Opened, topics: Sequence[Topic], limits: ParityLimits) -> Certificate:
    """Measure every retriever whose index lives in an engine, and the whole pipeline.

    Raises:
        IndexCorrupt: an engine does not hold this generation.
        Unavailable: an engine cannot be reached, or a step of the pipeline cannot run.
        UsageError: no judged id is in the index, or no index of it lives in an engine.
    """
    notes = check_ids(opened, topics)
    queries = queries_of(opened, topics, notes)
    comparison = _Comparison(opened, topics, queries)
    if not comparison.remote.places:
        raise UsageError("no index of this generation lives in an engine", hint="send it: retrieve engines push")
    filters = selections(opened.generation)
    total = len(comparison.remote.places) * len(queries) * (1 + len(filters))
    with task("comparing", "searches", total) as progress:
        compared = {name: comparison.lists(name, filters, progress) for name in comparison.remote.places}
    measured = [comparison.measured(name, lists) for name, lists in compared.items()]
    entries = engine_record.read(opened.generation.folder)
    engines = dict.fromkeys(comparison.remote.places.values())
    pipeline, quality, full_pass = comparison.pipelines()
    return Certificate(
        generation=opened.generation.id,
        queries=len(queries),
        retrievers=measured,
        pipeline=pipeline,
        quality=quality,
        full_pass=full_pass,
        facts={name: engine(name, opened.settings).describe() for name in engines},
        engine_bytes={name: entries[name].census.bytes for name in engines},
        limits=limits,
        notes=notes,
    )


class _Comparison:
    """Both indexes of every retriever, and the queries."""

    def __init__(self, opened: Opened, topics: Sequence[Topic], queries: Sequence[Query]) -> None:
        self._opened = opened
        self._queries = queries
        self._options = replace(opened.options(k=CUTOFF), deadline_ms=None)
        self._scorer = Scorer(parse([MEASURE]), {topic.id: topic.grades for topic in topics})
        generation, settings = opened.generation, opened.settings
        self.remote = WatchedIndexes(generation, settings)
        self._by_conditions = WatchedIndexes(generation, settings, by_conditions=True)
        recipes = generation.manifest.recipe.retrievers
        # Local answers are exact: an index that may have a graph is asked without it.
        self._local = {
            name: cast("Index[Any]", ExactIndex(index)) if recipes[name].get("kind") == _GRAPH else index
            for name, index in local_indexes(generation, settings).items()
        }

    def lists(self, name: str, filters: Sequence[ParityFilter], progress: Task) -> dict[str, Any]:
        """Return the comparison of lists without a filter and with each, and the depth, as in `RetrieverParity`."""
        pipeline = Searcher(self._opened, self._alone(name)).pipeline()
        retrieval: Any = next(each for each in pipeline.retrieves.retrievals if each.name == name)
        forms = retrieval.prepare([query.text for query in self._queries])
        pairs = [
            Pair(
                self._local[name], watched.index(name), retrieval.groups, retrieval.depth, partial(watched.lists, name)
            )
            for watched in (self.remote, self._by_conditions)
        ]
        plain = pairs[0].compare(forms, None, progress)
        filtered = [(each, pairs[each.conditions is not None].compare(forms, each, progress)) for each in filters]
        return {"plain": plain, "filtered": filtered, "depth": retrieval.depth}

    def measured(self, name: str, lists: Mapping[str, Any]) -> RetrieverParity:
        """Return all about one retriever, with the difference of its rankings."""
        files = self._opened.generation.manifest.files
        retriever = registry.retriever(name)
        own = {retriever.file, *retriever.replaced} & files.keys()
        local = self._values(self._over({name: self._local[name]}), self._alone(name))
        remote = self._values(self._opened, self._alone(name))
        return RetrieverParity(
            name=name,
            engine=self.remote.places[name],
            rows=len(self._local[name]),
            **lists,
            quality=Quality.of(local, remote),
            local_bytes=sum(files[file].bytes for file in own),
        )

    def pipelines(self) -> tuple[str, Quality, Quality]:
        """Return the whole pipeline, and its quality over engines and with a full pass."""
        names = self.remote.places
        same = {name: with_same_spread(self._local[name], self._opened.indexes[name]) for name in names}
        reference = self._values(self._over(same), self._options)
        remote = self._values(self._opened, self._options)
        local = self._values(self._over({name: self._local[name] for name in names}), self._options)
        shown = str(Searcher(self._opened, self._options).pipeline())
        return shown, Quality.of(reference, remote), Quality.of(reference, local)

    def _alone(self, name: str) -> SearchOptions:
        return replace(self._options, retrievers=(name,), rerank=False, expand=False)

    def _over(self, indexes: Mapping[str, Index[Any]]) -> Opened:
        return self._opened.under(self._opened.settings, indexes)

    def _values(self, opened: Opened, options: SearchOptions) -> dict[str, float]:
        """Return the measure by query id. Raises: Unavailable: a step of the pipeline did not run."""
        ranked = rank_all(opened, self._queries, options)
        check_complete(ranked, "a certificate", "fix that, or switch it off (rerank.backend: none)")
        name = opened.generation.record_id
        run = {each.query.id: {name(hit.record): hit.score for hit in each.hits} for each in ranked.rankings}
        return self._scorer(run)[MEASURE]


def _list_faults(name: str, found: Compared, limits: ParityLimits) -> Iterator[str]:
    agreement, lists = found.agreement, found.lists
    if agreement.overlap < limits.min_overlap:
        yield f"{name}: overlap@{CUTOFF} is {agreement.overlap:.6g}, and must be >= {limits.min_overlap:g}"
    if missed := lists.short - lists.detected:
        yield f"{name}: {missed} of {lists.short} lists that the engine left short were not detected"
    if lists.incomplete:
        yield f"{name}: {lists.incomplete} of {agreement.queries} final lists have fewer rows than there are"
