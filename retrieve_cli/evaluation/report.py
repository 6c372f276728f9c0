"""The report: one HTML page with the tables and plots of an evaluation, which loads nothing else.

Everything a user wrote (queries, ids, names) is escaped by the template and cleaned. Plots are SVG images within the
page, which name runs by letters. Without its date the page is the same for the same evaluation, byte for byte.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib.resources import files
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from retrieve_cli.config.settings import Settings
from retrieve_cli.contracts.terms import figures
from retrieve_cli.errors import printable
from retrieve_cli.evaluation.evaluate import Evaluation
from retrieve_cli.evaluation.judgments import Topic
from retrieve_cli.evaluation.measures import Points, curves, package_of_eval
from retrieve_cli.evaluation.statistics import Difference
from retrieve_cli.ingest.changes import flat
from retrieve_cli.output.run_account import configuration
from retrieve_cli.storage import durable
from retrieve_cli.version import __version__

if TYPE_CHECKING:
    from retrieve_cli.storage.generation import Generation

_WORST, _TOP, _RELEVANT, _NOTES = 10, 5, 20, 20
"""Queries with their hits, hits of each in each run, relevant records of each, and notes that are shown."""
_COLOURS = ("#1a1a1a", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
"""Distinguishable in every common colour blindness (Okabe & Ito 2008); the baseline is black."""


def about(
    generation: Generation | None, settings: Settings, *, runs: Sequence[str], command: str, judgments: str
) -> dict[str, list[str]]:
    """Return the facts that a reader needs to repeat an evaluation that ends now, lines by title."""
    own, default = (flat(configuration(each)) for each in (settings, Settings()))
    changed = [f"{key}: {value}" for key, value in own.items() if default.get(key) != value]
    return {
        "Collection": list(runs if generation is None else _collection(generation)),
        "Judgments": [judgments],
        "Date": [f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"],
        "Version": [f"retrieve {__version__}"],
        "Command": [command],
        "Settings": changed or ["the defaults"],
    }


def _collection(generation: Generation) -> Iterator[str]:
    for source in generation.manifest.sources:
        noun = "document" if source.kind == "docs" else "record"
        yield f"{source.name}: {figures.count(source.records, noun)}"
    yield figures.count(generation.chunk_size, "chunk")


def write(
    folder: Path,
    *,
    runs: Mapping[str, Evaluation],
    topics: Sequence[Topic],
    compared: Sequence[Difference],
    describe: Callable[[str], str | None],
    notes: Sequence[str],
    origin: Mapping[str, Sequence[str]],
) -> Path:
    """Write the page into the folder, which is created if necessary, and return its path.

    The first run is the baseline; `compared` holds the differences of the others from it, by their names. `describe`
    gives the name of a record, or None; `origin` is what `about` returns.

    Raises:
        Unavailable: a package for reports is not installed.
    """
    evaluations = list(runs.values())
    measure = next((name for name, values in evaluations[0].per_query.items() if values), "")
    values = [each.per_query.get(measure, {}) for each in evaluations]
    letters = dict(zip(runs, map(_letter, range(len(runs))), strict=True))
    text = _template().render(
        runs={letters[name]: (name, run) for name, run in runs.items()},
        letters=letters,
        topics=topics,
        origin=origin,
        notes=[*notes[:_NOTES], *([f"and {len(notes) - _NOTES} more notes"] if len(notes) > _NOTES else [])],
        measure=measure,
        measures=list(dict.fromkeys(name for each in evaluations for name in each.per_query)),
        times=[name for name, time in evaluations[0].latency_ms.items() if time],
        compared=compared,
        plots=list(_plots(dict(zip(letters.values(), evaluations, strict=True)), measure, topics)),
        worst=[_case(topic, evaluations, measure) for topic in _worst(values, topics)],
        top=_TOP,
        describe=describe,
    )
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "index.html"
    durable.replace(path, text)
    return path


def _letter(place: int) -> str:
    """Return the letter that the page uses for a run: A is the baseline."""
    return chr(ord("A") + place % 26) + (str(place // 26) if place >= 26 else "")


def _worst(values: Sequence[Mapping[str, float]], topics: Sequence[Topic]) -> list[Topic]:
    """Return the queries with the largest drops in any run, then those with the lowest values of the baseline."""
    baseline, *others = values
    drops = {
        name: min([0.0, *(each[name] - value for each in others if name in each)]) for name, value in baseline.items()
    }
    measured = [topic for topic in topics if topic.id in baseline]
    return sorted(measured, key=lambda topic: (drops[topic.id], baseline[topic.id]))[:_WORST]


def _case(topic: Topic, evaluations: Sequence[Evaluation], measure: str) -> dict[str, Any]:
    """Return a query with the value of the first measure, the first hits, and the ranks of relevant records by run."""
    hits = [[*each.run.get(topic.id, {}).items()] for each in evaluations]
    ranks = [{name: rank for rank, (name, _) in enumerate(run, 1)} for run in hits]
    relevant = sorted((-grade, name) for name, grade in topic.grades.items() if grade > 0)
    return {
        "topic": topic,
        "measured": [each.per_query.get(measure, {}).get(topic.id) for each in evaluations],
        "hits": [run[:_TOP] for run in hits],
        "relevant": [(name, -grade, [run.get(name) for run in ranks]) for grade, name in relevant[:_RELEVANT]],
    }


def _plots(runs: Mapping[str, Evaluation], measure: str, topics: Sequence[Topic]) -> Iterator[tuple[str, str]]:
    """Yield a title and an image for each plot, with a line for each run: precision by recall and nDCG by rank, if
    topics have grades, and the sorted differences from the baseline, if there are other runs."""
    qrels = {topic.id: topic.grades for topic in topics}
    found = {letter: curves(qrels, each.run) for letter, each in runs.items()}
    drawn = {letter: each for letter, each in found.items() if each is not None}
    if drawn:
        precision = {letter: each.precision for letter, each in drawn.items()}
        yield _plot("Interpolated precision by recall", precision, x="recall", y="precision")
        ndcg = {letter: each.ndcg for letter, each in drawn.items()}
        yield _plot("nDCG@k by rank", ndcg, x="k", y="nDCG@k", xscale="log")
    (_, baseline), *others = ((letter, each.per_query.get(measure, {})) for letter, each in runs.items())
    differences = {}
    for letter, values in others:
        changes = sorted((values[name] - value for name, value in baseline.items() if name in values), reverse=True)
        if changes:
            differences[letter] = list(enumerate(changes, 1))
    if differences:
        title = f"Difference from the baseline in {measure}, query by query"
        yield _plot(title, differences, x="queries, from the largest gain to the largest drop", y="difference", first=1)


def _plot(
    title: str, lines: Mapping[str, Points], *, x: str, y: str, xscale: str = "linear", first: int = 0
) -> tuple[str, str]:
    """Return the title, and a plot with a line for each letter as the address of an image."""
    mpl = package_of_eval("matplotlib", "matplotlib")
    figure_module = package_of_eval("matplotlib.figure", "matplotlib")
    with mpl.rc_context():
        mpl.rcdefaults()  # a user's own settings would change the page
        mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "retrieve", "font.size": 8})
        figure = figure_module.Figure(figsize=(4.8, 3.1), layout="constrained")
        axes = figure.add_subplot()
        for place, (letter, points) in enumerate(lines.items(), first):
            colour = _COLOURS[place % len(_COLOURS)]
            axes.plot(*zip(*points, strict=True), color=colour, label=letter)
        axes.set(xlabel=x, ylabel=y, xscale=xscale)
        axes.grid(color="#d9d9d9", linewidth=0.5)
        if xscale == "log":
            axes.xaxis.set_major_formatter("{x:g}")
        if len(lines) + first > 1:
            axes.legend(frameon=False)
        file = StringIO()
        figure.savefig(file, format="svg", transparent=True, metadata={"Date": None})
    return title, f"data:image/svg+xml;base64,{b64encode(file.getvalue().encode()).decode()}"


def _template() -> Any:
    """Return the template; its output is escaped, and cleaned of invisible characters."""
    jinja2 = package_of_eval("jinja2", "jinja2")
    environment = jinja2.Environment(
        autoescape=True, finalize=_clean, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {
        "count": "{:,}".format,
        "number": lambda value, form=".4f": format(value, form).replace("-", "−"),
        "rounded": figures.rounded,
        "chance": figures.chance,
        "cut": _cut,
    }
    return environment.from_string(files(__package__).joinpath("report.html").read_text("utf-8"))


def _clean(value: Any) -> Any:
    """Return a text without control characters and surrogates, which UTF-8 cannot encode."""
    if type(value) is not str:
        return value
    return printable(value.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))


def _cut(text: str, length: int) -> str:
    """Return the text as one line of at most `length` characters."""
    line = " ".join(text.split())
    return line if len(line) <= length else line[: length - 1].rstrip() + "…"
