"""Comparison of runs on one set of judged queries: evaluations, differences, and the files that are written.

Ablation: the pipeline without each of its active parts in turn, to compare what a part gains and costs.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING

from retrieve_cli.assemble import registry
from retrieve_cli.config.loading import override
from retrieve_cli.contracts import Stage
from retrieve_cli.contracts.progress import noting_interruption, part
from retrieve_cli.errors import UsageError, quoted, shortened
from retrieve_cli.evaluation.evaluate import LATENCY, Evaluation, per_query_lines
from retrieve_cli.evaluation.groups import AT_GATE, GROUPS, related_names
from retrieve_cli.evaluation.judgments import Topic
from retrieve_cli.evaluation.runs import Answers, NamedRun
from retrieve_cli.evaluation.statistics import Difference, differences
from retrieve_cli.frozen import replace
from retrieve_cli.output import trec_runs
from retrieve_cli.retrieval.stages.fuse import Fuse
from retrieve_cli.retrieval.stages.fusion import Normalization
from retrieve_cli.retrieval.stages.pipeline import Edit, Pipeline, Wrapping
from retrieve_cli.retrieval.stages.retrieve import Retrieve
from retrieve_cli.search.searcher import Searcher
from retrieve_cli.storage import durable
from retrieve_cli.storage.manifest import sha1

if TYPE_CHECKING:
    from ir_measures import Measure

    from retrieve_cli.config.settings import Settings


def figures(
    topics: Sequence[Topic],
    measures: Sequence[Measure],
    *,
    retrieving: bool,
    gated: bool = False,
    related: bool = False,
) -> list[str]:
    """Return the names of the measures and latencies that the first run will have: `gated` with group routing,
    `related` if related records are listed beside the results."""
    names = [str(measure) for measure in measures]
    chunks = [f"chunk {name}" for name in names] if any(topic.names_chunks for topic in topics) else []
    groups = [*GROUPS, *([AT_GATE] if gated else [])] if any(topic.group for topic in topics) else []
    linked = related_names(measures) if related else []
    return [*names, *chunks, *groups, *linked, *LATENCY] if retrieving else names


@dataclass(slots=True)
class Trial:
    """Evaluated runs: the others are compared with the first one, `base`."""

    base: str
    found: Evaluation
    runs: Mapping[str, Evaluation]
    """Other runs, by name."""
    compared: Sequence[Difference]
    topics: Sequence[Topic]
    notes: list[str]

    @classmethod
    def of(
        cls,
        base: NamedRun,
        others: Sequence[NamedRun],
        topics: Sequence[Topic],
        measures: Sequence[Measure],
        notes: Sequence[str] = (),
    ) -> Trial:
        """Evaluate all runs; `notes` are about the queries.

        Raises:
            UsageError: two runs have the same name, or the index has no judged id.
            Unavailable: a retriever of one of them cannot run.
        """
        names = [base.name, *(run.name for run in others)]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise UsageError(f"{quoted(twice)} is compared twice", hint="name each --with once")
        evaluations = []
        for number, run in enumerate((base, *others), 1):
            title = f"run {number} of {len(names)} ({shortened(run.name, 40)})" if others else ""
            note = f"during {title}; nothing is kept" if title else "nothing is kept"
            with part(title), noting_interruption(partial(str, note)):
                evaluations.append(run.evaluate(topics, measures))
        found, *rest = evaluations
        runs = {other.name: evaluation for other, evaluation in zip(others, rest, strict=True)}
        compared = differences(found.per_query, {name: run.per_query for name, run in runs.items()})
        new = [f"{name}: {note}" for name, run in runs.items() for note in run.notes if note not in found.notes]
        return cls(base.name, found, runs, compared, topics, [*notes, *found.notes, *new])

    def write_run(self, path: Path) -> None:
        """Write the first run as a TREC run file; add a note if ids are encoded there."""
        run = self.found.run
        lines = (trec_runs.lines(query, hits.items(), tag="retrieve") for query, hits in run.items())
        _put(path, "".join(lines))
        self.notes.extend(trec_runs.notes(run, (document for scores in run.values() for document in scores)))

    def write_per_query(self, path: Path | None, runs: Path | None) -> Path | None:
        """Write a line of JSON for each query: to `path`, else into a folder of `runs` named after its content."""
        text = per_query_lines(self.found, self.topics)
        if path is None and runs is None:
            return None
        target = path or Path(str(runs)) / sha1([self.found.generation, text])[:12] / "per_query.jsonl"
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            durable.put(target, text)
        except OSError as error:
            if path is not None:
                raise
            self.notes.append(f"the metrics of single queries are not kept: {error.filename}: {error.strerror}")
            return None
        return target

    def write_report(
        self, folder: Path, index: Answers | None, settings: Settings, *, command: str, judgments: str
    ) -> Path:
        """Write everything as one HTML page; return its path."""
        from retrieve_cli.evaluation.report import about, write

        generation = None if index is None else index.opened.generation
        origin = about(generation, settings, runs=[self.base], command=command, judgments=judgments)
        return write(
            folder,
            runs={self.base: self.found, **self.runs},
            topics=self.topics,
            compared=self.compared,
            describe=_names(index),
            notes=self.notes,
            origin=origin,
        )


def _put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    durable.put(path, text)


def check_places(report: Path | None, files: Mapping[str, Path | None], read: Sequence[Path | None]) -> None:
    """Check output paths. Raises: UsageError: one cannot be written, or would overwrite an input."""
    if report is not None and report.exists() and not report.is_dir():
        raise UsageError(f"--report {report} is a file; it takes a folder", hint="name another one")
    written = [path for path in files.values() if path is not None]
    for name, path in files.items():
        if path is None:
            continue
        if path.is_dir():
            raise UsageError(f"{name} {path} is a folder; it takes a file", hint=f"for example: {path / 'run.txt'}")
        if path in read or written.count(path) > 1:
            raise UsageError(f"{name} would overwrite {path}", hint="name another file")
    for path in (*written, *([report] if report else ())):
        folder = next(parent for parent in (path, *path.absolute().parents) if parent.exists())
        if folder.is_dir() and not os.access(folder, os.W_OK):
            raise UsageError(f"{folder} is not writable", hint="name another folder, or fix its permissions")


def _names(index: Answers | None) -> Callable[[str], str | None]:
    """Return a function from a record's id to its name; it gives None without an index."""
    if index is None:
        return lambda _: None
    generation = index.opened.generation

    def name(record_id: str) -> str | None:
        row = generation.exact_row(record_id)
        return None if row is None else str(generation.records[row]["name"])

    return name


First = Retrieve | Fuse
"""The stage that runs the retrievers."""


def ablations(base: Answers) -> list[Answers]:
    """Return a run for each active part of the pipeline, without that part and named after it.

    Raises:
        UsageError: the pipeline has no active part to leave out.
    """
    pipeline = Searcher(base.opened).pipeline()
    found = [base.edited(name, edit) for name, edit in edits(pipeline)]
    depth = base.settings.search.depth
    if isinstance(pipeline.retrieves, Fuse) and depth > 1:
        # By the setting: later stages get as many hits as the retrievers return.
        half = override(base.settings, {"search": {"depth": depth // 2}}, where="--ablate")
        found.append(base.under("half the depth", half))
    for each in pipeline.retrieves.retrievals:
        index = registry.retriever(each.name).plain(base.opened.generation, base.settings)
        if index is not None:
            found.append(base.under("without field weights", base.settings, {each.name: index}))
    if not found:
        mode = base.settings.search.mode
        raise UsageError(f"--mode {mode} has no part that can be switched off", hint="omit --mode")
    return found


def edits(pipeline: Pipeline) -> Iterator[tuple[str, Edit]]:
    """Yield a name and a change of the pipeline for each active part."""
    for name, kept in _CUTS.items():
        if any(kept(stage) != stage for stage in pipeline.stages):
            yield name, _every(kept)
    if isinstance(pipeline.stages[0], Wrapping) and pipeline.stages[0].kind != "merge":
        yield "without group routing", lambda each: Pipeline((_without_routing(each.stages[0]), *each.stages[1:]))
    first = pipeline.retrieves
    if not isinstance(first, Fuse):
        return
    if any(stage.kind == "rerank" for stage in pipeline.stages):
        yield "without the reranker", lambda each: each.without("rerank")
    for name in [each.name for each in first.retrievals][::-1]:
        yield f"without {name}", _retrieving(partial(_without, name=name))
    yield from ((name, _retrieving(edit)) for name, edit in _fusions(first))


def _fusions(first: Fuse) -> Iterator[tuple[str, Callable[[Fuse], First]]]:
    fusion = first.fusion
    if fusion.method != "weighted":
        return
    yield "ranks instead of scores", lambda fuse: replace(fuse, fusion=replace(fuse.fusion, method="rrf"))
    equal = {each.name: 0.5 for each in first.retrievals}
    if len({fusion.weight(name) for name in equal}) > 1:
        yield "equal weights", lambda fuse: replace(fuse, fusion=replace(fuse.fusion, weights=equal))
    if fusion.normalization == "zscore":
        yield "z-scores over candidates", lambda fuse: _normalized(fuse, "zscore_candidates")
    if fusion.normalization != "minmax":
        yield "min-max instead of z-scores", lambda fuse: _normalized(fuse, "minmax")


def _normalized(fuse: Fuse, normalization: Normalization) -> Fuse:
    return replace(fuse, fusion=replace(fuse.fusion, normalization=normalization))


def _without(fuse: Fuse, name: str) -> First:
    """Return the fusion without one retriever; if one is left, it ranks alone."""
    rest = tuple(each for each in fuse.retrievals if each.name != name)
    return Retrieve(rest[0], keep=fuse.keep) if len(rest) == 1 else replace(fuse, retrievals=rest)


def _retrieving(edit: Callable[[Fuse], First]) -> Edit:
    """Return a change of a pipeline: its retrievers are fused in another way."""
    return lambda pipeline: pipeline.retrieving(lambda first: edit(first) if isinstance(first, Fuse) else first)


def _without_routing(stage: Stage) -> Stage:
    return stage.inner if isinstance(stage, Wrapping) else stage


def _every(kept: Callable[[Stage], Stage | None]) -> Edit:
    """Return a change of a pipeline that is made stage by stage; None drops a stage."""

    def edit(pipeline: Pipeline) -> Pipeline:
        stages = (kept(stage) for stage in pipeline.stages)
        return Pipeline(tuple(stage for stage in stages if stage is not None))

    return edit


def _no_group_cap(stage: Stage) -> Stage | None:
    from retrieve_cli.retrieval.stages.diversity import Limit

    if not isinstance(stage, Limit):
        return stage
    caps = tuple(cap for cap in stage.caps if cap.name != "per_group")
    return replace(stage, caps=caps) if caps else None


def _without_threshold(stage: Stage, **keys: None) -> Stage | None:
    from retrieve_cli.retrieval.stages.threshold import Threshold

    if not isinstance(stage, Threshold):
        return stage
    rest = replace(stage, **keys)
    return None if (rest.min_score, rest.grade, rest.max_distance) == (None, None, None) else rest


_CUTS: Mapping[str, Callable[[Stage], Stage | None]] = {
    "without expansion": lambda stage: None if stage.kind == "expand" else stage,
    "without MMR": lambda stage: None if hasattr(stage, "trade_off") else stage,
    "without a cap per group": _no_group_cap,
    "without min_score": partial(_without_threshold, min_score=None),
    "without a similarity threshold": partial(_without_threshold, grade=None, max_distance=None),
}
"""Stages that are off until they are configured, or until the graph has edges."""


def recommendation(
    found: Evaluation, runs: Mapping[str, Evaluation], compared: Sequence[Difference], budget_ms: float
) -> str:
    """Return a recommendation: the best run by the primary measure whose 95th percentile is within the budget.

    It recommends the current configuration, unless that is too slow or another run is significantly better.
    """
    if not (isfinite(budget_ms) and budget_ms > 0):
        message = f"--latency-budget-ms is {budget_ms:g}; it takes a number of milliseconds above 0"
        raise UsageError(message, hint="for example: --latency-budget-ms 50")
    within = f"recommended within {budget_ms:g} ms (p95)"
    measure = next(iter(found.per_query))
    quick = {name: run for name, run in runs.items() if run.latency_ms["p95"] <= budget_ms}
    better = [
        each
        for each in compared
        if each.measure == measure and each.run in quick and each.interval.mean > 0 and each.significant
    ]
    if better:
        best = max(better, key=lambda each: each.interval.mean)
        return f"{within}: {best.run}, {measure} {best.interval.mean:+.4f}"
    if found.latency_ms["p95"] <= budget_ms:
        return f"{within}: as configured; no run is significantly better"
    if not quick:
        return f"{within}: none of these configurations"
    name, run = max(quick.items(), key=lambda each: each[1].metrics[measure])
    change = run.metrics[measure] - found.metrics[measure]
    return f"{within}: {name}, {measure} {change:+.4f}"
