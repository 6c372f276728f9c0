"""The neighbourhood of a node laid out in rings by distance, for pictures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import cos, pi, sin

from retrieve_cli.graph.graph import Graph

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


def edges_among(graph: Graph, shown: Mapping[int, object], *, most: int | None = MOST) -> list[tuple[int, int, str]]:
    """Return the edges among some nodes: source, target and kind; of each node and kind the `most` heaviest."""
    found = set()
    for node in shown:
        for near in graph.neighbours(node, limit=most):
            if near.node in shown:
                found.add((node, near.node, near.kind) if near.forward else (near.node, node, near.kind))
    return sorted(found)
