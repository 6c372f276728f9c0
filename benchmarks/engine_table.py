"""The table and the plot of `make bench-engines`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

SIDES = {"engine": "through it", "own": "its own top 10", "local": "local files"}


@dataclass(frozen=True)
class Figure:
    """Figures of one kind of query through one engine."""

    engine: str
    size: int
    kind: str
    facts: str
    """The server, and its own search."""
    times: Mapping[str, Sequence[float]]
    """Milliseconds of each query by side."""
    round_trips: float
    kilobytes: float
    shared: float
    """Share of the local ten results that are found."""

    def percentile(self, side: str, share: int) -> float | None:
        """Return milliseconds that a share of the queries, in percent, does not exceed; None if not measured."""
        return float(np.percentile(self.times[side], share)) if side in self.times else None

    def __str__(self) -> str:
        return " | ".join(_cells(self))


def lines(figures: Sequence[Figure]) -> Iterator[str]:
    """Yield the table in Markdown, and the servers."""
    yield (
        "| engine | records | query | ms: p50 | p95 | round trips | kB | top 10 as local"
        " | local files: p50 | p95 | own top 10: p50 | p95 |"
    )
    yield "|---|---:|---|" + "---:|" * 9
    for figure in sorted(figures, key=lambda each: each.engine):
        yield f"| {' | '.join(_cells(figure))} |"
    yield ""
    for name, facts in {figure.engine: figure.facts for figure in figures}.items():
        yield f"- {name}: {facts}"


def plot(figures: Sequence[Figure], path: Path) -> None:
    """Draw the medians of each kind of query by number of records."""
    import matplotlib as mpl

    mpl.use("svg")
    import matplotlib.pyplot as plt

    mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "engines", "font.size": 9})
    kinds = list(dict.fromkeys(figure.kind for figure in figures))
    drawing, axes = plt.subplots(1, len(kinds), figsize=(3.2 * len(kinds), 3.2), sharey=True, squeeze=False)
    for axis, kind in zip(axes[0], kinds, strict=True):
        axis.set(title=kind, xlabel="records", xscale="log", yscale="log")
        for label, points, style in _series([figure for figure in figures if figure.kind == kind]):
            axis.plot(*zip(*sorted(points.items()), strict=True), style, label=label, markersize=4)
        axis.grid(alpha=0.3)
    axes[0][0].set_ylabel("ms, p50")
    handles = {label: line for axis in axes[0] for line, label in zip(*axis.get_legend_handles_labels(), strict=True)}
    drawing.legend(handles.values(), handles, loc="outside lower center", ncols=3, frameon=False)
    drawing.tight_layout(rect=(0, 0.06 + 0.06 * (len(handles) // 3), 1, 1))
    drawing.savefig(path, metadata={"Date": None})


def _series(figures: Sequence[Figure]) -> Iterator[tuple[str, dict[int, float], str]]:
    """Yield the lines of one kind of query: label, milliseconds by size, and style."""
    styles = {"engine": "o-", "own": "s:"}
    for name in dict.fromkeys(figure.engine for figure in figures):
        for side, style in styles.items():
            points = {
                figure.size: value
                for figure in figures
                if figure.engine == name and (value := figure.percentile(side, 50)) is not None
            }
            if points:
                yield f"{name}, {SIDES[side]}", points, style
    local = {figure.size: value for figure in figures if (value := figure.percentile("local", 50)) is not None}
    yield SIDES["local"], local, "k^--"


def _cells(figure: Figure) -> list[str]:
    sides = ("engine", "local", "own")
    engine, local, own = ([_digits(figure.percentile(side, share)) for share in (50, 95)] for side in sides)
    head = [figure.engine, f"{figure.size:,}", figure.kind, *engine]
    return [*head, f"{figure.round_trips:.1f}", _digits(figure.kilobytes), f"{figure.shared:.1%}", *local, *own]


def _digits(value: float | None) -> str:
    """Three significant digits."""
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
