"""Agreement of two rankings of a query, and of the rankings of many queries: moved ids, and differences of scores."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Generic, NamedTuple, TypeVar

Id = TypeVar("Id", bound=Hashable)


class Moves(NamedTuple, Generic[Id]):
    """Differences of a ranking from an earlier one of the same query. Ranks begin at 1."""

    entered: Mapping[Id, int]
    """New ranks of ids that the earlier ranking does not have."""
    left: Mapping[Id, int]
    """Earlier ranks of ids that the new ranking does not have."""
    moved: Mapping[Id, tuple[int, int]]
    """Earlier and new rank of ids whose rank differs."""
    overlap: float
    """Share of the longer ranking that both have."""
    apart: float
    """Largest difference of the scores of what both have; 0.0 if they share nothing."""

    @classmethod
    def between(cls, before: Mapping[Id, float], after: Mapping[Id, float], *, empty: float = 1.0) -> Moves[Id]:
        """Return the differences of two rankings, each of scores by id, best first.

        `empty` is the overlap of two rankings without anything in them.
        """
        old, new = ({name: rank for rank, name in enumerate(side, 1)} for side in (before, after))
        both = [name for name in old if name in new]
        longest = max(len(old), len(new))
        return cls(
            entered={name: rank for name, rank in new.items() if name not in old},
            left={name: rank for name, rank in old.items() if name not in new},
            moved={name: (old[name], new[name]) for name in both if old[name] != new[name]},
            overlap=len(both) / longest if longest else empty,
            apart=max((abs(after[name] - before[name]) for name in both), default=0.0),
        )

    @property
    def identical(self) -> bool:
        """True if both have the same ids in the same order."""
        return not (self.entered or self.left or self.moved)


class Agreement(NamedTuple):
    """Agreement of the rankings of many queries."""

    queries: int
    overlap: float
    """Mean over queries; 1.0 without any."""
    identical: float
    """Share of the queries with identical rankings."""
    same_scores: float
    """Share of the queries with identical rankings and equal scores."""
    apart: float
    """Largest difference of a score."""

    @classmethod
    def of(cls, pairs: Iterable[Moves[Id]]) -> Agreement:
        """Return the agreement of these pairs of rankings."""
        moves = list(pairs)
        queries = len(moves)
        return cls(
            queries=queries,
            overlap=sum(each.overlap for each in moves) / queries if queries else 1.0,
            identical=sum(each.identical for each in moves) / max(queries, 1),
            same_scores=sum(each.identical and each.apart == 0.0 for each in moves) / max(queries, 1),
            apart=max((each.apart for each in moves), default=0.0),
        )
