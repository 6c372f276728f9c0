"""`make bench-engines`: searches through engines as the number of records grows, beside local files and beside the
server's own plain search.

python -m benchmarks.engines [--sizes "10000 100000 400000"] [--engines pgvector,qdrant,milvus,osmem,noida]

Records are rows of words by Zipf's law with vectors of 384 numbers, the same in each run. Queries are 5 to 15 words of
a record, and a vector near the record's. The program's stages search, to a depth of
200. Times are those of a connection to the server; round trips and bytes are counted by a proxy between client and
server, which keeps each answer back for 0.1 s, so that requests that wait at the same time are seen to do so.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
from engines import served
from engines.contents import GENERATION, TERMS, VECTORS
from engines.served import Served
from engines.traffic import Traffic

from benchmarks.engine_peers import Own, near, own_search, words
from benchmarks.engine_table import Figure, lines, plot
from benchmarks.statistics_scale import DIM, blocks_of, rows_of
from retrieve_cli.contracts import Query, Ranking, TermWeights
from retrieve_cli.contracts.engines import Batch, Engine, Label, Part
from retrieve_cli.engines.index import TermEngineIndex, VectorEngineIndex
from retrieve_cli.retrieval.retrievers.splade import SparseIndex, SparseWriter
from retrieve_cli.retrieval.retrievers.vector_index import FlatIndex
from retrieve_cli.retrieval.stages.fuse import Fuse
from retrieve_cli.retrieval.stages.fusion import Fusion
from retrieve_cli.retrieval.stages.retrieve import ChunkLayout, IndexRetrieval, Retrieve
from retrieve_cli.storage.term_statistics import posting_statistics
from retrieve_cli.storage.vector_statistics import vector_statistics

ENGINES: dict[str, Callable[[Path], AbstractContextManager[Served]]] = {
    each.__name__: each for each in (served.pgvector, served.qdrant, served.milvus, served.osmem, served.noida)
}
SLOW = {"milvus": 10_000, "osmem": 10_000, "noida": 10_000}
"""The most records of substitutes that take seconds for a query of more."""
DEPTH, KEPT, STEP = 200, 10, 1000
LENGTHS = 5, 15
"""The least and the most words of a query."""
LATENCY_S = 0.1
COUNTED = 10
"""Queries whose traffic is counted."""


class Asked(NamedTuple):
    """A query."""

    terms: TermWeights
    vector: Any


@dataclass(frozen=True)
class Made:
    """Local indexes of generated records, and queries."""

    size: int
    lexical: SparseIndex
    dense: FlatIndex
    queries: Sequence[Asked]

    @property
    def starts(self) -> Any:
        return np.arange(self.size + 1)

    def parts(self, held: Sequence[str]) -> list[Part]:
        """Return the parts of a generation that a server holds."""
        parts = [Part(TERMS, "record", self.size), Part(VECTORS, "chunk", self.size, DIM)]
        return [part for part in parts if part.name in held]

    def stages(self, lexical: Any, dense: Any, *, waits: bool) -> dict[str, Any]:
        """Return the search of each kind over those indexes that there are."""
        forms = {"BM25": [each.terms for each in self.queries], "dense": [each.vector for each in self.queries]}
        shared: dict[str, Any] = {
            "layout": ChunkLayout(self.starts, str),
            "unit": "record",
            "depth": DEPTH,
            "waits": waits,
        }
        asked = [
            IndexRetrieval(name, index, partial(_chosen, forms[name]), **shared)
            for name, index in (("BM25", lexical), ("dense", dense))
            if index is not None
        ]
        stages: dict[str, Any] = {each.name: Retrieve(each, KEPT) for each in asked}
        return stages | ({"hybrid": Fuse(tuple(asked), Fusion(), KEPT)} if len(asked) > 1 else {})

    def through(self, engine: Engine, held: Sequence[str]) -> dict[str, Any]:
        """Return the searches through an engine."""
        opened, able = engine.open(GENERATION), engine.capabilities
        indexes: dict[str, Any] = {TERMS: None, VECTORS: None}
        for part in self.parts(held):
            shared: dict[str, Any] = {"part": part, "capabilities": able, "statistics": self.statistics[part.name]}
            if part.dim is None:
                indexes[TERMS] = TermEngineIndex(opened.terms(TERMS), **shared)
            else:
                indexes[VECTORS] = VectorEngineIndex(opened.vectors(VECTORS), **shared)
        return self.stages(*indexes.values(), waits=True)

    @cached_property
    def statistics(self) -> dict[str, Any]:
        """Stored statistics of scores by part."""
        vectors = (block[0] for block in blocks_of(self.size, self.starts))
        return {
            TERMS: posting_statistics(self.lexical.exported(TERMS).postings),
            VECTORS: vector_statistics(vectors, dim=DIM, length=self.size, starts=self.starts),
        }

    def texts(self) -> Iterator[tuple[int, str]]:
        """Yield the words of each row."""
        rows = (row for block in blocks_of(self.size, self.starts) for row in rows_of(block))
        return ((number, words(row.terms.tolist())) for number, row in enumerate(rows))

    def send(self, engine: Engine, held: Sequence[str]) -> None:
        """Store the records in an engine."""
        staging = engine.stage(GENERATION, self.parts(held))
        first = 0
        for block in blocks_of(self.size, self.starts):
            weights = list(rows_of(block))
            texts = [words(row.terms.tolist()) for row in weights]
            for start in range(0, len(weights), STEP):
                some = slice(start, min(start + STEP, len(weights)))
                rows = np.arange(first + some.start, first + some.stop)
                labels = [
                    Label(str(row), str(row), text=text) for row, text in zip(rows.tolist(), texts[some], strict=True)
                ]
                if TERMS in held:
                    staging.put(TERMS, Batch(rows, labels, weights=weights[some]))
                if VECTORS in held:
                    staging.put(VECTORS, Batch(rows, labels, vectors=block[0][some]))
            first += len(weights)
        staging.finish()
        staging.close()


def make(size: int, count: int) -> Made:
    """Generate records, their local indexes, and queries."""
    writer, vectors, queries = SparseWriter(unit="record"), [], list[Asked]()
    for block in blocks_of(size, np.arange(size + 1)):
        rows = list(rows_of(block))
        vectors.append(block[0])
        queries = queries or [_query(rows, block[0], number) for number in range(count)]
        for row in rows:
            writer.add(row)
    return Made(size, SparseIndex(writer.stored()), FlatIndex(np.concatenate(vectors)), queries)


def _query(rows: Sequence[TermWeights], vectors: Any, number: int) -> Asked:
    random = np.random.default_rng([6, number])
    place = int(random.integers(len(rows)))
    terms = rows[place].terms
    length = min(int(random.integers(LENGTHS[0], LENGTHS[1] + 1)), len(terms))
    picked = np.sort(random.choice(terms, length, replace=False))
    return Asked(TermWeights(picked, np.ones(length, np.float32)), near(vectors, place))


def _chosen(forms: Sequence[Any], texts: Sequence[str]) -> list[Any]:
    return [forms[int(text)] for text in texts]


def measure(name: str, served: Served, made: Made) -> Iterator[Figure]:
    """Send the records to a server, and yield the figures of each kind of query."""
    engine, traffic = served.engine(served.port), Traffic()
    begun = time.perf_counter()
    made.send(engine, served.parts)
    say(f"{name}: {made.size:,} records sent in {time.perf_counter() - begun:.0f} s")
    own = own_search(name, served, GENERATION, made.texts())
    local = made.stages(made.lexical, made.dense, waits=False)
    direct = made.through(engine, served.parts)
    counted = made.through(served.engine(traffic.before(served.port)), served.parts)
    facts = f"{engine.describe().get('server', name)} ({served.what}); its own search: {own.what}"
    for kind in direct:
        times, shared = _times(direct[kind], local[kind], _own(own, kind, made.queries), len(made.queries))
        round_trips, kilobytes = _traffic(traffic, counted[kind])
        yield Figure(name, made.size, kind, facts, times, round_trips, kilobytes, shared)
    traffic.close()
    engine.drop(GENERATION)
    engine.close()


def _own(own: Own, kind: str, queries: Sequence[Asked]) -> Callable[[int], Any] | None:
    if kind == "hybrid":
        return None
    return lambda at: own.by_terms(queries[at].terms) if kind == "BM25" else own.by_vector(queries[at].vector)


def _times(
    engine: Any, local: Any, own: Callable[[int], Any] | None, count: int
) -> tuple[dict[str, list[float]], float]:
    """Return the milliseconds of each query, asked in turn of all after a first time, and the share of the local ten
    results that are found through the engine."""
    sides = {"engine": partial(_asked, engine), "local": partial(_asked, local)} | ({"own": own} if own else {})
    times: dict[str, list[float]] = {name: [] for name in sides}
    shared = 0.0
    for at in range(-3, count):
        results = {}
        for name, ask in sides.items():
            begun = time.perf_counter()
            results[name] = ask(max(at, 0))
            if at >= 0:
                times[name].append(1000 * (time.perf_counter() - begun))
        if at >= 0:
            shared += len(results["engine"] & results["local"]) / len(results["local"]) / count
    return times, shared


def _asked(stage: Any, at: int) -> set[int]:
    (ranking,) = stage([Ranking(Query(str(at)))])
    return {hit.row for hit in ranking.hits}


def _traffic(traffic: Traffic, stage: Any) -> tuple[float, float]:
    """Return the mean of round trips one after another, and of kB, for a query when connections are open."""
    _asked(stage, 0)
    traffic.latency_s = LATENCY_S
    seen = []
    for at in range(COUNTED):
        with traffic.counting() as here:
            _asked(stage, at)
        seen.append(here)
    traffic.latency_s = 0.0
    return statistics.mean(each.round_trips for each in seen), statistics.mean(each.bytes for each in seen) / 1000


def say(text: str) -> None:
    """Say on stderr what is done now."""
    print(f"  {text}", file=sys.stderr, flush=True)


def options_of(arguments: list[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.engines", description=str(__doc__).partition("\n")[0])
    parser.add_argument("--sizes", default="10000 100000 400000", help="records (default: %(default)s)")
    parser.add_argument("--engines", default=",".join(ENGINES), help="by comma (default: %(default)s)")
    parser.add_argument("--queries", type=int, default=50)
    parser.add_argument("--plot", type=Path, help="file for a plot, as SVG")
    parser.add_argument("--json", type=Path, help="file for all figures")
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> int:
    """Measure each engine at each size, and print the table."""
    import pytest  # the servers of the tests skip what is not installed

    options, figures = options_of(arguments), list[Figure]()
    loads = [os.getloadavg()[0]]
    for size in map(int, options.sizes.replace(",", " ").split()):
        made = make(size, options.queries)
        matching = statistics.mean(len(made.lexical.matching(query.terms)) for query in made.queries) / size
        say(f"{size:,} records; a query has words of {matching:.0%} of them")
        for name in options.engines.split(","):
            if size > SLOW.get(name, size):
                say(f"{name}: not asked of {size:,} records")
                continue
            try:
                with TemporaryDirectory(prefix="retrieve-engine-") as folder, ENGINES[name](Path(folder)) as server:
                    for figure in measure(name, server, made):
                        figures.append(figure)
                        say(str(figure))
            except pytest.skip.Exception as skipped:
                say(f"{name}: {skipped}")
        loads.append(os.getloadavg()[0])
    for line in lines(figures):
        print(line)
    print(f"\n{os.cpu_count()} cores ({platform.machine()}), load {' '.join(f'{load:.1f}' for load in loads)}")
    if options.plot:
        plot(figures, options.plot)
    if options.json:
        options.json.write_text(json.dumps([asdict(each) for each in figures], indent=1), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
