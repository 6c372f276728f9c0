"""Rules of a page: edges that were drawn in pieces, or twice, joined to whole lines; and the lines that touch."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from retrieve_cli.documents.pdf.drawn_edges import Edge

SNAP = 3.0
"""Lines that are at most this far apart count as one: double rules stand 2 points apart in TeX, rows 6 and more."""
TOUCH = 3.5
"""Lines that end this close to another one touch it: rules of booktabs leave 2 to 3 points to an upright line."""
MOST_RULES = 1_500
"""Lines of one direction. A page with more of them is a drawing."""


class Rules(NamedTuple):
    """Whole lines of a page, or of a group of lines that touch. Both are sorted by place."""

    horizontal: Sequence[Edge]
    vertical: Sequence[Edge]


def join_edges(edges: Iterable[Edge]) -> list[Edge]:
    """Return the lines that pieces make: the same place within SNAP, gaps of at most TOUCH."""
    lines: list[Edge] = []
    near: list[Edge] = []
    for edge in sorted(edges):
        if near and edge.at - near[0].at > SNAP:
            lines += _join_near(near)
            near = []
        near.append(edge)
    return lines + _join_near(near)


def _join_near(edges: list[Edge]) -> list[Edge]:
    lines: list[Edge] = []
    if not edges:
        return lines
    place = sum(edge.at for edge in edges) / len(edges)
    for _, start, end, drawn in sorted(edges, key=lambda edge: edge.start):
        if lines and start - lines[-1].end <= TOUCH:
            last = lines[-1]
            lines[-1] = Edge(place, last.start, max(last.end, end), last.drawn or drawn)
        else:
            lines.append(Edge(place, start, end, drawn))
    return lines


def touching_groups(rules: Rules) -> list[Rules]:
    """Return the lines in groups that touch one another, in the order of their first level lines."""
    horizontal, vertical = rules
    leaders = list(range(len(horizontal) + len(vertical)))
    places = [line.at for line in vertical]
    for number, line in enumerate(horizontal):
        first = bisect_left(places, line.start - TOUCH)
        last = bisect_right(places, line.end + TOUCH)
        for index in range(first, last):
            if vertical[index].start - TOUCH <= line.at <= vertical[index].end + TOUCH:
                leaders[_leader(leaders, len(horizontal) + index)] = _leader(leaders, number)
    groups: dict[int, tuple[list[Edge], list[Edge]]] = {}
    for number, line in enumerate((*horizontal, *vertical)):
        group = groups.setdefault(_leader(leaders, number), ([], []))
        group[number >= len(horizontal)].append(line)
    return [Rules(*group) for group in groups.values()]


def _leader(leaders: list[int], number: int) -> int:
    while leaders[number] != number:
        leaders[number] = leaders[leaders[number]]
        number = leaders[number]
    return number
