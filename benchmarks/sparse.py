"""The sparse leg: one query over 100,000 documents, against a SciPy product in the same run.

python -m benchmarks.sparse

Terms are drawn by Zipf's law over a vocabulary of BERT's size, those of documents and of queries alike. The 120 terms
of a document and the 30 of a query are distinct, and the most frequent term stands in nearly every document. That is
harder than what a SPLADE model gives, whose training holds frequent terms down.
"""

import sys
import time

import numpy as np

from benchmarks.process import WORK
from benchmarks.speed import line
from retrieve_cli.contracts import TermWeights
from retrieve_cli.retrieval.retrievers.splade import SparseIndex, SparseWriter
from retrieve_cli.storage import pickles

DOCUMENTS, VOCABULARY = 100_000, 30_522
DOCUMENT_TERMS, QUERY_TERMS = 120, 30
QUERIES, DEPTH = 300, 200
OFFSET = 2.7
"""Of the Zipf-Mandelbrot law, 1 / (rank + offset)."""


def texts(generator: np.random.Generator, count: int, terms: int) -> list[TermWeights]:
    """Sparse vectors of distinct terms."""
    shares = np.cumsum(1 / (np.arange(VOCABULARY) + 1 + OFFSET))
    found = []
    for _ in range(count):
        drawn = np.searchsorted(shares, generator.random(terms * 4) * shares[-1])
        distinct, first = np.unique(drawn, return_index=True)
        chosen = np.sort(distinct[np.argsort(first)][:terms]).astype(np.int32)
        found.append(TermWeights(chosen, generator.gamma(2.0, 0.3, len(chosen)).astype(np.float32)))
    return found


def sparse_latency() -> bool:
    """Search in process over the mapped file; the scores must be those of the product."""
    import scipy.sparse

    generator = np.random.default_rng(0)
    documents, queries = texts(generator, DOCUMENTS, DOCUMENT_TERMS), texts(generator, QUERIES, QUERY_TERMS)
    writer, path = SparseWriter(unit="record"), WORK / "sparse-100k.pkl"
    for document in documents:
        writer.add(document)
    begun = time.perf_counter()
    path.parent.mkdir(parents=True, exist_ok=True)
    writer.write(path)
    written = time.perf_counter() - begun
    index = SparseIndex([pickles.load(path)])

    ends = np.cumsum([0, *(len(document.terms) for document in documents)])
    parts = [np.concatenate([getattr(each, name) for each in documents]) for name in ("weights", "terms")]
    columns = scipy.sparse.csr_matrix((*parts, ends), (DOCUMENTS, VOCABULARY)).tocsc().T

    def product(query: TermWeights) -> tuple[np.ndarray, np.ndarray]:
        row = scipy.sparse.csr_matrix((query.weights, query.terms, [0, len(query.terms)]), (1, VOCABULARY))
        scores = (row @ columns).toarray().ravel()
        best = np.argpartition(scores, -DEPTH)[-DEPTH:]
        return best[np.argsort(-scores[best])], scores

    mine, theirs, worst = [], [], 0.0
    for query in [*queries[:20], *queries]:
        begun = time.perf_counter()
        [found] = index.search([query], depth=DEPTH)
        between = time.perf_counter()
        best, scores = product(query)
        theirs.append(time.perf_counter() - between)
        mine.append(between - begun)
        worst = max(worst, float(np.abs(found.scores / scores[best] - 1).max()))
    ours, peer = (np.percentile(np.array(each[20:]) * 1000, [50, 95]) for each in (mine, theirs))
    size = path.stat().st_size / 2**20
    figure = f"p50 {ours[0]:.2f}, p95 {ours[1]:.2f} ms; SciPy {peer[0]:.2f}, {peer[1]:.2f}; {peer[1] / ours[1]:.1f}×"
    reached = line("splade.pkl, 100,000 documents", f"{size:.0f} MiB, {written:.1f} s", "≤ 100 MiB", size <= 100)
    reached &= line("its scores beside SciPy's", f"off by {worst:.1e}", "≤ 1e-6", worst <= 1e-6)
    return reached & line("sparse leg, 100,000 documents, 30 terms", figure, "p95 ≤ 25 ms", bool(ours[1] <= 25))


if __name__ == "__main__":
    sys.exit(0 if sparse_latency() else 1)
