"""Contents of the report's page: its origin, the measures of each run, differences, and the worst queries.

Everything a user wrote (queries, ids, names) is escaped by the template and cleaned, at any place.
Without its date the page is the same, byte for byte, for the same evaluation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib.resources import files
from math import inf, isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

from retrieve_cli.config.settings import Settings
from retrieve_cli.contracts import Json
from retrieve_cli.contracts.terms import figures
from retrieve_cli.errors import Unavailable, printable
from retrieve_cli.evaluation.evaluate import Evaluation
from retrieve_cli.evaluation.judgments import Topic
from retrieve_cli.evaluation.measures import Points, curves, ranked
from retrieve_cli.evaluation.report import charts
from retrieve_cli.evaluation.statistics import SIGNIFICANT, Difference
from retrieve_cli.frozen import Frozen
from retrieve_cli.ingest.changes import flat
from retrieve_cli.output.run_account import configuration
from retrieve_cli.storage import durable
from retrieve_cli.version import __version__

if TYPE_CHECKING:
    from jinja2 import Environment

    from retrieve_cli.storage.generation import Generation


class About(Frozen):
    """Facts that a reader needs to repeat an evaluation."""

    collection: Sequence[str]
    """The sources of the index with their sizes, or the run files if there is no index."""
    judgments: str
    date: str
    version: str
    command: str
    changed: Mapping[str, Json]
    """Settings by `section.key` that are not the defaults."""
    settings: Mapping[str, Json]
    """Settings that answers depend on, by `section.key`."""

    @classmethod
    def of(cls, generation: Generation | None, settings: Settings, *, runs: Sequence[str], **asked: str) -> About:
        """Return the origin of an evaluation that ends now; `asked` are its `command` and its `judgments`."""
        own, default = (flat(configuration(each)) for each in (settings, Settings()))
        return cls(
            collection=runs if generation is None else list(_collection(generation)),
            date=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
            version=__version__,
            changed={key: value for key, value in own.items() if default.get(key) != value},
            settings=own,
            **asked,
        )


def _collection(generation: Generation) -> Iterator[str]:
    for source in generation.manifest.sources:
        noun = "document" if source.kind == "docs" else "record"
        yield f"{source.name}: {figures.count(source.records, noun)}"
    yield figures.count(len(generation.chunks), "chunk")


_WORST, _TOP, _RELEVANT = 10, 5, 20
"""Queries with their hits, hits of each in each run, relevant records of each that are shown."""
_EXTREMES, _NOTES = 3, 20
"""Queries named beside a plot of differences, at either end; notes in all."""
_TIED = 1e-9
"""Differences up to this size count as ties, as in the counts of won and lost."""
_STAGES = {"": "whole", "encode_": "encoding", "search_": "search", "rerank_": "reranking"}


class NamedEvaluation(Frozen):
    """A run under its name on the page."""

    name: str
    evaluation: Evaluation


class _Hit(Frozen):
    id: str
    name: str | None
    score: float
    grade: int | None
    """Grade of the record for this query; None if it is not judged."""


class _Answer(Frozen):
    """Answer of a run to a query."""

    value: float | None
    """Value of the first measure."""
    change: float | None
    """Difference from the baseline."""
    hits: Sequence[_Hit]


class _Sought(Frozen):
    """A relevant record and its rank in each run; None if it is not in a run."""

    id: str
    name: str | None
    grade: int
    ranks: Sequence[int | None]


class _Case(Frozen):
    """A query with a bad answer."""

    topic: Topic
    answers: Sequence[_Answer]
    sought: Sequence[_Sought]
    unlisted: int
    """Number of relevant records that are not shown."""


def write(
    folder: Path,
    *,
    runs: Sequence[NamedEvaluation],
    topics: Sequence[Topic],
    compared: Sequence[Difference],
    describe: Callable[[str], str | None],
    notes: Sequence[str],
    about: About,
) -> Path:
    """Write the page into the folder, which is created if necessary, and return its path.

    The first run is the baseline; `compared` holds the differences of the others from it, by their names. `describe`
    gives the name of a record, or None.

    Raises:
        Unavailable: a package for reports is not installed.
    """
    template = _environment().from_string(files(__package__).joinpath("page.html").read_text("utf-8"))
    evaluations = {_letter(at): run.evaluation for at, run in enumerate(runs)}
    measure = next((name for name, values in runs[0].evaluation.per_query.items() if values), None)
    values = {letter: each.per_query.get(measure or "", {}) for letter, each in evaluations.items()}
    changes = {
        letter: {name: own[name] - value for name, value in values[_letter(0)].items() if name in own}
        for letter, own in values.items()
    }
    worst, lost = _worst(measure, runs[0].evaluation, changes, topics)
    text = template.render(
        runs={_letter(at): run for at, run in enumerate(runs)},
        topics=topics,
        about=about,
        notes=_notes(runs, notes),
        measure=measure,
        measures=list(dict.fromkeys(name for each in evaluations.values() for name in each.per_query)),
        stages=_STAGES if any(each.latency_ms for each in evaluations.values()) else {},
        compared={_letter(at): [each for each in compared if each.run == run.name] for at, run in enumerate(runs)},
        primary=sum(each.primary for each in compared),
        comparisons=len(compared),
        bound=SIGNIFICANT,
        plots=_plots(measure, changes, topics),
        curves=_curves(evaluations, topics),
        histograms=_histograms(evaluations),
        worst=[_case(topic, evaluations, changes, measure, describe) for topic in worst],
        lost=lost,
        top=_TOP,
    )
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "index.html"
    durable.replace(path, text)
    return path


def verdict(found: Difference) -> str:
    """Return the conclusion in words; empty for a measure that is not primary."""
    if not (found.wins.won or found.wins.lost):
        return "no query differs"
    if not found.primary:
        return "information"
    return "significant" if found.significant else "not significant"


def _letter(at: int) -> str:
    """Return the letter that the page uses for a run: A is the baseline."""
    return chr(ord("A") + at % 26) + (str(at // 26) if at >= 26 else "")


def _notes(runs: Sequence[NamedEvaluation], notes: Sequence[str]) -> list[str]:
    """Return each note once, prefixed with the letter of a further run, and at most `_NOTES` of them."""
    found = list(dict.fromkeys([*notes, *runs[0].evaluation.notes]))
    for at, run in enumerate(runs):
        found += [f"{_letter(at)}: {note}" for note in run.evaluation.notes if note not in found]
    left = len(found) - _NOTES
    return found if left <= 0 else [*found[:_NOTES], f"and {left} more notes of this kind"]


# ------------------------------------------------------------------------------------------------ charts


def _plots(
    measure: str | None, changes: Mapping[str, Mapping[str, float]], topics: Sequence[Topic]
) -> dict[str, dict[str, Any]]:
    """Return the chart of each further run with the measure, and the queries at either end."""
    further = {letter: each for letter, each in list(changes.items())[1:] if each}
    # One scale for all: a small difference in one plot must not look like a large one in another.
    reach = max((abs(value) for each in further.values() for value in each.values()), default=0.0) * 1.05 or 1.0
    texts = {topic.id: topic.text for topic in topics}
    found = {}
    for letter, each in further.items():
        ordered = sorted(each.items(), key=lambda change: change[1])
        lost = [(texts.get(name, name), change) for name, change in ordered if change < -_TIED]
        ordered = sorted(each.items(), key=lambda change: -change[1])
        won = [(texts.get(name, name), change) for name, change in ordered if change > _TIED]
        chart = charts.differences(list(each.values()), reach=reach, measure=str(measure), letter=letter)
        ends = [("Largest gains", won[:_EXTREMES]), ("Largest drops", lost[:_EXTREMES])]
        found[letter] = {"chart": chart, "ends": ends, "won": len(won), "lost": len(lost), "queries": len(each)}
    return found


def _curves(evaluations: Mapping[str, Evaluation], topics: Sequence[Topic]) -> dict[str, Any] | None:
    """Return both curves with their points and the lines of their legend; None if no topic has grades."""
    qrels = {topic.id: topic.grades for topic in topics}
    found = {letter: curves(qrels, each.run) for letter, each in evaluations.items()}
    drawn = {letter: each for letter, each in found.items() if each is not None}
    if not drawn:
        return None
    lines = [
        ("precision", "recall", {letter: each.precision for letter, each in drawn.items()}),
        ("nDCG", "k", {letter: each.ndcg for letter, each in drawn.items()}),
    ]
    return {
        "queries": next(iter(drawn.values())).queries,
        "depths": {letter: each.depth for letter, each in drawn.items()},
        "swatches": dict(zip(drawn, charts.swatches(len(drawn)), strict=True)),
        "charts": [charts.precision_recall(lines[0][2]), charts.ndcg(lines[1][2])],
        "points": [(what, axis, _rows(by_letter)) for what, axis, by_letter in lines],
    }


def _rows(lines: Mapping[str, Points]) -> dict[float, list[float | None]]:
    """Return the points of all lines by x; None if a line has no point there."""
    values = [dict(points) for points in lines.values()]
    return {x: [each.get(x) for each in values] for x in sorted({x for each in values for x in each})}


def _histograms(evaluations: Mapping[str, Evaluation]) -> dict[str, str]:
    """Return a chart for each run with latencies, all on one axis."""
    timed = {letter: each for letter, each in evaluations.items() if each.samples_ms.get("total")}
    if not timed:
        return {}
    edges = charts.bins([each.samples_ms["total"] for each in timed.values()])
    return {
        letter: charts.histogram(each.samples_ms["total"], edges=edges, times=each.latency_ms, letter=letter)
        for letter, each in timed.items()
    }


# ----------------------------------------------------------------------------------------------- queries


def _worst(
    measure: str | None, baseline: Evaluation, changes: Mapping[str, Mapping[str, float]], topics: Sequence[Topic]
) -> tuple[list[Topic], bool]:
    """Return the queries with the largest drops in any run and True; without any drop, the worst queries and False."""
    values = {} if measure is None else baseline.per_query[measure]
    loss = {name: min(each[name] for each in changes.values() if name in each) for name in values}
    lost = any(change < -_TIED for change in loss.values())
    order, bound = (loss, -_TIED) if lost else (values, inf)
    found = [topic for topic in topics if order.get(topic.id, inf) < bound]
    return sorted(found, key=lambda topic: order[topic.id])[:_WORST], lost


def _case(
    topic: Topic,
    evaluations: Mapping[str, Evaluation],
    changes: Mapping[str, Mapping[str, float]],
    measure: str | None,
    describe: Callable[[str], str | None],
) -> _Case:
    runs = [ranked(each.run.get(topic.id, {})) for each in evaluations.values()]
    ranks = [{name: rank for rank, (name, _) in enumerate(run, 1)} for run in runs]
    relevant = sorted((-grade, name) for name, grade in topic.grades.items() if grade > 0)
    listed = relevant[:_RELEVANT]
    answers = [
        _Answer(
            value=each.per_query.get(str(measure), {}).get(topic.id),
            change=changes[letter].get(topic.id),
            hits=[_Hit(name, describe(name), score, topic.grades.get(name)) for name, score in run[:_TOP]],
        )
        for (letter, each), run in zip(evaluations.items(), runs, strict=True)
    ]
    sought = [_Sought(name, describe(name), -grade, [found.get(name) for found in ranks]) for grade, name in listed]
    return _Case(topic, answers, sought, unlisted=len(relevant) - len(listed))


# ---------------------------------------------------------------------------------------------- template


def _environment() -> Environment:
    """Return the environment of the template; its output is cleaned, and escaped unless it is a chart."""
    try:
        from jinja2 import Environment, StrictUndefined
        from markupsafe import Markup
    except ImportError as error:
        hint = "pip install 'retrieve-cli[eval]'"
        raise Unavailable("the package jinja2 is not installed", hint=hint) from error
    found = Environment(
        autoescape=True,
        # Control characters go, and surrogates, which UTF-8 cannot encode.
        finalize=lambda value: (
            printable(value.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))
            if type(value) is str
            else value
        ),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    written = {"cut": _cut, "number": _number, "count": "{:,}".format, "chart": Markup, "chance": figures.chance}
    found.filters |= {**written, "verdict": verdict, "finite": isfinite, "rounded": figures.rounded}
    return found


def _cut(text: str, length: int) -> str:
    """Return the text as one line of at most `length` characters."""
    line = " ".join(text.split())
    return line if len(line) <= length else line[: length - 1].rstrip() + "…"


def _number(value: float, form: str = ".4f") -> str:
    return format(value, form).replace("-", "−")
