"""Dependencies of a record, and theirs in turn, in an order that can be run."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from retrieve_cli.frozen import Frozen
from retrieve_cli.retrieval.graph.graph import Graph

if TYPE_CHECKING:
    from retrieve_cli.contracts import Mask

REQUIRES = ("requires",)


class Prerequisites(Frozen):
    """The transitive needs of some records."""

    order: tuple[int, ...]
    """Rows, each after all that it needs, the asked ones not among them; equal ones by row."""
    cycles: tuple[tuple[int, ...], ...] = ()
    """Rows that need one another, ascending, the given rows included; in `order` they are adjacent, in order of
    rows."""


def prerequisites(
    graph: Graph, rows: Sequence[int], *, kinds: Sequence[str] = REQUIRES, visible: Mask | None = None
) -> Prerequisites:
    """Return the dependencies of `rows` by edges of some kinds, direct or not.

    The order is by Kahn 1962, over the components of Tarjan 1972.

    With `visible`, (records,) bool, invisible records are not needed, and neither are records that only they need.
    """
    needs = _closure(graph, rows, kinds, visible)
    circles = _components(needs)
    circle_of = {row: number for number, circle in enumerate(circles) for row in circle}
    waiting = [{circle_of[need] for row in circle for need in needs[row]} - {at} for at, circle in enumerate(circles)]
    needed_by: list[list[int]] = [[] for _ in circles]
    for number, needed in enumerate(waiting):
        for other in needed:
            needed_by[other].append(number)
    ready = [(circle[0], number) for number, circle in enumerate(circles) if not waiting[number]]
    heapq.heapify(ready)
    order: list[int] = []
    while ready:
        _, number = heapq.heappop(ready)
        order += circles[number]
        for other in needed_by[number]:
            waiting[other].discard(number)
            if not waiting[other]:
                heapq.heappush(ready, (circles[other][0], other))
    asked = set(rows)
    cycles = sorted(tuple(circle) for circle in circles if len(circle) > 1)
    return Prerequisites(tuple(row for row in order if row not in asked), tuple(cycles))


def _closure(graph: Graph, rows: Sequence[int], kinds: Sequence[str], visible: Mask | None) -> dict[int, list[int]]:
    """The direct needs by row, for `rows` and everything that they need."""
    wanted = {number for number, kind in enumerate(graph.kinds) if kind in kinds}
    needs: dict[int, list[int]] = {}
    left = list(rows)
    while left:
        row = left.pop()
        if row in needs:
            continue
        found: set[int] = set()
        for kind, start, end in graph.outward.groups(row):
            if kind in wanted:
                found.update(node for node in graph.outward.edges(start, end)[0] if node < graph.records)
        needs[row] = sorted(found if visible is None else (node for node in found if visible[node]))
        left += needs[row]
    return needs


def _components(needs: Mapping[int, Sequence[int]]) -> list[list[int]]:
    """The strongly connected components, each ascending. Without recursion: a chain may be long."""
    number: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    open_rows: set[int] = set()
    circles: list[list[int]] = []
    for root in sorted(needs):
        trail = [] if root in number else [(root, iter(needs[root]))]
        while trail:
            row, rest = trail[-1]
            if row not in number:
                number[row] = low[row] = len(number)
                stack.append(row)
                open_rows.add(row)
            step = next((need for need in rest if need not in number or need in open_rows), None)
            if step is not None and step not in number:
                trail.append((step, iter(needs[step])))
                continue
            if step is not None:
                low[row] = min(low[row], number[step])
                continue
            trail.pop()
            if trail:
                low[trail[-1][0]] = min(low[trail[-1][0]], low[row])
            if low[row] == number[row]:
                circle = [stack.pop()]
                while circle[-1] != row:
                    circle.append(stack.pop())
                open_rows.difference_update(circle)
                circles.append(sorted(circle))
    return circles
