"""Parity certificate: answers through engines, compared with those of the local index of the same generation.

    judged queries -> lists of each retriever, in both places -> overlap, short lists, filters, latency
                   -> rankings of each retriever and of the whole pipeline -> differences of nDCG@10, paired by query

The local index is the reference. Where scores of several retrievers are fused, the reference normalises them by the
stored statistics that indexes in engines use; how far local answers with a pass over all rows are from these is a
line of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from retrieve_cli.assemble import registry
from retrieve_cli.assemble.indexes import local_indexes
from retrieve_cli.errors import Unavailable, UsageError
from retrieve_cli.evaluation.differences import Difference, differences
from retrieve_cli.evaluation.measures import Scorer, parse
from retrieve_cli.experiments.evaluate import check_ids, queries_of
from retrieve_cli.experiments.parity_lists import CUTOFF, Compared, Pair, Selection, Timed, compare, selections
from retrieve_cli.experiments.ranking import rank_all
from retrieve_cli.experiments.watched_engines import ExactIndex, WatchedIndexes, with_same_spread
from retrieve_cli.frozen import Frozen, replace
from retrieve_cli.progress.tasks import Task, task
from retrieve_cli.search.searcher import Searcher
from retrieve_cli.storage import engine_record

if TYPE_CHECKING:
    from retrieve_cli.contracts import Index, Json, Query
    from retrieve_cli.evaluation.judgments import Topic
    from retrieve_cli.search.opened import Opened
    from retrieve_cli.search.options import SearchOptions

MEASURE = f"nDCG@{CUTOFF}"
_REFERENCE, _ENGINE = "local", "engine"
_GRAPH = "hnsw"


class Limits(NamedTuple):
    """Thresholds of a certificate."""

    min_overlap: float = 0.99
    """Least mean overlap of the first ten results of each retriever, without a filter and with each."""
    max_loss: float | None = None
    """Largest loss of mean nDCG@10, of each retriever and of the whole pipeline; None: any."""


class Measured(Frozen):
    """One retriever in an engine."""

    name: str
    engine: str
    rows: int
    depth: int
    plain: Compared
    """Without a filter."""
    filtered: Sequence[tuple[Selection, Compared]]
    ndcg: float
    """Mean nDCG@10 of the local index."""
    difference: Difference
    """That of the engine, less that."""
    timed: Timed
    local_bytes: int

    def faults(self, limits: Limits) -> Iterator[str]:
        """Yield the reasons for which the retriever fails."""
        name = f"{self.name} in {self.engine}"
        yield from _list_faults(name, self.plain, limits)
        for selection, counts in self.filtered:
            yield from _list_faults(f"{name}, filter of {selection.share:.2%}", counts, limits)
        yield from _loss(name, self.difference, limits)

    def to_json(self) -> dict[str, Json]:
        return {
            "retriever": self.name,
            "engine": self.engine,
            "rows": self.rows,
            "depth": self.depth,
            **self.plain.to_json(),
            MEASURE: {"local": self.ndcg, "engine": self.ndcg + self.difference.interval.mean},
            "difference": self.difference.to_json(),
            "filters": [
                {
                    "share": selection.share,
                    "records": int(np.count_nonzero(selection.mask)),
                    "condition": selection.written,
                    **counts.to_json(),
                }
                for selection, counts in self.filtered
            ],
            "latency_ms": {"local": _percentiles(self.timed.local_ms), "engine": _percentiles(self.timed.remote_ms)},
            "statistics": {
                "mean": _mean(self.timed.means),
                "deviation": _mean(self.timed.deviations),
                "deviation_max": max(self.timed.deviations, default=0.0),
            },
            "local_bytes": self.local_bytes,
        }


class Certificate(Frozen):
    """Measurements of a generation in engines, and the limits that they are held to."""

    generation: str
    queries: int
    retrievers: Sequence[Measured]
    pipeline: str
    ndcg: float
    """Mean nDCG@10 of the reference."""
    difference: Difference
    """That of the pipeline over engines, less that of the reference."""
    full_pass: Difference
    """That of the pipeline over local indexes as they are, less that of the reference."""
    facts: Mapping[str, Mapping[str, str]]
    """Facts about each engine."""
    engine_bytes: Mapping[str, int | None]
    limits: Limits
    notes: Sequence[str]

    @property
    def faults(self) -> list[str]:
        """Reasons for which it fails; none if it passes."""
        found = [fault for measured in self.retrievers for fault in measured.faults(self.limits)]
        return [*found, *_loss("the whole pipeline", self.difference, self.limits)]

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
                MEASURE: {"local": self.ndcg, "engine": self.ndcg + self.difference.interval.mean},
                "difference": self.difference.to_json(),
                "difference_of_full_pass": self.full_pass.to_json(),
            },
            "limits": self.limits._asdict(),
            "faults": self.faults,
            "notes": list(self.notes),
        }


def certify(opened: Opened, topics: Sequence[Topic], limits: Limits) -> Certificate:
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
    measured = [comparison.measured(name, *found) for name, found in compared.items()]
    entries = engine_record.read(opened.generation.folder)
    engines = dict.fromkeys(comparison.remote.places.values())
    pipeline, ndcg, difference, full_pass = comparison.pipelines()
    return Certificate(
        generation=opened.generation.id,
        queries=len(queries),
        retrievers=measured,
        pipeline=pipeline,
        ndcg=ndcg,
        difference=difference,
        full_pass=full_pass,
        facts={name: comparison.remote.facts(name) for name in engines},
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
        self._local = {name: self._exact(name, index) for name, index in local_indexes(generation, settings).items()}

    def _exact(self, name: str, index: Index[Any]) -> Index[Any]:
        """Return an index whose answers are exact, over one that may have a graph."""
        card = self._opened.generation.manifest.recipe.retrievers[name]
        return ExactIndex(index) if card.get("kind") == _GRAPH else index

    def lists(
        self, name: str, filters: Sequence[Selection], progress: Task
    ) -> tuple[Compared, list[tuple[Selection, Compared]], Timed, int]:
        """Return the comparison of lists without a filter and with each, the times, and the retrieval depth."""
        pipeline = Searcher(self._opened, self._alone(name)).pipeline()
        retrieval: Any = next(each for each in pipeline.retrieves.retrievals if each.name == name)
        forms = retrieval.prepare([query.text for query in self._queries])
        pairs = [
            Pair(name, self._local[name], watched.index(name), retrieval.groups, retrieval.depth, _taker(watched, name))
            for watched in (self.remote, self._by_conditions)
        ]
        timed = Timed([], [], [], [])
        plain = compare(pairs[0], forms, None, progress, timed=timed)
        filtered = [(each, compare(pairs[each.conditions is not None], forms, each, progress)) for each in filters]
        return plain, filtered, timed, retrieval.depth

    def measured(
        self, name: str, plain: Compared, filtered: list[tuple[Selection, Compared]], timed: Timed, depth: int
    ) -> Measured:
        """Return all about one retriever, with the difference of its rankings."""
        files = self._opened.generation.manifest.files
        retriever = registry.retriever(name)
        own = {retriever.file, *retriever.replaced} & files.keys()
        local = self._values(self._over({name: self._local[name]}), self._alone(name))
        remote = self._values(self._opened, self._alone(name))
        return Measured(
            name=name,
            engine=self.remote.places[name],
            rows=len(self._local[name]),
            depth=depth,
            plain=plain,
            filtered=filtered,
            ndcg=_mean(list(local.values())),
            difference=_difference(local, remote),
            timed=timed,
            local_bytes=sum(files[file].bytes for file in own),
        )

    def pipelines(self) -> tuple[str, float, Difference, Difference]:
        """Return the whole pipeline, nDCG@10 of the reference, and the differences of engines and of a full pass."""
        names = self.remote.places
        same = {name: with_same_spread(self._local[name], self._opened.indexes[name]) for name in names}
        reference = self._values(self._over(same), self._options)
        remote = self._values(self._opened, self._options)
        local = self._values(self._over({name: self._local[name] for name in names}), self._options)
        shown = str(Searcher(self._opened, self._options).pipeline())
        return shown, _mean(list(reference.values())), _difference(reference, remote), _difference(reference, local)

    def _alone(self, name: str) -> SearchOptions:
        """Return the options under which one retriever answers alone."""
        return replace(self._options, retrievers=(name,), rerank=False, expand=False)

    def _over(self, indexes: Mapping[str, Index[Any]]) -> Opened:
        return self._opened.under(self._opened.settings, indexes)

    def _values(self, opened: Opened, options: SearchOptions) -> dict[str, float]:
        """Return the measure by query id. Raises: Unavailable: a step of the pipeline did not run."""
        ranked = rank_all(opened, self._queries, options)
        if ranked.skipped:
            step, reason = next(iter(ranked.skipped.items()))
            hint = "fix that, or switch it off (rerank.backend: none)"
            raise Unavailable(f"{step} did not run ({reason}), and a certificate needs all stages", hint=hint)
        name = opened.generation.record_id
        run = {each.query.id: {name(hit.record): hit.score for hit in each.hits} for each in ranked.rankings}
        return self._scorer(run)[MEASURE]


def _taker(watched: WatchedIndexes, name: str) -> Any:
    return lambda: watched.lists(name)


def _difference(before: Mapping[str, float], after: Mapping[str, float]) -> Difference:
    (found,) = differences({MEASURE: before}, {_ENGINE: {MEASURE: after}})
    return found


def _list_faults(name: str, counts: Compared, limits: Limits) -> Iterator[str]:
    if counts.mean_overlap < limits.min_overlap:
        yield f"{name}: overlap@{CUTOFF} is {counts.mean_overlap:.6g}, and must be >= {limits.min_overlap:g}"
    if missed := counts.short - counts.detected:
        yield f"{name}: {missed} of {counts.short} lists that the engine left short were not detected"
    if counts.incomplete:
        yield f"{name}: {counts.incomplete} of {counts.searches} final lists have fewer rows than there are"


def _loss(name: str, difference: Difference, limits: Limits) -> Iterator[str]:
    lost = -difference.interval.mean
    if limits.max_loss is not None and lost > limits.max_loss:
        yield f"{name}: {MEASURE} is {lost:.6g} lower than with the local index, and may lose {limits.max_loss:g}"


def _percentiles(times: Sequence[float]) -> dict[str, float]:
    return {f"p{share}": float(np.percentile(times, share)) for share in (50, 95)} if times else {}


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else 0.0
