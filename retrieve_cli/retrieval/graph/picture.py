"""The neighbourhood of a node as a picture: rings by distance in SVG or PNG, or text for graphviz."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Mapping
from math import cos, pi, sin
from pathlib import Path
from typing import Any

from retrieve_cli.errors import Unavailable, UsageError, printable
from retrieve_cli.retrieval.graph.graph import Graph

MOST_NODES = 60
"""Nodes of a picture; more cannot be read."""


def to_dot(
    graph: Graph, node: int, *, radius: int = 1, record: Callable[[int], str] = str, max_nodes: int = MOST_NODES
) -> str:
    """Nodes within `radius` edges of a node, in either direction: records as boxes, all else as ellipses.

    At most `max_nodes` nodes, the nearest, and of those equally near the ones with the heaviest edges.
    """
    shown = {each for ring in rings(graph, node, radius, most=max_nodes) for each in ring}
    lines = ["digraph neighbourhood {", "  rankdir=LR;"]
    for each in sorted(shown):
        shape = "box" if each < graph.records else "ellipse"
        style = ', style="bold"' if each == node else ""
        lines.append(f'  n{each} [label="{_quoted(graph.label(each, record))}", shape={shape}{style}];')
    for source, target, kind, weight in _weighted_edges(graph, shown, max_nodes):
        weighed = "" if weight == 1 else f" {weight:g}"
        lines.append(f'  n{source} -> n{target} [label="{_quoted(kind)}{weighed}"];')
    return "\n".join([*lines, "}"]) + "\n"


def _weighted_edges(graph: Graph, shown: Collection[int], limit: int) -> list[tuple[int, int, str, float]]:
    """The edges among some nodes. Of a hub only the heaviest edges are read; the other ends may add the rest."""
    found = set()
    for node in shown:
        for near in graph.neighbours(node, limit=limit):
            if near.node in shown:
                ends = (node, near.node) if near.forward else (near.node, node)
                found.add((*ends, near.kind, near.weight))
    return sorted(found)


def _quoted(text: str) -> str:
    """Text within the quotes of DOT: its backslashes and quotes escaped, on one line."""
    return printable(" ".join(text.replace("\\", "\\\\").replace('"', '\\"').split()))


_COLOURS = ("#1f5a99", "#b3541e", "#3c7a3c", "#7a3c77", "#8a6d1d", "#4d4d4d")
_LONGEST = 24
"""Characters of a label."""


def draw(graph: Graph, node: int, path: Path, *, radius: int, record: Callable[[int], str]) -> int:
    """Draw the nodes within `radius` edges of a node, the nearest first; return how many are shown.

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
    boxes = {
        each: _box(axes, point, _short(graph.label(each, record)), record=each < graph.records, first=each == node)
        for each, point in points.items()
    }
    colours = _arrows(axes, graph, points, boxes)
    lines = [Line2D([], [], color=colours[kind], label=f" {printable(kind)}") for kind in sorted(colours)]
    if lines:
        axes.legend(handles=lines, loc="lower right", frameon=False, fontsize=9)
    reach = max(1.0, len(circles) - 1.0) + 0.4
    axes.set_xlim(-reach * 1.25, reach * 1.25)
    axes.set_ylim(-reach, reach)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # on characters of names that the font lacks
            figure.savefig(path)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}", hint="name another file") from error
    return len(points)


def _box(axes: Any, point: tuple[float, float], label: str, *, record: bool, first: bool) -> Any:
    shape = "round,pad=0.35" if record else "round4,pad=0.35"
    box = {"boxstyle": shape, "fc": "#fff3d6" if first else "white", "ec": "#555555", "lw": 0.9}
    return axes.text(*point, label, ha="center", va="center", fontsize=9, bbox=box, parse_math=False).get_bbox_patch()


def _arrows(
    axes: Any, graph: Graph, points: Mapping[int, tuple[float, float]], boxes: Mapping[int, Any]
) -> dict[str, str]:
    """Draw the edges, and return the colour of each kind that has one."""
    colours = {kind: _COLOURS[at % len(_COLOURS)] for at, kind in enumerate(graph.kinds)}
    used = {}
    for source, target, kind in edges_among(graph, points):
        used[kind] = colours[kind]
        arrow = {
            "arrowstyle": "-|>",
            "color": colours[kind],
            "patchA": boxes[source],
            "patchB": boxes[target],
            "connectionstyle": "arc3,rad=0.06",  # there and back beside each other
            "lw": 1.1,
        }
        axes.annotate("", xy=points[target], xytext=points[source], arrowprops=arrow, zorder=4)
    return used


def _short(label: str) -> str:
    shown = printable(label)
    return shown if len(shown) <= _LONGEST else shown[: _LONGEST - 1] + "…"


MOST = 40
"""Nodes that can still be read."""


def rings(
    graph: Graph, node: int, radius: int, *, most: int = MOST, visible: Callable[[int], bool] | None = None
) -> list[list[int]]:
    """Return the nodes at each distance, those with the heaviest edges first, at most so many in all.

    A node for which `visible` is false is not there, and neither is what lies behind it.
    """
    found, shown = [[node]], {node}
    for _ in range(radius):
        weights: dict[int, float] = {}
        for end in found[-1]:
            for near in graph.neighbours(end, limit=None if visible else most):
                if near.node not in shown and (visible is None or visible(near.node)):
                    weights[near.node] = max(near.weight, weights.get(near.node, 0.0))
        ring = sorted(weights, key=lambda other: (-weights[other], other))[: most - len(shown)]
        if not ring:
            break
        shown.update(ring)
        found.append(ring)
    return found


def places(rings: list[list[int]]) -> dict[int, tuple[float, float]]:
    """Return the places of the nodes: rings around the first, evenly, each turned a little against the one within."""
    found = {rings[0][0]: (0.0, 0.0)}
    for distance, ring in enumerate(rings[1:], 1):
        for place, node in enumerate(ring):
            angle = 2 * pi * (place + 0.5 * (distance % 2)) / len(ring)
            found[node] = (1.2 * distance * cos(angle), distance * sin(angle))
    return found


def edges_among(graph: Graph, shown: Mapping[int, object]) -> list[tuple[int, int, str]]:
    """Return the edges among some nodes: source, target and kind; of each node and kind the `MOST` heaviest."""
    return [(source, target, kind) for source, target, kind, _ in _weighted_edges(graph, shown, MOST)]
