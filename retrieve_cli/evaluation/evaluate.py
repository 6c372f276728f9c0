"""Evaluation of a searcher on judged queries: measures by query, means with intervals, latency.

All queries are ranked in batches; some are then run again one at a time to measure latency. Every query counts: one
without results has the measure's default. If a configured retriever or reranker cannot run, there is no evaluation.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from retrieve_cli.contracts import Json, Query, Question, Request, Unit
from retrieve_cli.contracts.progress import task
from retrieve_cli.contracts.terms import figures
from retrieve_cli.errors import Unavailable, UsageError, quoted
from retrieve_cli.evaluation.groups import chosen_groups, group_measures, related_measures
from retrieve_cli.evaluation.judgments import Run, Topic
from retrieve_cli.evaluation.measures import Scorer, Values, depth
from retrieve_cli.evaluation.passages import RelevantPassages
from retrieve_cli.evaluation.statistics import Interval, interval
from retrieve_cli.frozen import Frozen, replace
from retrieve_cli.retrieval.stages.pipeline import Edit
from retrieve_cli.search.opened import Opened
from retrieve_cli.search.options import SearchOptions
from retrieve_cli.search.ranking import Ranked
from retrieve_cli.search.searcher import Searcher
from retrieve_cli.storage.records.view import RecordView

if TYPE_CHECKING:
    from ir_measures import Measure

SCHEMA_VERSION = 1
_TIMED = 50
"""Queries that are timed, one at a time."""
_GROUPED = 100
"""Least number of results in which the first groups are looked up."""
_BATCH, _RERANKED = 64, 16
"""Queries ranked at a time; fewer if a reranker reads texts. A ranking does not depend on the others of its batch."""
_NAMED = 3
"""Queries that a note names."""
LATENCY = tuple(f"{stage}p{share}" for stage in ("", "encode_", "search_", "rerank_") for share in (50, 95))
"""Names of latencies per query and stage, in milliseconds."""


class Evaluation(Frozen):
    """Results of one run on one set of judged queries."""

    per_query: Values
    """Values by measure and query id, one for every judged query."""
    intervals: Mapping[str, Interval]
    """Mean and 95 % interval over queries, by measure."""
    unanswered: Sequence[str]
    """Ids of the queries without results."""
    run: Run
    pipeline: str
    queries: int
    """Judged queries; a measure may apply to some of them only (those with a quote, for example)."""
    generation: str | None = None
    latency_ms: Mapping[str, float] = {}
    """`p50`, `p95` of a single query, and the same of its stages as `encode_p50` and so on."""
    notes: Sequence[str] = ()
    gate_groups: Mapping[str, Sequence[Json]] = {}
    """Groups chosen by group routing, by query id; empty without routing."""

    @property
    def metrics(self) -> dict[str, float]:
        """Means by measure."""
        return {name: found.mean for name, found in self.intervals.items()}

    def to_json(self) -> dict[str, Json]:
        return {
            "schema_version": SCHEMA_VERSION,
            "queries": self.queries,
            "unanswered": len(self.unanswered),
            "metrics": self.metrics,
            "intervals": {name: [found.low, found.high] for name, found in self.intervals.items()},
            "measured": {name: len(values) for name, values in self.per_query.items()},
            "pipeline": self.pipeline,
            "generation": self.generation,
            "latency_ms": dict(self.latency_ms),
        }


class OtherCollection(UsageError):
    """The judgments are about another collection than the index."""


def judge(
    run: Run, topics: Sequence[Topic], measures: Sequence[Measure], *, pipeline: str, notes: Sequence[str] = ()
) -> Evaluation:
    """Evaluate a given run; its queries without judgments are skipped with a note."""
    judged = {topic.id for topic in topics}
    if not judged & run.keys():
        hint = "name the judgments that belong to this run"
        raise UsageError(f"none of the {len(run):,} queries of the run is judged", hint=hint)
    strangers = len(run.keys() - judged)
    notes = list(notes)
    if strangers:
        notes.append(f"skipped {figures.count(strangers, 'query', 'queries')} of the run without judgments")
    placed = [topic for topic in topics if topic.names_place and not topic.grades]
    if placed:
        skipped = figures.count(len(placed), "query that names", "queries that name")
        notes.append(f"skipped {skipped} a file or a heading: without an index they cannot be looked up")
        topics = [topic for topic in topics if topic not in placed]
    return _evaluation(run, topics, measures, pipeline=pipeline, notes=notes)


def evaluate(
    opened: Opened, topics: Sequence[Topic], measures: Sequence[Measure], *, edit: Edit | None = None
) -> Evaluation:
    """Evaluate the answers of an index to all topics; `edit` changes the pipeline that answers.

    Raises:
        UsageError: no judged id is in the index, or no file or heading that a query names.
        Unavailable: a configured retriever or reranker cannot run.
    """
    topics = spelled(opened, topics)
    passages = RelevantPassages.of(opened.generation, topics)
    topics = passages.judged(topics)
    notes = [*check_ids(opened, topics), *passages.check(topics, opened.generation)]
    queries = queries_of(opened, topics, notes)
    k = looked_at(topics, measures)
    if k > opened.settings.search.depth:
        notes.append(f"retrieval depth is {k}, not {opened.settings.search.depth}: the metrics need it")
    answered = rank(opened, queries, edit, k=k)
    check_complete(answered, "an evaluation", "fix that, or evaluate without it (--mode, or rerank.backend: none)")
    run = run_of(opened, answered)
    groups = group_measures(opened.generation, answered.rankings, topics)
    if groups is None:
        notes.append("no result has a group: group metrics are skipped")
    further: dict[str, Mapping[str, float]] = {**(groups or {})}
    further |= related_measures(opened.generation, answered, topics, measures)
    if picking := [topic for topic in topics if topic.names_chunks]:
        # Those chunks are relevant that a file, a heading or a quote selects.
        by_chunk = rank(opened, queries_of(opened, picking, []), edit, k=depth(measures), unit="chunk")
        run_of_chunks = {ranking.query.id: {hit.id: hit.score for hit in ranking.hits} for ranking in by_chunk.rankings}
        values = Scorer(measures, passages.chunks)(run_of_chunks)
        further |= {f"chunk {name}": each for name, each in values.items()}
    found = _evaluation(run, topics, measures, pipeline=str(answered.pipeline), notes=notes, further=further)
    return replace(
        found,
        generation=opened.generation.manifest.id,
        latency_ms=latency(samples_ms(opened, queries[:_TIMED], edit, k=min(k, 10))),
        gate_groups=chosen_groups(answered.rankings),
    )


def run_of(opened: Opened, ranked: Ranked) -> Run:
    """Return the records of each ranking, with their scores."""
    return {
        ranking.query.id: {opened.generation.record_id(hit.record): hit.score for hit in ranking.hits}
        for ranking in ranked.rankings
    }


def rank(
    opened: Opened, queries: Sequence[Query], edit: Edit | None = None, *, k: int, unit: Unit = "record"
) -> Ranked:
    """Return the rankings of queries, without a deadline."""
    return rank_all(opened, queries, replace(opened.options(k=k, unit=unit), deadline_ms=None), edit)


def rank_all(opened: Opened, queries: Sequence[Query], options: SearchOptions, edit: Edit | None = None) -> Ranked:
    """Return what `Searcher.rank` does for all queries at once, with the steps and the pipeline of the first batch.

    Raises as `Searcher.rank` does.
    """
    searcher = Searcher(opened, options)
    reranks = options.hybrid if options.rerank is None else options.rerank
    size = _RERANKED if reranks else _BATCH
    if len(queries) <= 1:
        return searcher.rank(queries, edit)
    batches = []
    with task("searching", "queries", len(queries)) as searching:
        for start in range(0, len(queries), size):
            batches.append(searcher.rank(queries[start : start + size], edit))
            searching.reach(min(start + size, len(queries)))
    return replace(
        batches[0],
        rankings=[ranking for batch in batches for ranking in batch.rankings],
        skipped={name: why for batch in batches for name, why in batch.skipped.items()},
        encode=sum(batch.encode for batch in batches),
        search=sum(batch.search for batch in batches),
        rerank=sum(batch.rerank for batch in batches),
        notices=tuple(dict.fromkeys(notice for batch in batches for notice in batch.notices)),
    )


def check_complete(ranked: Ranked, what: str, hint: str) -> None:
    """Raises: Unavailable: a step of the pipeline did not run."""
    for step, reason in ranked.skipped.items():
        raise Unavailable(f"{step} did not run ({reason}), and {what} needs all stages", hint=hint)


def looked_at(topics: Sequence[Topic], measures: Sequence[Measure]) -> int:
    """Return how many results of each query an evaluation needs."""
    k = depth(measures)
    return max(k, _GROUPED) if any(topic.group is not None for topic in topics) else k


def spelled(opened: Opened, topics: Sequence[Topic]) -> list[Topic]:
    """Return the topics with each judged id as the index spells it; of equal ids the highest grade."""
    generation, judged = opened.generation, RecordView(opened.generation, None)
    names = {name for topic in topics for name in topic.grades} - generation.contents_by_id().keys()
    rows = {name: judged.row_of(name) for name in names}
    ids = {name: generation.record_id(row) for name, row in rows.items() if row is not None}
    if not ids:
        return list(topics)
    renamed = []
    for topic in topics:
        grades: dict[str, int] = {}
        for name, grade in topic.grades.items():
            own = ids.get(name, name)
            grades[own] = max(grade, grades.get(own, grade))
        renamed.append(replace(topic, grades=grades))
    return renamed


def check_ids(opened: Opened, topics: Sequence[Topic]) -> list[str]:
    """Return notes on judged ids that are not in the index.

    Raises:
        OtherCollection: it has none of them.
    """
    relevant = {name for topic in topics for name, grade in topic.grades.items() if grade > 0}
    known = opened.generation.contents_by_id()
    absent = sorted(relevant - known.keys())
    if relevant and len(absent) == len(relevant):
        hint = f"ids of the index look like {quoted(next(iter(known), ''))}: name the judgments of this collection"
        raise OtherCollection(
            f"none of the {len(relevant):,} relevant ids is in the index ({quoted(absent[0])}, …)", hint=hint
        )
    if not absent:
        return []
    shown = ", ".join(map(quoted, absent[:3])) + (", …" if len(absent) > 3 else "")
    ids = figures.count(len(relevant), "relevant id")
    verbs = "is not in the index and counts" if len(absent) == 1 else "are not in the index and count"
    return [f"{len(absent):,} of {ids} {verbs} as missed ({shown})"]


def samples_ms(opened: Opened, queries: Sequence[Query], edit: Edit | None = None, *, k: int) -> dict[str, list[float]]:
    """Return the latencies of single queries in this process, in milliseconds, by stage."""
    found: dict[str, list[float]] = {"encode": [], "search": [], "rerank": [], "total": []}
    with task("timing", "queries", len(queries)) as timing:
        for query in queries:
            begun = time.perf_counter()
            answered = rank(opened, [query], edit, k=k)
            spent = (answered.encode, answered.search, answered.rerank, time.perf_counter() - begun)
            for stage, seconds in zip(found, spent, strict=True):
                found[stage].append(seconds * 1000.0)
            timing.advance()
    return found


def latency(samples: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """Return the median and the 95th percentile of each stage, named as in `LATENCY`."""
    return {
        f"{'' if stage == 'total' else stage + '_'}p{share}": round(float(np.percentile(samples[stage], share)), 3)
        for stage in ("total", "encode", "search", "rerank")
        for share in (50, 95)
    }


def per_query_lines(found: Evaluation, topics: Sequence[Topic]) -> str:
    """Return a line of JSON for each judged query: id, text, every measure, number of results."""
    rows = (
        {
            "id": topic.id,
            "query": topic.text,
            **{name: values[topic.id] for name, values in found.per_query.items() if topic.id in values},
            "results": len(found.run.get(topic.id, {})),
            **({"gate_groups": found.gate_groups[topic.id]} if topic.id in found.gate_groups else {}),
        }
        for topic in topics
    )
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def _evaluation(
    run: Run,
    topics: Sequence[Topic],
    measures: Sequence[Measure],
    *,
    pipeline: str,
    notes: Sequence[str],
    further: Values | None = None,
) -> Evaluation:
    graded = {topic.id: topic.grades for topic in topics if topic.grades or topic.names_place}
    values: dict[str, Mapping[str, float]] = {}
    if graded:
        values.update(Scorer(measures, graded)(run))
    values.update(further or {})
    intervals = {name: interval(np.array(list(each.values()), np.float64)) for name, each in values.items() if each}
    unanswered = [topic.id for topic in topics if not run.get(topic.id)]
    if not intervals:
        hint = "judge them with `relevant`, `file`, `heading`, `quote`, or a `group` that records have"
        raise UsageError("these queries have no judgments that can be measured on this index", hint=hint)
    return Evaluation(values, intervals, unanswered, run, pipeline, len(topics), notes=notes)


def queries_of(opened: Opened, topics: Iterable[Topic], notes: list[str]) -> list[Query]:
    """Return the query of each topic with its tags and files read; problems, and topics that cannot be read, are added
    to `notes`.

    Raises:
        UsageError: none of them can be read.
    """
    searcher, questions, unreadable = Searcher(opened), list[Question](), dict[str, UsageError]()
    for topic in topics:
        try:
            questions += searcher.read([Request(topic.text, topic.id, files=topic.files)])
        except UsageError as error:
            unreadable[topic.id] = error
    if unreadable:
        failure = next(iter(unreadable.values()))
        if not questions:
            raise failure
        number = figures.count(len(unreadable), "query", "queries")
        named = ", ".join(islice(unreadable, _NAMED)) + ", …" * (len(unreadable) > _NAMED)
        notes.append(f"{number} cannot be read, without results: {named} ({failure.message})")
    corrected = {each.notice for question in questions for each in question.corrections}
    notes += dict.fromkeys(each for question in questions for each in question.notices if each not in corrected)
    if corrected:
        queries = figures.count(sum(bool(question.corrections) for question in questions), "query", "queries")
        notes.append(f"{queries} with a word that no record has: others are searched for (search.exact_words: false)")
    return [question.query for question in questions]
