"""The neighbourhood of a node as a picture: rings by distance, arrows by kind; SVG or PNG."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

from retrieve_cli.errors import Unavailable, UsageError, printable
from retrieve_cli.graph.graph import Graph
from retrieve_cli.graph.layout import edges_among, places, rings

_COLOURS = ("#1f5a99", "#b3541e", "#3c7a3c", "#7a3c77", "#8a6d1d", "#4d4d4d")
_LONGEST = 24
"""Characters of a label."""


def draw(graph: Graph, node: int, path: Path, *, radius: int, record: Callable[[int], str]) -> int:
    """Draws what lies within `radius` edges of a node, the nearest first; how many nodes are shown.

    Raises:
        UsageError: the file is to be neither SVG nor PNG, or cannot be written.
        Unavailable: matplotlib is not installed.
    """
    if path.suffix.casefold() not in (".svg", ".png"):
        raise UsageError(f"{path} is not a name of a picture that can be drawn", hint="name it .svg or .png")
    try:
        from matplotlib.figure import Figure
        from matplotlib.lines import Line2D
    except ImportError as error:
        hint = "pip install 'retrieve-cli[eval]', or draw it with Graphviz: --dot"
        raise Unavailable("the package matplotlib is not installed", hint=hint) from error

    circles = rings(graph, node, radius)
    points = places(circles)
    figure = Figure(figsize=(11, 8), layout="constrained")
    axes = figure.add_subplot()
    axes.set_axis_off()
    colours = {kind: _COLOURS[at % len(_COLOURS)] for at, kind in enumerate(graph.kinds)}
    boxes = {}
    for each, (x, y) in points.items():
        label = printable(graph.label(each, record))
        short = label if len(label) <= _LONGEST else label[: _LONGEST - 1] + "…"
        shape = "round,pad=0.35" if each < graph.records else "round4,pad=0.35"
        box = {"boxstyle": shape, "fc": "#fff3d6" if each == node else "white", "ec": "#555555", "lw": 0.9}
        text = axes.text(x, y, short, ha="center", va="center", fontsize=9, bbox=box, parse_math=False)
        boxes[each] = text.get_bbox_patch()
    used = set()
    for source, target, kind in edges_among(graph, points):
        used.add(kind)
        arrow = {
            "arrowstyle": "-|>",
            "color": colours[kind],
            "patchA": boxes[source],
            "patchB": boxes[target],
            "connectionstyle": "arc3,rad=0.06",  # there and back beside each other
            "lw": 1.1,
        }
        axes.annotate("", xy=points[target], xytext=points[source], arrowprops=arrow, zorder=4)
    lines = [Line2D([], [], color=colours[kind], label=f" {printable(kind)}") for kind in sorted(used)]
    if lines:
        axes.legend(handles=lines, loc="lower right", frameon=False, fontsize=9)
    reach = max(1.0, len(circles) - 1.0) + 0.4
    axes.set_xlim(-reach * 1.25, reach * 1.25)
    axes.set_ylim(-reach, reach)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # on characters that the font lacks, with the names they stand in
            figure.savefig(path)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}", hint="name another file") from error
    return len(points)
