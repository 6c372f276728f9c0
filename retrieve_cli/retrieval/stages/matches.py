"""Number of records that the retrievers matched: a by-product of fusion, or counted on demand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np

from retrieve_cli.contracts import Candidates, Matches, Relation
from retrieve_cli.frozen import Frozen

if TYPE_CHECKING:
    from retrieve_cli.contracts import Rows


_READ = 2_000
"""Matches that are read from an engine, at most, to count the matches of several retrievers together."""


class Finds(Protocol):
    """The part of a retriever's account of one query that is counted."""

    @property
    def candidates(self) -> Candidates: ...

    def matched(self) -> Rows: ...


class CountedMatches(Frozen, eq=False):
    """The accounts of one query that are counted together: of its retrievers, its texts, and the passes of a gate.

    A record (or chunk, if these are ranked) is matched if it shares a term with the query, by any retriever that
    compares terms, or is on the list of one that compares vectors: these are near to every query, so that only the
    nearest count, as many as the retriever is asked for. Filters hold, and invisible records do not count. Records that
    later stages drop or add (thresholds, quotas, edges) do not change the number.
    """

    accounts: tuple[Finds, ...]
    known: int | None = None
    """The number of matches, if it was seen on the way."""

    def matched(self) -> int:
        if self.relation == "gte":
            return max(self._counted)
        if self.known is not None:
            return self.known
        return len(_union([each.matched() for each in self.accounts]))

    @property
    def relation(self) -> Relation | None:
        """Relation of the true number to the counted one: an engine counts up to a limit, and many matches of several
        retrievers are not counted together."""
        relations = {each.candidates.relation for each in self.accounts}
        if "gte" in relations or (self.known is None and max(self._counted, default=0) > _READ):
            return "gte"
        return "eq" if "eq" in relations else None

    @property
    def _counted(self) -> list[int]:
        """The numbers of matches that engines counted."""
        return [each.candidates.after for each in self.accounts if each.candidates.relation]

    def rows(self) -> Rows:
        return np.unique(np.concatenate([each.matched() for each in self.accounts]))

    def considered(self) -> int:
        return len(_union([each.candidates.rows for each in self.accounts]))


def together(parts: Sequence[Matches | None]) -> Matches | None:
    """Return what several rankings of one query found as one; None if one of them does not tell."""
    found = [part for part in parts if isinstance(part, CountedMatches)]
    if len(found) < len(parts):
        return None
    return found[0] if len(found) == 1 else CountedMatches(tuple(each for part in found for each in part.accounts))


def _union(lists: Sequence[Rows]) -> set[int] | Rows:
    if len(lists) == 1:
        return lists[0]
    rows = np.sort(np.concatenate(lists))
    return rows[np.append(True, rows[1:] != rows[:-1])] if len(rows) else rows
