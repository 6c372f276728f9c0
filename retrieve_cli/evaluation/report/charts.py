"""Charts of the report, each an SVG element within HTML.

No user text is drawn: a chart's font lacks glyphs that a browser has, and their widths. Runs are
distinguished by colour, dash and marker and named by a letter; full names are in the legend, which is HTML.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from html import escape
from io import StringIO
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from retrieve_cli.evaluation.measures import RECALLS, Points, package_of_eval
from retrieve_cli.frozen import Frozen

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_INK, _FAINT = "#1a1a1a", "#d9d9d9"
_WON, _LOST, _TIMES = "#0072b2", "#d55e00", "#9fb3c4"
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7a5195")
"""Distinguishable in every common colour blindness (Okabe & Ito 2008); the last one is added."""
_DASHES = ("--", "-.", (0, (5, 1)), ":")
_MARKERS = ("s", "^", "D", "v", "P")
_HIGH, _LOW = (4.8, 3.1), (4.8, 2.2)
"""Inches, at 72 points each; the page scales them."""
_BINS = 24
_DECADES = 1.3
"""Powers of ten between the fastest and the slowest query above which the axis of time is logarithmic."""
_SETTINGS: Mapping[str, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "retrieve",
    "text.parse_math": False,
    "font.size": 8,
    "axes.edgecolor": _INK,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.labelpad": 5,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "grid.color": _FAINT,
    "grid.linewidth": 0.5,
    "lines.linewidth": 1.4,
    "lines.markersize": 4,
    "legend.frameon": False,
}


class _Style(Frozen):
    colour: str
    dash: Any
    marker: str


def swatches(count: int) -> list[str]:
    """Return a small sample of the line of each run, for a legend."""
    found = []
    for at, style in enumerate(_styles(count)):
        with _figure((0.5, 0.16), layout=None) as figure:
            axes = figure.add_axes((0, 0, 1, 1))
            axes.axis("off")
            axes.set(xlim=(0, 2), ylim=(-1, 1))
            _line(axes, [(0, 0), (1, 0), (2, 0)], style, markevery=[1])
            found.append(_svg(figure, name=f"swatch-{at}"))
    return found


def precision_recall(lines: Mapping[str, Points]) -> str:
    """Return interpolated precision over recall, a line for each letter."""
    with _figure(_HIGH) as figure:
        axes = figure.add_subplot()
        for points, style in zip(lines.values(), _styles(len(lines)), strict=True):
            _line(axes, points, style)
        axes.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), xlabel="recall", ylabel="interpolated precision")
        axes.set_xticks(RECALLS[::2])
        axes.grid()
        return _svg(figure, name="precision", label=f"Interpolated precision over recall. {_said(lines, 'recall')}")


def ndcg(lines: Mapping[str, Points]) -> str:
    """Return nDCG over the cutoff, with steps of equal width, a line for each letter."""
    cutoffs = sorted({x for points in lines.values() for x, _ in points})
    values = [y for points in lines.values() for _, y in points]
    with _figure(_HIGH) as figure:
        axes = figure.add_subplot()
        for points, style in zip(lines.values(), _styles(len(lines)), strict=True):
            _line(axes, [(cutoffs.index(x), y) for x, y in points], style)
        axes.set_xticks(range(len(cutoffs)), [f"{cutoff:g}" for cutoff in cutoffs])
        axes.set(xlim=(-0.2, max(len(cutoffs) - 1, 1) + 0.2), xlabel="cut-off k", ylabel="nDCG@k")
        axes.set_ylim(*_span(min(values), max(values)))
        axes.grid()
        return _svg(figure, name="ndcg", label=f"nDCG over the cut-off. {_said(lines, 'cut-off')}")


def differences(values: Sequence[float], *, reach: float, measure: str, letter: str) -> str:
    """Return the sorted differences of all queries as an area above 0 and one below; y from -reach to reach."""
    heights, edges = _steps(sorted(values, reverse=True))
    with _figure(_LOW) as figure:
        axes = figure.add_subplot()
        for colour, part in ((_WON, np.maximum(heights, 0)), (_LOST, np.minimum(heights, 0))):
            axes.stairs(part, edges, baseline=0, fill=True, color=colour, linewidth=0)
        axes.axhline(0, color=_INK, linewidth=0.6)
        axes.set(xlim=(0, len(values)), ylim=(-reach, reach), ylabel=f"difference in {measure}")
        axes.set_xlabel("queries, from the largest gain to the largest drop")
        axes.xaxis.get_major_locator().set_params(integer=True, nbins=6)
        axes.grid(axis="y")
        label = (
            f"Differences in {measure} of run {letter} from the baseline, from {heights[0]:+.3f} to {heights[-1]:+.3f}"
        )
        return _svg(figure, name=f"differences-{letter}", label=label)


def histogram(samples: Sequence[float], *, edges: Floats, times: Mapping[str, float], letter: str) -> str:
    """Return a histogram of latencies, with the median and the 95th percentile of `times`."""
    p50, p95 = times["p50"], times["p95"]
    counts, _ = np.histogram(samples, edges)
    with _figure(_LOW) as figure:
        axes = figure.add_subplot()
        axes.stairs(counts, edges, fill=True, facecolor=_TIMES, edgecolor="white", linewidth=0.6)
        axes.axvline(p50, color=_INK, linewidth=1.1, linestyle="--", label=f"p50 {_time(p50)}")
        axes.axvline(p95, color=_INK, linewidth=1.1, linestyle=":", label=f"p95 {_time(p95)}")
        if edges[0] > 0:
            _logarithmic(axes)
        axes.set(xlim=(edges[0], edges[-1]), xlabel="latency per query, ms", ylabel="queries")
        axes.yaxis.get_major_locator().set_params(integer=True, nbins=5)
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, borderaxespad=0.2, handlelength=2.5)
        label = f"Time of {len(samples)} single queries of run {letter}: p50 {_time(p50)}, p95 {_time(p95)}"
        return _svg(figure, name=f"latency-{letter}", label=label)


def bins(samples: Sequence[Sequence[float]]) -> Floats:
    """Return the edges for the histograms of all runs: linear from 0, or logarithmic from above 0."""
    every = np.concatenate([np.asarray(each, np.float64) for each in samples])
    low, high = float(every.min()), float(every.max())
    if low > 0 and np.log10(high / low) > _DECADES:
        return np.geomspace(low * 0.9, high * 1.1, _BINS + 1)
    return np.linspace(0, high * 1.05 or 1.0, _BINS + 1)


# ------------------------------------------------------------------------------------------------- parts


def _styles(count: int) -> list[_Style]:
    """Return a style for each run; the baseline, the first run, is black and solid."""
    others = (_Style(_COLOURS[at % 7], _DASHES[at % 4], _MARKERS[at % 5]) for at in range(count - 1))
    return [_Style(_INK, "-", "o"), *others]


def _line(axes: Any, points: Points, style: _Style, **keywords: Any) -> None:
    xs, ys = zip(*points, strict=True)
    axes.plot(xs, ys, color=style.colour, linestyle=style.dash, marker=style.marker,
              markeredgecolor="white", markeredgewidth=0.5, clip_on=False, **keywords)  # fmt: skip


def _said(lines: Mapping[str, Points], axis: str) -> str:
    """Return the ends of each line in words."""
    return "; ".join(
        f"{letter}: {points[0][1]:.3f} at {axis} {points[0][0]:g}, {points[-1][1]:.3f} at {points[-1][0]:g}"
        for letter, points in lines.items()
    )


def _time(milliseconds: float) -> str:
    return f"{milliseconds:.3g} ms" if milliseconds < 100 else f"{milliseconds:.0f} ms"


def _span(low: float, high: float) -> tuple[float, float]:
    """Return bounds of an axis around these values, at least 0.2 apart so that small differences look small."""
    margin = max(0.2 - (high - low), 0.1 * (high - low), 0.04) / 2
    bottom = min(max(np.floor((low - margin) * 20) / 20, 0.0), 0.8)
    top = max(min(np.ceil((high + margin) * 20) / 20, 1.0), bottom + 0.2)
    return float(bottom), float(top)


def _steps(values: Sequence[float]) -> tuple[Floats, Floats]:
    """Return heights and edges of the steps, equal neighbours merged: most queries of most runs are tied."""
    runs = [(value, sum(1 for _ in each)) for value, each in groupby(values)]
    heights = np.array([value for value, _ in runs], np.float64)
    return heights, np.cumsum([0, *(count for _, count in runs)]).astype(np.float64)


def _logarithmic(axes: Any) -> None:
    from matplotlib.ticker import LogLocator, NullFormatter

    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter(NullFormatter())


# --------------------------------------------------------------------------------------------------- svg


@contextmanager
def _figure(size: tuple[float, float], layout: Any = "constrained") -> Iterator[Any]:
    """Yield an empty figure under these settings only: a user's own settings would change the page."""
    mpl = package_of_eval("matplotlib", "matplotlib")
    figures = package_of_eval("matplotlib.figure", "matplotlib")
    with mpl.rc_context():
        mpl.rcdefaults()
        settings: Any = mpl.rcParams
        settings.update(_SETTINGS)
        yield figures.Figure(figsize=size, layout=layout)


def _svg(figure: Any, *, name: str, label: str = "") -> str:
    """Return the figure as an element, in the page's font, without the parts that only a separate file needs.

    Without a label it is decoration.
    """
    file = StringIO()
    figure.patch.set_visible(False)
    metadata = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # on characters that the font lacks, with the names they stand in
        figure.savefig(file, format="svg", transparent=True, metadata=metadata)
    text = file.getvalue()
    body = text[text.index(">", text.index("<svg")) + 1 : text.rindex("</svg>")]
    for start, end in (("<metadata>", "</metadata>"), ("<style", "</style>"), ("<!--", "-->")):
        body = _without(body, start, end)
    body = re.sub(r"font-family:[^;\"]*;? *", "", re.sub(r"font: *([\d.]+px)[^;\"]*", r"font-size: \1", body))
    # A hundredth of a point is finer than any screen, and half the size.
    body = re.sub(r'\bd="[^"]*"', lambda path: " ".join(re.sub(r"(\.\d\d)\d+", r"\1", path[0]).split()), body)
    body = "\n".join(line for text in _unique(body, name).splitlines() if (line := text.strip()))
    width, height = (72 * side for side in figure.get_size_inches())
    said = f'role="img" aria-label="{escape(label)}"' if label else 'aria-hidden="true"'
    return f'<svg class="chart" viewBox="0 0 {width:g} {height:g}" {said}>{body}</svg>'


def _without(text: str, start: str, end: str) -> str:
    """Return the text without the parts from each `start` to the next `end`, both included."""
    kept, at = [], 0
    while (begin := text.find(start, at)) >= 0 and (stop := text.find(end, begin)) >= 0:
        kept.append(text[at:begin])
        at = stop + len(end)
    return "".join(kept) + text[at:]


def _unique(body: str, name: str) -> str:
    """Return the body with ids that are referred to only, prefixed by the chart's name: ids are unique in a page."""
    used = set(re.findall(r'(?:url\(#|href="#)([^")]+)', body))

    def renamed(match: re.Match[str]) -> str:
        return f' id="{name}-{match[1]}"' if match[1] in used else ""

    body = re.sub(r' id="([^"]*)"', renamed, body)
    return re.sub(r'(url\(#|href="#)', rf"\1{name}-", body)
