"""Comparison of runs on one set of judged queries: evaluations, differences, and the files that are written."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from retrieve_cli.contracts.progress import noting_interruption, part
from retrieve_cli.errors import UsageError, quoted, shortened
from retrieve_cli.evaluation.differences import Difference, differences
from retrieve_cli.evaluation.evaluate import LATENCY, Evaluation, per_query_lines
from retrieve_cli.evaluation.groups import AT_GATE, GROUPS, related_names
from retrieve_cli.evaluation.judgments import Run, Topic
from retrieve_cli.evaluation.measures import ranked
from retrieve_cli.evaluation.runs import Answers, NamedRun
from retrieve_cli.output.trec_ids import TrecIds
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
        found, *rest = _measured([base, *others], topics, measures)
        runs = {run.name: evaluation for run, evaluation in zip(others, rest, strict=True)}
        compared = differences(found.per_query, {name: run.per_query for name, run in runs.items()})
        new = [f"{name}: {note}" for name, run in runs.items() for note in run.notes if note not in found.notes]
        return cls(base.name, found, runs, compared, topics, [*notes, *found.notes, *new])

    def write_run(self, path: Path) -> None:
        """Write the first run as a TREC run file."""
        _put(path, run_lines(self.found.run, tag="retrieve"))

    def write_ids(self, path: Path | None) -> None:
        """Write the encoded ids of that run; without a path, add a note that there are some."""
        ids = trec_ids(self.found.run)
        if path is not None:
            _put(path, ids.lines())
        elif ids:
            self.notes.append(ids.notice)

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
            self.notes.append(f"the measures of single queries are not kept: {error.filename}: {error.strerror}")
            return None
        return target

    def write_report(
        self, folder: Path, index: Answers | None, settings: Settings, *, command: str, judgments: str
    ) -> Path:
        """Write everything as one HTML page; return its path."""
        from retrieve_cli.evaluation.report.page import About, NamedEvaluation, write

        columns = [
            NamedEvaluation(self.base, self.found),
            *(NamedEvaluation(name, run) for name, run in self.runs.items()),
        ]
        generation = None if index is None else index.opened.generation
        about = About.of(generation, settings, runs=[self.base], command=command, judgments=judgments)
        return write(
            folder,
            runs=columns,
            topics=self.topics,
            compared=self.compared,
            describe=_names(index),
            notes=self.notes,
            about=about,
        )


def _measured(runs: Sequence[NamedRun], topics: Sequence[Topic], measures: Sequence[Measure]) -> list[Evaluation]:
    evaluations = []
    for number, run in enumerate(runs, 1):
        title = f"run {number} of {len(runs)} ({shortened(run.name, 40)})" if len(runs) > 1 else ""
        note = f"during {title}; nothing is kept" if title else "nothing is kept"
        with part(title), noting_interruption(partial(str, note)):
            evaluations.append(run.evaluate(topics, measures))
    return evaluations


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
        try:
            return str(generation.records[generation.find_record(record_id)]["name"])
        except UsageError:
            return None

    return name


def trec_ids(run: Run) -> TrecIds:
    """Return the spelling of the ids of a run in a TREC file."""
    return TrecIds.of(run, (document for scores in run.values() for document in scores))


def run_lines(run: Run, *, tag: str) -> str:
    """Return the lines of a TREC run, `query Q0 document rank score tag`, ranked in trec_eval's order."""
    ids, lines = trec_ids(run), []
    for query, scores in run.items():
        written = {ids.document(document): score for document, score in scores.items()}
        for rank, (document, score) in enumerate(ranked(written), 1):
            lines.append(f"{ids.query(query)} Q0 {document} {rank} {score!r} {tag}\n")
    return "".join(lines)
