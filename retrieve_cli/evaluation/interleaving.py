"""Team-draft interleaving: two rankings as one list, whose relevant results count for the ranking they came from.

Radlinski, Kurup, Joachims 2008, "How does clickthrough data reflect retrieval quality?"
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Literal, NamedTuple

Team = Literal["a", "b"]


class Pick(NamedTuple):
    """A result of the list, and the ranking that picked it."""

    id: str
    team: Team


class Preference(NamedTuple):
    """Queries of which the relevant results came more often from one ranking, and the chance of such a difference."""

    a: int
    b: int
    tied: int
    p: float | None
    """Two-sided p of the sign test over queries; None if no query prefers either."""


def team_draft(first: Sequence[str], second: Sequence[str], *, most: int, seed: str) -> list[Pick]:
    """Return at most `most` results of two rankings. In each round, each ranking picks its best result that is not on
    the list yet; a coin toss, seeded by `seed`, decides which one picks first."""
    rankings: dict[Team, Sequence[str]] = {"a": first, "b": second}
    picks: list[Pick] = []
    taken: set[str] = set()
    places: dict[Team, int] = {"a": 0, "b": 0}
    for round_ in range(most):
        heads = sha256(f"{seed}\0{round_}".encode("utf-8", "replace")).digest()[0] % 2 == 0
        order: tuple[Team, Team] = ("a", "b") if heads else ("b", "a")
        for team in order:
            ranking, place = rankings[team], places[team]
            while place < len(ranking) and ranking[place] in taken:
                place += 1
            places[team] = place
            if place < len(ranking) and len(picks) < most:
                taken.add(ranking[place])
                picks.append(Pick(ranking[place], team))
    return picks


def preference(won: Iterable[tuple[int, int]]) -> Preference:
    """Return which ranking the queries prefer: `won` has the relevant results of both for each query.

    The sign test is the randomisation test on differences that are 1, -1 or 0.
    """
    signs = [(first > second) - (first < second) for first, second in won]
    wins, losses = signs.count(1), signs.count(-1)
    chance = None
    if wins or losses:
        import numpy as np

        from retrieve_cli.evaluation.statistics import randomisation

        chance = randomisation(np.array(signs, np.float64))
    return Preference(wins, losses, signs.count(0), chance)
