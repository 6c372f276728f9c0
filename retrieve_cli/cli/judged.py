"""Input of `retrieve eval`: judged queries, the index that they are about, and a baseline."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from retrieve_cli.contracts.terms import figures
from retrieve_cli.errors import Exit, IndexMissing, RetrieveError, UsageError, quoted
from retrieve_cli.untrusted import files

if TYPE_CHECKING:
    from retrieve_cli.cli.options import Shared
    from retrieve_cli.config.settings import Settings
    from retrieve_cli.evaluation.judgments import Topic
    from retrieve_cli.evaluation.runs import Answers

_CORPUS = "corpus.jsonl"
"""File of a BEIR folder that an index is built from."""


class GateFailed(RetrieveError):
    """A figure misses the threshold that the command line sets for it."""

    code = Exit.GATE_FAILED
    kind = "gate_failed"


class Input(NamedTuple):
    """The files of judged queries that the command line names."""

    gold: Path | None
    beir: Path | None
    split: str
    queries: Path | None
    qrels: Path | None

    @property
    def name(self) -> str:
        """Return the name of the judgments in a report."""
        if self.beir:
            return f"{self.beir} ({self.split})"
        return str(self.gold or f"{self.queries}, {self.qrels}")

    def topics(self) -> tuple[list[Topic], list[str]]:
        """Return the judged queries of the one input that is named, and notes on them."""
        from retrieve_cli.evaluation import judgments

        inputs = {"--gold": self.gold, "--beir": self.beir, "--queries": self.queries or self.qrels}
        given = [name for name, path in inputs.items() if path]
        if len(given) != 1 or (given == ["--queries"] and not (self.queries and self.qrels)):
            hint = "--gold FILE, or --beir DIR, or --queries FILE and --qrels FILE"
            raise UsageError("name one set of judged queries", hint=hint)
        if self.gold:
            topics = judgments.read_gold(self.gold)
            return topics, _synthetic(topics)
        if self.beir:
            topics, unjudged = judgments.read_beir(self.beir, self.split)
        elif self.queries and self.qrels:
            topics, unjudged = judgments.read_files(self.queries, self.qrels)
        skipped = figures.count(unjudged, "query without judgments", "queries without judgments")
        return topics, [f"skipped {skipped}"] if unjudged else []


def _synthetic(topics: list[Topic]) -> list[str]:
    made = {topic.synthetic for topic in topics if topic.synthetic}
    if not made:
        return []
    number = sum(bool(topic.synthetic) for topic in topics)
    some = f"{number:,} of {figures.count(len(topics), 'query', 'queries')}"
    are = "is" if number == 1 else "are"
    origin = f"synthetic (made from {', '.join(sorted(made))})"
    return [f"{some} {are} {origin}: use them to compare configurations, not as absolute quality"]


@contextmanager
def corpus_hint(beir: Path | None, shared: Shared) -> Iterator[None]:
    """Add the commands that index a BEIR corpus to errors about an index that is missing or of another collection."""
    from retrieve_cli.evaluation.evaluate import OtherCollection

    if beir is None or not (beir / _CORPUS).is_file():
        yield
        return
    try:
        yield
    except IndexMissing as error:
        raise IndexMissing(error.message, hint=_commands(beir, shared)) from error
    except OtherCollection as error:
        own = Path(f"{beir.resolve().name}-index")
        raise OtherCollection(error.message, hint=_commands(beir, shared._replace(artifacts=own))) from error


def _commands(beir: Path, shared: Shared) -> str:
    build = shlex.join(["retrieve", "build", "--catalog", str(beir / _CORPUS), *shared.place_flags])
    evaluate = shlex.join(["retrieve", "eval", "--beir", str(beir), *shared.place_flags])
    return f"index its corpus first: {build} && {evaluate}"


def opened(shared: Shared, settings: Settings, topics: list[Topic]) -> tuple[Answers, list[Topic]]:
    """Return the index as configured, and the queries; those that name a file or a heading have the records there.

    Raises:
        IndexMissing, IndexCorrupt: there is no index.
    """
    from retrieve_cli.evaluation.passages import RelevantPassages
    from retrieve_cli.evaluation.runs import Answers

    index = Answers.of("as configured", shared.store, settings)
    placed = [topic for topic in topics if topic.names_place and not topic.grades]
    return index, RelevantPassages.of(index.opened.generation, placed).judged(topics) if placed else topics


def baseline(path: Path | None, tolerance: float) -> dict[str, float]:
    """Return the means of an earlier `eval --json`; empty without a path.

    Raises:
        UsageError: the file cannot be read or is something else, or the tolerance is out of range.
    """
    from retrieve_cli.evaluation.gates import check_tolerance

    check_tolerance(tolerance)
    if path is None:
        return {}
    try:
        metrics: Any = json.loads(files.read_text(path, limit=files.MANIFEST, encoding="utf-8-sig"))["metrics"]
        means = {str(name): float(value) for name, value in metrics.items()}
        if not means or not all(map(isfinite, means.values())):
            raise ValueError("it has no metrics")
        return means
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}", hint="check --baseline") from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        hint = "save the output of `retrieve eval --json` to a file and name that file"
        raise UsageError(f"{path} is not a baseline ({quoted(error)})", hint=hint) from error
