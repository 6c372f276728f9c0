"""Indexes in engines whose lists are watched, so that a list that an engine leaves short is seen independently of the
index that completes it; and local indexes as references for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from retrieve_cli.assemble.engines import RemoteIndexes, engine
from retrieve_cli.contracts import Candidates, Matching
from retrieve_cli.frozen import replace

if TYPE_CHECKING:
    from retrieve_cli.config.settings import Settings
    from retrieve_cli.contracts import Index, Mask, Rows, TermWeights, Unit, Vectors
    from retrieve_cli.contracts.engines import Capabilities, EngineGeneration, TermCollection, VectorCollection, Within
    from retrieve_cli.storage.engine_record import Entry
    from retrieve_cli.storage.generation import Generation

Lists = list["Rows"]
"""Rows of each list from an engine's index, in the order of the requests."""


class WatchedIndexes(RemoteIndexes):
    """Indexes of a generation in engines. The lists of each are kept until they are taken."""

    def __init__(self, generation: Generation, settings: Settings, *, by_conditions: bool = False) -> None:
        """`by_conditions` sends filters as conditions even if the engine would take the numbers of the rows."""
        super().__init__(generation, settings)
        self._by_conditions = by_conditions
        self._lists: dict[str, Lists] = {}

    def facts(self, name: str) -> Mapping[str, str]:
        """Return facts about an engine, for people. Raises: Unavailable: it cannot be reached."""
        return engine(name, self._settings).describe()

    def lists(self, part: str) -> Lists:
        """Return the lists of a part since the last call."""
        return self._lists.pop(part, [])

    def _capabilities(self, name: str) -> Capabilities:
        found = super()._capabilities(name)
        return found._replace(most_rows=0) if self._by_conditions else found

    def _open(self, name: str, entry: Entry) -> EngineGeneration:
        return cast("EngineGeneration", _WatchedGeneration(super()._open(name, entry), self._lists))


class _WatchedGeneration:
    """A generation in an engine, its collections watched."""

    def __init__(self, opened: EngineGeneration, lists: dict[str, Lists]) -> None:
        self._opened = opened
        self._lists = lists

    def __getattr__(self, name: str) -> Any:
        return getattr(self._opened, name)

    def vectors(self, part: str) -> VectorCollection:
        return cast("VectorCollection", _WatchedVectors(self._opened.vectors(part), part, self._lists))

    def terms(self, part: str) -> TermCollection:
        return cast("TermCollection", _WatchedTerms(self._opened.terms(part), part, self._lists))


class _WatchedVectors:
    """A collection of vectors; exact searches, which complete lists, are not watched."""

    def __init__(self, collection: VectorCollection, part: str, lists: dict[str, Lists]) -> None:
        self._collection = collection
        self._part = part
        self._lists = lists

    def nearest(
        self, query: Vectors, limit: int, *, within: Within | None = None, exact: bool = False
    ) -> tuple[Rows, Vectors]:
        rows, scores = self._collection.nearest(query, limit, within=within, exact=exact)
        if not exact:
            self._lists.setdefault(self._part, []).append(rows)
        return rows, scores

    def __getattr__(self, name: str) -> Any:
        return getattr(self._collection, name)


class _WatchedTerms:
    """A collection of term weights."""

    def __init__(self, collection: TermCollection, part: str, lists: dict[str, Lists]) -> None:
        self._collection = collection
        self._part = part
        self._lists = lists

    def nearest(self, query: TermWeights, limit: int, *, within: Within | None = None) -> tuple[Rows, Vectors]:
        rows, scores = self._collection.nearest(query, limit, within=within)
        self._lists.setdefault(self._part, []).append(rows)
        return rows, scores

    def __getattr__(self, name: str) -> Any:
        return getattr(self._collection, name)


class ExactIndex:
    """The answers that an index would give without its graph: every row is scored."""

    def __init__(self, index: Index[Any]) -> None:
        self._index = index
        self.unit: Unit = index.unit

    def __len__(self) -> int:
        return len(self._index)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._index, name)

    def search(
        self,
        queries: Sequence[Any],
        *,
        depth: int,
        starts: Rows | None = None,
        allowed: Sequence[Mask | None] | None = None,
        visible: Sequence[Mask | None] | None = None,
    ) -> list[Candidates]:
        """Return the best rows, or groups, of all."""
        none = [None] * len(queries)
        limits = zip(queries, allowed or none, visible or none, strict=True)
        return [self._find(*each, depth=depth, starts=starts) for each in limits]

    def score(self, query: Any, rows: Rows, *, starts: Rows | None = None) -> Vectors:
        """Return the query's score for each of `rows`, or groups."""
        return self._index.score(query, rows, starts=starts)

    def _find(
        self, query: Any, allowed: Mask | None, visible: Mask | None, *, depth: int, starts: Rows | None
    ) -> Candidates:
        every = np.arange(len(self) if starts is None else len(starts) - 1)
        scores = self.score(query, every, starts=starts)
        mean, deviation = float(scores.mean(dtype=np.float64)), float(scores.std(dtype=np.float64))
        rows = every if allowed is None else np.flatnonzero(allowed)
        kept = rows[np.lexsort((rows, -scores[rows]))[:depth]]
        before = len(every) if visible is None else int(np.count_nonzero(visible))
        return Candidates(kept, scores[kept], mean, deviation, before, len(rows))


class _SameSpread:
    """Lists of a local index with the mean and the deviation that an index in an engine has for the same queries."""

    def __init__(self, local: Index[Any], remote: Index[Any]) -> None:
        self._local = local
        self._remote = remote
        self.unit: Unit = local.unit

    def __len__(self) -> int:
        return len(self._local)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._local, name)

    def search(self, queries: Sequence[Any], **limits: Any) -> list[Candidates]:
        """Return what the local index returns, but for mean and deviation."""
        pairs = zip(self._local.search(queries, **limits), self._remote.search(queries, **limits), strict=True)
        return [replace(ours, mean=theirs.mean, deviation=theirs.deviation) for ours, theirs in pairs]

    def score(self, query: Any, rows: Rows, *, starts: Rows | None = None) -> Vectors:
        """Return the local index's score for each of `rows`, or groups."""
        return self._local.score(query, rows, starts=starts)


class _MatchingWithSameSpread(_SameSpread):
    """The same over an index whose rows match by a term."""

    def matching(self, query: Any, *, starts: Rows | None = None, allowed: Mask | None = None) -> Rows:
        """Return all rows, or groups, that match."""
        rows: Rows = self._local.matching(query, starts=starts, allowed=allowed)  # type: ignore[attr-defined]
        return rows


def with_same_spread(local: Index[Any], remote: Index[Any]) -> Index[Any]:
    """Return a local index whose scores are normalised in a fusion as those of the index in an engine are."""
    kind = _MatchingWithSameSpread if isinstance(local, Matching) else _SameSpread
    return kind(local, remote)
