"""Memory of candidates and reranker scores: the same stages run under many settings without computing them again."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary

import numpy as np

from retrieve_cli.contracts import Candidates, Hit, Query, Unit
from retrieve_cli.frozen import field, replace
from retrieve_cli.retrieval.stages.fuse import CandidatePool, gather
from retrieve_cli.retrieval.stages.fusion import Fusion
from retrieve_cli.retrieval.stages.rerank import Reranker, Separable, believed
from retrieve_cli.retrieval.stages.retrieve import Account, ChunkLayout, Retrieval

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from retrieve_cli.contracts import Mask, Rows, Vectors
    from retrieve_cli.retrieval.stages.fusion import Floats

T = TypeVar("T")
_DEPTHS_KEPT = 2
"""Depths whose results are remembered for a query: the best so far and the one being tried."""


class RetrievalMemory:
    """Candidates of one retriever by text, at the largest depth that is needed."""

    def __init__(self, deepest: int) -> None:
        self.deepest = deepest
        self._known: dict[tuple[str, bytes], _Remembered] = {}
        self._layout: ChunkLayout | None = None

    def layout(self, layout: ChunkLayout) -> ChunkLayout:
        """Return the layout with a cache of chunk ids."""
        if self._layout is None:
            self._layout = replace(layout, chunk_id=lru_cache(maxsize=None)(layout.chunk_id))
        return self._layout

    def accounts(self, retrieval: Retrieval, queries: Sequence[Query]) -> list[_Remembered]:
        """Return the account of each query; the retriever runs once per text and filter."""
        keys = [
            (query.text, b"/".join(map(_digest, (query.records, query.visible, query.own, query.chunks))))
            for query in queries
        ]
        new = {key: query for key, query in zip(keys, queries, strict=True) if key not in self._known}
        if new:
            asked = retrieval.at_depth(max(self.deepest, retrieval.depth)).ask(list(new.values()))
            self._known.update(zip(new, map(_Remembered, asked), strict=True))
        return [self._known[key] for key in keys]


def _digest(mask: Mask | None) -> bytes:
    return b"" if mask is None else hashlib.sha1(mask.tobytes(), usedforsecurity=False).digest()


class _Remembered:
    """Account whose scores are computed once."""

    def __init__(self, account: Account) -> None:
        self.candidates = account.candidates
        self.matched = account.matched
        self._account = account
        self._scores: dict[int, float] = {}
        self._chunks: dict[int, int] = {}
        self.waits = account.waits
        self._cuts: dict[int, _Cut] = {}

    def cut(self, depth: int) -> _Cut:
        """Return the account for a smaller retrieval depth."""
        if depth not in self._cuts:
            self._cuts[depth] = _Cut(self, depth)
            if len(self._cuts) > _DEPTHS_KEPT:
                del self._cuts[next(iter(self._cuts))]
        return self._cuts[depth]

    def score(self, rows: Rows) -> Vectors:
        return np.array(_computed_once(self._scores, rows, self._account.score), np.float32)

    def best_chunks(self, records: Rows) -> Rows:
        return np.array(_computed_once(self._chunks, records, self._account.best_chunks), np.int64)


def _computed_once(known: dict[int, T], rows: Rows, compute: Callable[[Rows], NDArray[Any]]) -> list[T]:
    """Return the value of each row; those that are not known are computed together."""
    asked = rows.tolist()
    if new := [row for row in asked if row not in known]:
        known.update(zip(new, compute(np.array(new, np.int64)).tolist(), strict=True))
    return [known[row] for row in asked]


class _Cut:
    """Remembered account at a smaller retrieval depth."""

    def __init__(self, known: _Remembered, depth: int) -> None:
        found = known.candidates
        self.candidates: Candidates = replace(found, rows=found.rows[:depth], scores=found.scores[:depth])
        self.waits = known.waits
        self.matched = known.matched
        self.score = known.score
        self.best_chunks = known.best_chunks


class RememberedRetrieval:
    """Retriever that runs once for each text, at any depth."""

    def __init__(self, inner: Retrieval, memory: RetrievalMemory) -> None:
        self._inner = inner
        self._memory = memory
        self.name, self.depth, self.waits, self.tally = inner.name, inner.depth, inner.waits, inner.tally
        self.unit: Unit = inner.unit
        self.row_unit: Unit = inner.row_unit
        self.layout = memory.layout(inner.layout)

    def ask(self, queries: Sequence[Query]) -> list[_Cut]:
        return [known.cut(self.depth) for known in self._memory.accounts(self._inner, queries)]

    def at_depth(self, depth: int) -> RememberedRetrieval:
        return RememberedRetrieval(self._inner.at_depth(depth), self._memory)

    def __str__(self) -> str:
        return str(self._inner)


class PoolMemory:
    """Gather function that keeps the pool of accounts while they are remembered."""

    def __init__(self) -> None:
        self._known: WeakKeyDictionary[Account, tuple[tuple[Account, ...], _RememberedPool]] = WeakKeyDictionary()

    def __call__(self, accounts: Sequence[Account]) -> CandidatePool:
        first, *others = accounts
        rest, pool = self._known.get(first, (None, None))
        if pool is None or rest != tuple(others):
            gathered = gather(accounts)
            pool = _RememberedPool(gathered.rows, gathered.ranks, gathered.scores, gathered.lists)
            self._known[first] = (tuple(others), pool)
        return pool


class _RememberedPool(CandidatePool, eq=False):
    """Pool that keeps the contributions of the last formula: weights are the innermost loop of a search."""

    last: dict[tuple[str, str, float], Floats] = field(default_factory=dict)

    def contributions(self, fusion: Fusion) -> Floats:
        key = (fusion.method, fusion.normalization, fusion.rrf_k)
        if key not in self.last:
            self.last.clear()
            self.last[key] = CandidatePool.contributions(self, fusion)
        return self.last[key]


def remembering(reader: Reranker, *, together: bool) -> Reranker:
    """Return a reranker that scores each hit once; one that scores whole lists (`together`), each list once."""
    if together:
        return _Lists(reader)
    return _Hits(reader if isinstance(reader, Separable) else _Pairs(reader))


class _Hits:
    """Reranker that computes each hit once and combines any list of hits."""

    def __init__(self, reader: Separable) -> None:
        self._reader = reader
        self._seen: dict[str, dict[int, Any]] = {}

    @property
    def name(self) -> str:
        return self._reader.name

    def read(self, query: Query, hits: Sequence[Hit]) -> NDArray[np.float64]:
        seen = self._seen.setdefault(query.text, {})
        unseen = [hit for hit in hits if hit.row not in seen]
        if unseen:
            looks = self._reader.look(query, unseen)
            seen.update((hit.row, look) for hit, look in zip(unseen, looks, strict=True))
        return np.asarray(self._reader.scores([seen[hit.row] for hit in hits]), np.float64)


class _Lists:
    """Reranker that scores each list once: a chat model scores a hit in the context of the others."""

    def __init__(self, reader: Reranker) -> None:
        self._reader = reader
        self._read: dict[tuple[str, tuple[int, ...]], NDArray[np.float64]] = {}

    @property
    def name(self) -> str:
        return self._reader.name

    def read(self, query: Query, hits: Sequence[Hit]) -> NDArray[np.float64]:
        key = (query.text, tuple(hit.row for hit in hits))
        if key not in self._read:
            self._read[key] = believed(self._reader.read(query, hits), len(hits), name=self.name)
        return self._read[key]


class _Pairs:
    """Reranker whose scores depend on one query and one hit only."""

    def __init__(self, reader: Reranker) -> None:
        self._reader = reader

    @property
    def name(self) -> str:
        return self._reader.name

    def read(self, query: Query, hits: Sequence[Hit]) -> Any:
        return self._reader.read(query, hits)

    def look(self, query: Query, hits: Sequence[Hit]) -> Sequence[Any]:
        return list(believed(self._reader.read(query, hits), len(hits), name=self.name))

    def scores(self, seen: Sequence[Any]) -> Any:
        return seen
