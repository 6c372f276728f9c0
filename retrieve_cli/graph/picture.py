"""The neighbourhood of a node as text for graphviz."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from retrieve_cli.errors import printable
from retrieve_cli.graph.graph import Graph

MOST_NODES = 60
"""Nodes of a picture; more cannot be read."""


def to_dot(
    graph: Graph, node: int, *, radius: int = 1, record: Callable[[int], str] = str, max_nodes: int = MOST_NODES
) -> str:
    """Nodes within `radius` edges of a node, in either direction: records as boxes, all else as ellipses.

    At most `max_nodes` nodes, the nearest, and of those equally near the ones with the heaviest edges.
    """
    shown = _around(graph, node, radius, max_nodes)
    lines = [_node(graph, each, record, bold=each == node) for each in sorted(shown)]
    lines += _edges(graph, shown, max_nodes)
    return "\n".join(["digraph neighbourhood {", "  rankdir=LR;", *lines, "}"]) + "\n"


def _around(graph: Graph, node: int, radius: int, most: int) -> set[int]:
    shown, border = {node}, [node]
    for _ in range(radius):
        found: dict[int, float] = {}
        for each in border:
            for near in graph.neighbours(each, limit=most):
                if near.node not in shown:
                    found[near.node] = max(near.weight, found.get(near.node, 0.0))
        border = sorted(found, key=lambda other: (-found[other], other))[: most - len(shown)]
        shown.update(border)
    return shown


def _node(graph: Graph, node: int, record: Callable[[int], str], *, bold: bool) -> str:
    shape = "box" if node < graph.records else "ellipse"
    style = ', style="bold"' if bold else ""
    return f'  n{node} [label="{_quoted(graph.label(node, record))}", shape={shape}{style}];'


def _edges(graph: Graph, shown: set[int], limit: int) -> Iterator[str]:
    """The edges among what is shown. From a hub only its heaviest are looked at; the other end may show the rest."""
    found = set()
    for node in shown:
        for near in graph.neighbours(node, limit=limit):
            if near.node in shown:
                ends = (node, near.node) if near.forward else (near.node, node)
                found.add((*ends, near.kind, near.weight))
    for source, target, kind, weight in sorted(found):
        weighed = "" if weight == 1 else f" {weight:g}"
        yield f'  n{source} -> n{target} [label="{_quoted(kind)}{weighed}"];'


def _quoted(text: str) -> str:
    """Text within the quotes of DOT: its backslashes and quotes escaped, on one line."""
    return printable(" ".join(text.replace("\\", "\\\\").replace('"', '\\"').split()))
