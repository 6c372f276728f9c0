"""The neighbourhood of a node: rings by distance, and a flowchart of Mermaid."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple

from retrieve_cli.errors import printable
from retrieve_cli.retrieval.graph.graph import Graph, Node

MOST_NODES = 200
"""Nodes of a flowchart; more cannot be read."""
_COUNTED = 100_000
"""Nodes of a neighbourhood that are counted."""


class Flowchart(NamedTuple):
    """A neighbourhood as text for Mermaid."""

    text: str
    shown: int
    """Number of its nodes."""
    total: int
    """Number of nodes within the radius."""


def flowchart(
    graph: Graph, node: Node, *, radius: int = 1, record: Callable[[int], str] = str, max_nodes: int = MOST_NODES
) -> Flowchart:
    """Return the nodes within `radius` edges of a node, in either direction: records as boxes, all else rounded.

    At most `max_nodes` nodes, the nearest, and of those equally near the ones with the heaviest edges; a comment has
    the number of omitted nodes.
    """
    near = [each for ring in rings(graph, node, radius, most=_COUNTED) for each in ring]
    shown = sorted(near[:max_nodes], key=graph.order)
    numbers = {node: number for number, node in enumerate(shown)}
    lines = ["flowchart LR"]
    if len(near) > len(shown):
        lines.append(f"  %% {len(shown):,} of {len(near):,} nodes, the nearest")
    for end in shown:
        opening, closing = ("[", "]") if isinstance(end, int) else ("(", ")")
        lines.append(f'  n{numbers[end]}{opening}"{_escaped(graph.label(end, record))}"{closing}')
    lines.append(f"  style n{numbers[node]} stroke-width:3px")
    for source, target, kind, weight in edges_among(graph, shown, most=max_nodes):
        weighed = "" if weight == 1 else f" {weight:g}"
        lines.append(f'  n{numbers[source]} -- "{_escaped(kind)}{weighed}" --> n{numbers[target]}')
    return Flowchart("\n".join(lines) + "\n", len(shown), len(near))


def _escaped(text: str) -> str:
    """Return text within the quotes of Mermaid, on one line."""
    line = printable(" ".join(text.split()))
    return "".join(f"#{ord(char)};" if char in '"#<>&`' else char for char in line)


MOST = 40
"""Nodes that can still be read."""


def rings(graph: Graph, node: Node, radius: int, *, most: int = MOST) -> list[list[Node]]:
    """Return the nodes at each distance, those with the heaviest edges first, at most so many in all."""
    found, shown = [[node]], {node}
    for _ in range(radius):
        weights: dict[Node, float] = {}
        for end in found[-1]:
            for near in graph.neighbours(end, limit=most):
                if near.node not in shown:
                    weights[near.node] = max(near.weight, weights.get(near.node, 0.0))
        ring = sorted(weights, key=lambda other: (-weights[other], graph.order(other)))[: most - len(shown)]
        if not ring:
            break
        shown.update(ring)
        found.append(ring)
    return found


def edges_among(graph: Graph, shown: Collection[Node], *, most: int = MOST) -> list[tuple[Node, Node, str, float]]:
    """Return the edges among some nodes: source, target, kind and weight; of each node and kind the `most` heaviest,
    to which the other ends may add."""
    found = set()
    for node in shown:
        for near in graph.neighbours(node, limit=most):
            if near.node in shown:
                ends = (node, near.node) if near.forward else (near.node, node)
                found.add((*ends, near.kind, near.weight))
    return sorted(found, key=lambda edge: (graph.order(edge[0]), graph.order(edge[1]), edge[2:]))
