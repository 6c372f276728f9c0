"""Measures inside one process of the program; run by path, so that PYTHONPATH says which checkout it is.

PYTHONPATH=<checkout> python -P benchmarks/inside.py export|search|answers|touched ARTIFACTS FOLDER [CATALOG]

`export` writes what the peers are given: vectors.npy and texts.jsonl in the order of the index; asked.jsonl: each query
with its words besides stop words and its vector, which lies near that of a random record. The others print a line of
JSON: by work, the median CPU and wall seconds of one query.
"""

import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as the command line does

import numpy as np

from retrieve_cli.config.settings import Settings
from retrieve_cli.contracts import Request
from retrieve_cli.search.opened import Opened
from retrieve_cli.search.searcher import Searcher
from retrieve_cli.storage.store import Store

DEPTH, TRIAL, BLOCK = 200, 5, 8192
NOISE = 1.0
"""Length of what is added to a record's vector to make that of a query."""


def medians(call: Callable[[Any], object], arguments: Sequence[Any]) -> dict[str, float]:
    """Return the median CPU and wall seconds of a call, after an unmeasured one."""
    for argument in arguments[:TRIAL]:
        call(argument)
    cpu, wall = [], []
    for argument in arguments:
        begun, spent = time.perf_counter(), time.process_time()
        call(argument)
        cpu.append(time.process_time() - spent)
        wall.append(time.perf_counter() - begun)
    return {"cpu": statistics.median(cpu), "wall": statistics.median(wall)}


def read(folder: Path) -> list[dict[str, Any]]:
    """Return the queries that `export` wrote."""
    return [json.loads(line) for line in (folder / "asked.jsonl").open(encoding="utf-8")]


def export(opened: Opened, folder: Path) -> None:
    """Write texts, vectors and queries for the peers, in a stream."""
    dense, generation, analyzer = opened.indexes["dense"], opened.generation, opened.indexes.analyzer
    rows = len(generation.chunks)
    dim: int = dense.dim  # type: ignore[attr-defined]
    with (folder / "vectors.npy").open("wb") as file:
        head = {"descr": "<f4", "fortran_order": False, "shape": (rows, dim)}
        np.lib.format.write_array_header_1_0(file, head)
        for start in range(0, rows, BLOCK):
            block = dense.vectors(np.arange(start, min(start + BLOCK, rows)))  # type: ignore[attr-defined]
            file.write(np.ascontiguousarray(block, "<f4").tobytes())
    with (folder / "texts.jsonl").open("w", encoding="utf-8") as lines:
        for row in range(rows):
            chunk = generation.chunks[row]
            line = {"id": chunk["doc_id"], "text": f"{chunk['header']}{chunk['text']}"}
            lines.write(json.dumps(line) + "\n")
    generator = np.random.default_rng(0)
    with (folder / "asked.jsonl").open("w", encoding="utf-8") as lines:
        for line in (folder / "queries.jsonl").open(encoding="utf-8"):
            query = json.loads(line)
            [near] = dense.vectors(generator.integers(0, rows, 1))  # type: ignore[attr-defined]
            vector = near + NOISE * generator.standard_normal(dim, np.float32) / np.sqrt(np.float32(dim))
            terms = " ".join(word for word in query["text"].split() if analyzer.terms(word))
            vector /= np.linalg.norm(vector)
            lines.write(json.dumps({**query, "terms": terms or query["text"], "vector": vector.tolist()}) + "\n")


def search(opened: Opened, folder: Path) -> dict[str, Any]:
    """One retriever at a time, on one core."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
    queries, starts = read(folder), opened.generation.starts
    texts, vectors = [q["text"] for q in queries], [np.array(q["vector"], np.float32) for q in queries[:60]]
    frequent = [q["text"] for q in queries if q["kind"] == "common"]
    dense, lexical = opened.indexes["dense"], opened.indexes["bm25"]
    first = np.zeros(1, np.int64)
    return {
        "dense search, loaded, one core": medians(lambda v: dense.search([v], depth=DEPTH, starts=starts), vectors),
        "BM25 search, loaded, one core": medians(lambda text: lexical.search([text], depth=DEPTH), texts),
        "BM25 search, frequent words, loaded": medians(lambda text: lexical.search([text], depth=DEPTH), frequent),
        "BM25 scoring alone, frequent words": medians(lambda text: lexical.score(text, first), frequent),
        "BM25 scoring alone": medians(lambda text: lexical.score(text, first), texts),
    }


def answers(opened: Opened, folder: Path) -> dict[str, Any]:
    """Whole answers, the query's encoding included, on all cores."""
    texts = [query["text"] for query in read(folder)[:100]]
    reranked, plain, lexical = (
        opened.options(mode="hybrid", rerank=True),
        opened.options(mode="hybrid", rerank=False),
        opened.options(mode="bm25"),
    )
    works = {"answer, hybrid without reranking, loaded": plain, "answer, BM25, loaded": lexical}
    if "tokens.pkl" in opened.generation.manifest.files:
        works = {"answer with late interaction, loaded": reranked, **works}
    return {
        work: medians(lambda text, options=options: Searcher(opened, options).answer([Request(text)]), texts)
        for work, options in works.items()
    }


def touched(opened: Opened, folder: Path, catalog: Path) -> dict[str, Any]:
    """Answers after the catalog got another time and kept its bytes."""
    options = opened.options(mode="bm25")
    texts = [query["text"] for query in read(folder)[:10]]
    Searcher(opened, options).answer([Request(texts[0])])
    catalog.touch()
    return {
        "answer, BM25, loaded, catalog touched": medians(
            lambda text: Searcher(opened, options).answer([Request(text)]), texts
        )
    }  # fmt: skip


def main(what: str, artifacts: str, folder: str, *rest: str) -> None:
    """Measure, and print the figures."""
    opened = Opened.of(Store(Path(artifacts)), Settings())
    place = Path(folder)
    if what == "export":
        export(opened, place)
    elif what == "touched":
        print(json.dumps(touched(opened, place, Path(rest[0]))))
    else:
        print(json.dumps({"search": search, "answers": answers}[what](opened, place)))


if __name__ == "__main__":
    main(*sys.argv[1:])
