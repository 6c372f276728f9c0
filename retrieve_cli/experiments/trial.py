"""What is measured, everything it is compared with, and what came of it, on one set of judged queries."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from retrieve_cli import durable
from retrieve_cli.errors import UsageError
from retrieve_cli.evaluation.differences import Difference, differences
from retrieve_cli.evaluation.judgments import Topic
from retrieve_cli.experiments.arms import Answers, Arm
from retrieve_cli.experiments.evaluate import GROUPS, LATENCY, Evaluation, per_query_lines, run_lines
from retrieve_cli.manifest import sha1

if TYPE_CHECKING:
    from ir_measures import Measure


def figures(topics: Sequence[Topic], measures: Sequence[Measure], *, retrieving: bool) -> list[str]:
    """Names of what will be known of the first arm, before anything is measured."""
    names = [str(measure) for measure in measures]
    chunks = [f"chunk {name}" for name in names] if any(topic.quote for topic in topics) else []
    groups = list(GROUPS) if any(topic.group for topic in topics) else []
    return [*names, *chunks, *groups, *LATENCY] if retrieving else names


@dataclass(slots=True)
class Trial:
    """The arms of a comparison, measured: the first one, `base`, is what the others are held against."""

    base: str
    found: Evaluation
    arms: Mapping[str, Evaluation]
    """All others, by name."""
    compared: Sequence[Difference]
    topics: Sequence[Topic]
    notes: list[str]

    @classmethod
    def of(cls, base: Arm, others: Sequence[Arm], topics: Sequence[Topic], measures: Sequence[Measure]) -> Trial:
        """Measures them all.

        Raises:
            UsageError: two arms have one name, or none of the judged ids is there.
            Unavailable: a leg of one of them cannot run.
        """
        names = [base.name, *(arm.name for arm in others)]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise UsageError(f"{twice!r} is compared twice", hint="name each --with once")
        found = base.evaluate(topics, measures)
        arms = {arm.name: arm.evaluate(topics, measures) for arm in others}
        compared = differences(found.per_query, {name: arm.per_query for name, arm in arms.items()})
        notes = [*found.notes, *(f"{name}: {note}" for name, arm in arms.items() for note in _new(arm, found))]
        return cls(base.name, found, arms, compared, topics, notes)

    def write_run(self, path: Path) -> None:
        """The first arm's run as TREC has it."""
        _put(path, run_lines(self.found.run, tag="retrieve"))

    def write_per_query(self, path: Path | None, runs: Path | None) -> Path | None:
        """A line of JSON for each query: to `path`, else into a folder of `runs` that is named after what it holds."""
        text = per_query_lines(self.found, self.topics)
        if path is None and runs is None:
            return None
        target = path or Path(str(runs)) / sha1([self.found.generation, text])[:12] / "per_query.jsonl"
        try:
            _put(target, text)
        except OSError as error:
            if path is not None:
                raise
            self.notes.append(f"what each query came to is not kept: {error.filename}: {error.strerror}")
            return None
        return target

    def write_report(self, folder: Path, index: Answers | None, notes: Sequence[str]) -> Path:
        """One HTML page of all of it; returns its path."""
        from retrieve_cli.experiments.report.page import Arm as Column, write

        columns = [Column(self.base, self.found), *(Column(name, arm) for name, arm in self.arms.items())]
        return write(
            folder,
            arms=columns,
            topics=self.topics,
            compared=self.compared,
            describe=_names(index),
            notes=[*notes, *self.notes],
        )


def _put(path: Path, text: str) -> None:
    """Writes a file whole or not at all, its folder too; what is no file (/dev/stdout, a pipe) is written to."""
    if path.exists() and not path.is_file():
        path.write_text(text, "utf-8")
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    durable.replace(path, text)


def _new(arm: Evaluation, found: Evaluation) -> list[str]:
    return [note for note in arm.notes if note not in found.notes]


def _names(index: Answers | None) -> Callable[[str], str | None]:
    """A record's name by its id, where an index knows it."""
    if index is None:
        return lambda _: None
    generation = index.searcher.generation

    def name(record_id: str) -> str | None:
        try:
            return str(generation.records[generation.find_record(record_id)]["name"])
        except UsageError:
            return None

    return name
