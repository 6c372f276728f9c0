"""Statistics of scores on generated data: time, size and error as the number of rows grows."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from benchmarks.process import WORK
from benchmarks.statistics_ranking import Spread, error
from retrieve_cli.contracts import TermWeights
from retrieve_cli.retrieval.retrievers.selection import best_of_groups, spread
from retrieve_cli.retrieval.retrievers.splade import SparseWriter
from retrieve_cli.storage import pickles
from retrieve_cli.storage.postings import PostingTable
from retrieve_cli.storage.term_statistics import TermStatistics, posting_statistics
from retrieve_cli.storage.vector_statistics import VectorStatistics, vector_statistics

if TYPE_CHECKING:
    from retrieve_cli.contracts import Rows, Vectors

    _Made: TypeAlias = tuple[Vectors, Rows, Vectors, Rows]
    """Vectors, and terms and weights of all rows of a block one after another, with the end of each row."""

DIM, GROUP, TERMS, QUERIES, QUERY_TERMS = 384, 4, 60, 60, 8
"""Numbers of a vector, rows of a group on average, terms of a row, queries, terms of a query."""
TOPICS = 400
"""Rows of a topic are near each other, and half of their words are its own."""
_BLOCK = 8192


def starts_of(rows: int) -> Rows:
    """Return groups of 1 to 7 rows."""
    sizes = np.random.default_rng(0).integers(1, 2 * GROUP, rows)
    ends = np.cumsum(sizes)
    return np.concatenate([[0], ends[ends < rows], [rows]])


def blocks_of(rows: int, starts: Rows) -> Iterator[_Made]:
    """Yield generated rows. Terms follow Zipf's law, and there are more different ones in more rows (Heaps' law)."""
    centres = np.random.default_rng(1).standard_normal((TOPICS, DIM)).astype(np.float32)
    centres *= np.linspace(2.0, 0.2, DIM, dtype=np.float32)  # some directions vary more than others
    shares = np.cumsum(1.0 / (np.arange(int(1000 * rows**0.45)) + 2.7))
    owners = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    topics = np.random.default_rng(2).integers(0, TOPICS, len(starts) - 1)
    for begin in range(0, rows, _BLOCK):
        count = min(_BLOCK, rows - begin)
        generator = np.random.default_rng([3, begin])
        topic = topics[owners[begin : begin + count]]
        vectors = centres[topic] + 1.5 * generator.standard_normal((count, DIM), np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        drawn = np.searchsorted(shares, generator.random((count, TERMS)) * shares[-1])
        own = drawn[:, ::2] * TOPICS + topic[:, None]
        drawn[:, ::2] = np.where(own < len(shares), own, drawn[:, ::2])
        drawn.sort(axis=1)
        new = np.diff(drawn, axis=1, prepend=-1) > 0
        weights = generator.gamma(4.0, 0.12, drawn.shape) * np.log(len(shares) / (drawn + 1.0) + 1.0)
        yield vectors, drawn[new], weights[new].astype(np.float32), np.cumsum(new.sum(1))


def rows_of(block: _Made) -> Iterator[TermWeights]:
    """Yield the term weights of each row."""
    _, terms, weights, ends = block
    terms = terms.astype(np.int32)
    for begin, end in zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True):
        yield TermWeights(terms[begin:end], weights[begin:end])


def postings_of(rows: Iterable[TermWeights]) -> PostingTable:
    """Return the inverted file of some rows."""
    writer = SparseWriter(unit="chunk")
    for row in rows:
        writer.add(row)
    stored = writer.stored()
    return PostingTable(stored["starts"], stored["rows"], stored["impacts"], stored["length"])


def queries_of(rows: int, starts: Rows) -> tuple[Vectors, list[TermWeights]]:
    """Return queries near some rows, with some of their terms."""
    vectors, terms, _, ends = next(blocks_of(rows, starts))
    generator = np.random.default_rng(4)
    chosen = generator.choice(len(vectors), QUERIES, replace=False)
    noise = generator.standard_normal((QUERIES, DIM)).astype(np.float32) * np.float32(0.03)
    queries = []
    for row in chosen.tolist():
        mine = terms[ends[row - 1] if row else 0 : ends[row]]
        picked = np.sort(generator.choice(mine, min(QUERY_TERMS, len(mine)), replace=False)).astype(np.int32)
        queries.append(TermWeights(picked, np.ones(len(picked), np.float32)))
    return vectors[chosen] + noise, queries


def table(sizes: list[int]) -> None:
    """Print a line for each number of rows and kind of statistics."""
    print("| rows | statistics of | making | size | per query, rows / groups | error of deviations, rows / groups |")
    print("|---:|---|---:|---:|---:|---:|")
    for rows in sizes:
        starts = starts_of(rows)
        queries, terms = queries_of(rows, starts)
        exact = _exact(rows, starts, queries, terms)
        begun, making = time.perf_counter(), 0.0
        for _ in blocks_of(rows, starts):
            making = time.perf_counter() - begun
        begun = time.perf_counter()
        blocks = (block[0] for block in blocks_of(rows, starts))
        of_vectors = vector_statistics(blocks, dim=DIM, length=rows, starts=starts)
        of_vectors_s = time.perf_counter() - begun - making
        postings = postings_of(chain.from_iterable(map(rows_of, blocks_of(rows, starts))))
        begun = time.perf_counter()
        of_terms = posting_statistics(postings, starts=starts)
        seconds = of_vectors_s, time.perf_counter() - begun
        _line(rows, "vectors", of_vectors, queries, exact[0], seconds[0])
        _line(rows, "terms", of_terms, terms, exact[1], seconds[1])


def _exact(rows: int, starts: Rows, queries: Vectors, terms: list[TermWeights]) -> list[list[list[Spread]]]:
    """Return mean and deviation of each query from all rows, of vectors and of terms, by row and by group."""
    near, shared = np.empty((QUERIES, rows), np.float32), np.zeros((QUERIES, rows), np.float32)
    wanted = np.unique(np.concatenate([query.terms for query in terms]))
    weights = np.zeros((QUERIES, len(wanted)), np.float32)
    for number, query in enumerate(terms):
        weights[number, np.searchsorted(wanted, query.terms)] = query.weights
    begin = 0
    for vectors, all_terms, parts, ends in blocks_of(rows, starts):
        here = slice(begin, begin + len(vectors))
        near[:, here] = queries @ vectors.T
        places = np.minimum(np.searchsorted(wanted, all_terms), len(wanted) - 1)
        asked = np.flatnonzero(wanted[places] == all_terms)
        owners = np.searchsorted(ends, asked, side="right")
        for number in range(QUERIES):
            worth = parts[asked] * weights[number, places[asked]]
            shared[number, here] = np.bincount(owners, worth, len(vectors))
        begin = here.stop
    return [
        [[spread(best_of_groups(each, groups), _units(rows, groups)) for each in scores] for groups in (None, starts)]
        for scores in (near, shared)
    ]


def _units(rows: int, groups: Rows | None) -> int:
    return rows if groups is None else len(groups) - 1


def _line(
    rows: int,
    name: str,
    made: VectorStatistics | TermStatistics,
    queries: Vectors | list[TermWeights],
    exact: list[list[Spread]],
    seconds: float,
) -> None:
    path = WORK / "statistics.pkl"
    pickles.dump(made.to_arrays(), path)
    cells, errors = [], []
    for grouped, true in zip((False, True), exact, strict=True):
        times, found = [], []
        for query in queries:
            begun = time.perf_counter()
            found.append(made.spread(query, grouped=grouped))
            times.append(time.perf_counter() - begun)
        cells.append(f"{statistics.median(times) * 1000:.2f}")
        errors.append(f"{error(true, found):.2%}")
    size = path.stat().st_size / 2**20
    print(
        f"| {rows:,} | {name} | {seconds:.1f} s | {size:.1f} MiB | {' / '.join(cells)} ms | {' / '.join(errors)} |",
        flush=True,
    )
