"""Topics through a searcher, and what came of it: each measure per query, means with intervals, latency beside them.

All queries are ranked in batches; some are then asked again one at a time, for how long one takes. No query is skipped:
one without an answer counts with the measure's default, and where a leg that was asked for cannot run there is no
evaluation at all.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from retrieve_cli.contracts import Json, Query, Ranking, Request, Unit
from retrieve_cli.errors import Unavailable, UsageError, quoted
from retrieve_cli.evaluation.judgments import Run, Topic
from retrieve_cli.evaluation.measures import Values, depth, per_query
from retrieve_cli.evaluation.statistics import Interval, interval
from retrieve_cli.experiments.groups import chosen_groups, group_measures
from retrieve_cli.experiments.passages import Passages
from retrieve_cli.experiments.ranking import rank_all
from retrieve_cli.progress.tasks import task
from retrieve_cli.search.searcher import Ranked, Searcher
from retrieve_cli.stages.pipeline import Edit

if TYPE_CHECKING:
    from ir_measures import Measure

SCHEMA_VERSION = 1
_TIMED = 50
"""Queries that are asked again, one at a time."""
_GROUPED = 100
"""Records among which the first groups are looked for, whatever the measures look at."""
LATENCY = tuple(f"{stage}p{share}" for stage in ("", "encode_", "search_", "rerank_") for share in (50, 95))
"""Milliseconds of one query and of its stages."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """One configuration, or one run, on one set of judged queries."""

    per_query: Values
    """By measure, by query id: a value for every judged query."""
    intervals: Mapping[str, Interval]
    """Mean and 95 % interval over queries, by measure."""
    unanswered: Sequence[str]
    """Ids of the queries that found nothing."""
    run: Run
    pipeline: str
    queries: int
    """Judged queries; a measure may concern some of them only (those with a quote, say)."""
    generation: str | None = None
    latency_ms: Mapping[str, float] = field(default_factory=dict)
    """`p50`, `p95` of a single warm query, and the same of its stages as `encode_p50` and so on."""
    samples_ms: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """What these are of: by stage (`encode`, `search`, `total`), a number for each query that was timed."""
    notes: Sequence[str] = ()
    gate_groups: Mapping[str, Sequence[Json]] = field(default_factory=dict)
    """By query id, the groups that the gate chose; empty if there was no gate."""

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
    run: Run,
    topics: Sequence[Topic],
    measures: Sequence[Measure],
    *,
    pipeline: str,
    notes: Sequence[str] = (),
) -> Evaluation:
    """Somebody's run on these topics; queries of the run that nobody judged are left out, and said."""
    judged = {topic.id for topic in topics}
    if not judged & run.keys():
        hint = "name the judgments that belong to this run"
        raise UsageError(f"none of the {len(run)} queries of the run is judged", hint=hint)
    strangers = len(run.keys() - judged)
    said = [*notes, *([f"{strangers} queries of the run are not judged: left out"] if strangers else [])]
    placed = [topic for topic in topics if topic.names_place and not topic.grades]
    if placed:
        said.append(f"{len(placed)} queries name a file or heading, which only an index has: left out")
        topics = [topic for topic in topics if topic not in placed]
    return _evaluation(run, topics, measures, pipeline=pipeline, notes=said)


def evaluate(
    searcher: Searcher, topics: Sequence[Topic], measures: Sequence[Measure], *, edit: Edit | None = None
) -> Evaluation:
    """Evaluate the searcher's answers to all topics; `edit` changes the pipeline that answers.

    Raises:
        UsageError: no judged id is in the index, or no file or heading that a query names.
        Unavailable: a retriever or reranker that is asked for cannot run.
    """
    passages = Passages.of(searcher.generation, topics)
    topics = passages.judged(topics)
    notes = [*check_ids(searcher, topics), *passages.check(topics, searcher.generation)]
    queries = queries_of(searcher, topics, notes)
    k = looked_at(topics, measures)
    if k > searcher.settings.search.depth:
        notes.append(
            f"the legs are asked for {k} candidates, not {searcher.settings.search.depth}: measures look so far"
        )
    answered = _rank(searcher, queries, edit, k=k)
    if answered.skipped:
        leg, why = next(iter(answered.skipped.items()))
        raise Unavailable(f"{leg} did not run ({why}): what is left is not what was to be measured",
                          hint="mend that, or measure without it (--mode, --with rerank.backend=none)")  # fmt: skip
    run = {ranking.query.id: _scores(searcher, ranking) for ranking in answered.rankings}
    groups = group_measures(searcher.generation, answered.rankings, topics)
    if groups is None:
        notes.append("no record that was found has a group: groups are not measured")
    further: dict[str, Mapping[str, float]] = {**(groups or {})}
    if picking := [topic for topic in topics if topic.names_chunks]:
        further |= _of_chunks(searcher, picking, passages, measures, edit)
    found = _evaluation(run, topics, measures, pipeline=str(answered.pipeline), notes=notes, further=further)
    samples = samples_ms(searcher, queries[:_TIMED], edit, k=min(k, 10))
    return Evaluation(
        per_query=found.per_query,
        intervals=found.intervals,
        queries=len(topics),
        unanswered=found.unanswered,
        run=run,
        pipeline=str(answered.pipeline),
        generation=searcher.generation.manifest.id,
        latency_ms=latency(samples),
        samples_ms=samples,
        notes=found.notes,
        gate_groups=chosen_groups(answered.rankings),
    )


def _rank(searcher: Searcher, queries: Sequence[Query], edit: Edit | None, *, k: int, unit: Unit = "record") -> Ranked:
    """The rankings of queries, however long they take."""
    return rank_all(searcher, queries, replace(searcher.options(k=k, unit=unit), deadline_ms=None), edit)


def looked_at(topics: Sequence[Topic], measures: Sequence[Measure]) -> int:
    """How many results of each query an evaluation asks for."""
    k = depth(measures)
    return max(k, _GROUPED) if any(topic.group is not None for topic in topics) else k


def check_ids(searcher: Searcher, topics: Sequence[Topic]) -> list[str]:
    """What is to be said of judged ids that the index does not have.

    Raises:
        OtherCollection: it has none of them.
    """
    relevant = {name for topic in topics for name, grade in topic.grades.items() if grade > 0}
    known = searcher.generation.contents_by_id()
    absent = sorted(relevant - known.keys())
    if relevant and len(absent) == len(relevant):
        hint = f"ids of the index look like {quoted(next(iter(known), ''))}: name the judgments of this collection"
        raise OtherCollection(
            f"none of the {len(relevant):,} relevant ids is in the index ({quoted(absent[0])}, …)", hint=hint
        )
    if not absent:
        return []
    shown = ", ".join(map(repr, absent[:3]))
    return [f"{len(absent)} of {len(relevant)} relevant ids are not in the index and can only be missed ({shown}, …)"]


def samples_ms(
    searcher: Searcher, queries: Sequence[Query], edit: Edit | None = None, *, k: int
) -> dict[str, list[float]]:
    """Milliseconds of single queries in a warm process, by stage."""
    found: dict[str, list[float]] = {"encode": [], "search": [], "rerank": [], "total": []}
    with task("timing", "queries", len(queries)) as timing:
        for query in queries:
            begun = time.perf_counter()
            answered = _rank(searcher, [query], edit, k=k)
            seconds = {
                "encode": answered.encode,
                "search": answered.search,
                "rerank": answered.rerank,
                "total": time.perf_counter() - begun,
            }
            for stage, spent in seconds.items():
                found[stage].append(spent * 1000.0)
            timing.advance()
    return found


def latency(samples: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """The median and the 95th percentile of each stage, named as in `LATENCY`."""
    return {
        f"{'' if stage == 'total' else stage + '_'}p{share}": round(float(np.percentile(samples[stage], share)), 3)
        for stage in ("total", "encode", "search", "rerank")
        for share in (50, 95)
    }


def per_query_lines(found: Evaluation, topics: Sequence[Topic]) -> str:
    """A line of JSON for each judged query: id, text, every measure, how many results."""
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
        values.update(per_query(measures, graded, run))
    values.update(further or {})
    intervals = {name: interval(np.array(list(each.values()), np.float64)) for name, each in values.items() if each}
    unanswered = [topic.id for topic in topics if not run.get(topic.id)]
    if not intervals:
        hint = "name what is right for them: `relevant`, `file`, `heading`, `quote`, or a `group` that records have"
        raise UsageError("nothing that these queries ask for can be measured", hint=hint)
    return Evaluation(values, intervals, unanswered, run, pipeline, len(topics), notes=notes)


def _of_chunks(
    searcher: Searcher, topics: Sequence[Topic], passages: Passages, measures: Sequence[Measure], edit: Edit | None
) -> Values:
    """The measures over chunks, of which those are relevant that a file, a heading or a quote picks."""
    answered = _rank(searcher, queries_of(searcher, topics, []), edit, k=depth(measures), unit="chunk")
    run = {ranking.query.id: {hit.id: hit.score for hit in ranking.hits} for ranking in answered.rankings}
    return {f"chunk {name}": each for name, each in per_query(measures, passages.chunks, run).items()}


def queries_of(searcher: Searcher, topics: Iterable[Topic], notes: list[str]) -> list[Query]:
    """What the legs are asked for each topic, its tags and files read; `notes` gains what is wrong with them."""
    questions = searcher.read([Request(topic.text, topic.id, files=topic.files) for topic in topics])
    notes += dict.fromkeys(notice for question in questions for notice in question.notices)
    return [question.query for question in questions]


def _scores(searcher: Searcher, ranking: Ranking) -> dict[str, float]:
    return {searcher.generation.record_id(hit.record): hit.score for hit in ranking.hits}
