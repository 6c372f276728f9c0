"""Other engines at the same work: the same texts, the same vectors, the same queries, as many candidates.

python -P benchmarks/peers.py installed|build|cold|loaded NAME FOLDER [NUMBER OF THE QUERY]

The folder holds what `inside.py export` wrote. `build` makes the engine's index there, `cold` answers one query and
prints ten ids, `loaded` prints the median CPU and wall seconds of a query, of all kinds and of frequent words. Each
process imports its own engine only.
"""

import importlib
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("RUST_LOG", "error")

DEPTH, SHOWN, BATCH = 200, 10, 10_000
Answer = Callable[[dict[str, Any]], list[str]]
MODULES = {
    "numpy": "numpy",
    "faiss-flat": "faiss",
    "faiss-sq8": "faiss",
    "tantivy": "tantivy",
    "fts5": "sqlite3",
    "lancedb": "lancedb",
}
"""Module that each engine needs."""
LEXICAL, DENSE, HYBRID = ("tantivy", "fts5"), ("numpy", "faiss-flat", "faiss-sq8"), ("lancedb",)
"""Engines by form of query."""
INDEXED = tuple(name for name in MODULES if name != "numpy")
"""Engines with an index of their own; NumPy reads the vectors."""


def texts(folder: Path) -> Iterator[dict[str, str]]:
    """Yield the texts, one by one."""
    with (folder / "texts.jsonl").open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def vectors(folder: Path) -> Any:
    """(n, dim) float32, mapped."""
    import numpy as np

    return np.load(folder / "vectors.npy", mmap_mode="r")


def _vector(query: dict[str, Any]) -> Any:
    import numpy as np

    return np.array(query["vector"], np.float32)


# ---------------------------------------------------------------------------------------------------- dense


def open_numpy(folder: Path) -> Answer:
    import numpy as np

    rows = vectors(folder)

    def answer(query: dict[str, Any]) -> list[str]:
        scores = rows @ _vector(query)
        best = np.argpartition(-scores, min(DEPTH, len(scores) - 1))[:DEPTH]
        return [f"record-{row:07d}" for row in best[np.argsort(-scores[best])][:SHOWN]]

    return answer


def build_faiss(folder: Path, name: str) -> None:
    import faiss

    rows, dim = vectors(folder).shape
    scalar = faiss.ScalarQuantizer.QT_8bit
    index: Any = faiss.IndexFlatIP(dim)
    if name == "faiss-sq8":
        index = faiss.IndexScalarQuantizer(dim, scalar, faiss.METRIC_INNER_PRODUCT)
        index.train(vectors(folder)[:BATCH])
    for start in range(0, rows, BATCH):
        index.add(vectors(folder)[start : start + BATCH])
    faiss.write_index(index, str(folder / f"{name}.index"))


def open_faiss(folder: Path, name: str) -> Answer:
    import faiss

    faiss.omp_set_num_threads(1)
    index = faiss.read_index(str(folder / f"{name}.index"), faiss.IO_FLAG_MMAP)

    def answer(query: dict[str, Any]) -> list[str]:
        _, [rows] = index.search(_vector(query)[None], DEPTH)
        return [f"record-{row:07d}" for row in rows[:SHOWN]]

    return answer


# -------------------------------------------------------------------------------------------------- lexical


def build_tantivy(folder: Path) -> None:
    import tantivy

    place = _empty(folder / "tantivy")
    schema = tantivy.SchemaBuilder()
    schema.add_text_field("id", stored=True, tokenizer_name="raw")
    schema.add_text_field("text", stored=True, tokenizer_name="en_stem")
    index = tantivy.Index(schema.build(), path=str(place))
    writer = index.writer(heap_size=200_000_000, num_threads=1)
    for text in texts(folder):
        writer.add_document(tantivy.Document(id=text["id"], text=text["text"]))
    writer.commit()
    writer.wait_merging_threads()


def open_tantivy(folder: Path) -> Answer:
    import tantivy

    index = tantivy.Index.open(str(folder / "tantivy"))
    searcher = index.searcher()

    def answer(query: dict[str, Any]) -> list[str]:
        hits = searcher.search(index.parse_query(query["terms"], ["text"]), DEPTH, count=False).hits
        return [searcher.doc(place).get_first("id") for _, place in hits[:SHOWN]]

    return answer


def build_fts5(folder: Path) -> None:
    import sqlite3

    path = folder / "fts5.db"
    path.unlink(missing_ok=True)
    with sqlite3.connect(path) as base:
        base.execute("create virtual table texts using fts5(id unindexed, text, tokenize='porter unicode61')")
        base.executemany("insert into texts values (?, ?)", ((text["id"], text["text"]) for text in texts(folder)))
        base.execute("insert into texts(texts) values ('optimize')")


def open_fts5(folder: Path) -> Answer:
    import sqlite3

    base = sqlite3.connect(folder / "fts5.db")
    ask = "select id from texts where texts match ? order by rank limit ?"

    def answer(query: dict[str, Any]) -> list[str]:
        words = " OR ".join(f'"{word}"' for word in query["terms"].split())
        return [name for (name,) in base.execute(ask, (words, DEPTH)).fetchall()[:SHOWN]]

    return answer


# --------------------------------------------------------------------------------------------------- hybrid


def build_lancedb(folder: Path) -> None:
    import lancedb
    import pyarrow as pa
    from lancedb.index import FTS

    base = lancedb.connect(str(_empty(folder / "lancedb")))
    rows = vectors(folder)
    dim = rows.shape[1]
    kinds = [("id", pa.string()), ("text", pa.string()), ("vector", pa.list_(pa.float32(), dim))]

    def batches() -> Iterator[Any]:
        lines = texts(folder)
        for start in range(0, len(rows), BATCH):
            block = list(islice(lines, BATCH))
            flat = pa.array(rows[start : start + BATCH].ravel())
            columns = [[text["id"] for text in block], [text["text"] for text in block]]
            yield pa.RecordBatch.from_arrays(
                [*map(pa.array, columns), pa.FixedSizeListArray.from_arrays(flat, dim)],
                schema=pa.schema(kinds),
            )

    reader = pa.RecordBatchReader.from_batches(pa.schema(kinds), batches())
    base.create_table("texts", reader).create_index("text", config=FTS())


def open_lancedb(folder: Path) -> Answer:
    import lancedb

    table = lancedb.connect(str(folder / "lancedb")).open_table("texts")

    def answer(query: dict[str, Any]) -> list[str]:
        asked = table.search(query_type="hybrid").vector(query["vector"]).text(query["terms"])
        return [hit["id"] for hit in asked.distance_type("dot").limit(DEPTH).select(["id"]).to_list()[:SHOWN]]

    return answer


# ------------------------------------------------------------------------------------------------------ all


def _empty(place: Path) -> Path:
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    return place


def build(name: str, folder: Path) -> None:
    """Make the index of an engine."""
    if name.startswith("faiss"):
        build_faiss(folder, name)
    else:
        {"tantivy": build_tantivy, "fts5": build_fts5, "lancedb": build_lancedb}[name](folder)


def opened(name: str, folder: Path) -> Answer:
    """Return what answers one query, opened."""
    if name.startswith("faiss"):
        return open_faiss(folder, name)
    return {"numpy": open_numpy, "tantivy": open_tantivy, "fts5": open_fts5, "lancedb": open_lancedb}[name](folder)


def query_at(folder: Path, number: int) -> dict[str, Any]:
    """Return one query without reading the others into memory."""
    with (folder / "asked.jsonl").open(encoding="utf-8") as lines:
        found: dict[str, Any] = json.loads(next(islice(lines, number, None)))
    return found


def loaded(name: str, folder: Path, count: int) -> dict[str, dict[str, float]]:
    """Return the median seconds of the first queries: of all, and of those of frequent words."""
    answer = opened(name, folder)
    queries = [query_at(folder, number) for number in range(count)]
    frequent = [query for query in queries if query["kind"] == "common"]
    return {"all": medians(answer, queries), "common": medians(answer, frequent)}


def medians(answer: Answer, queries: list[dict[str, Any]]) -> dict[str, float]:
    """Return the median CPU and wall seconds of some queries, after an unmeasured one."""
    import statistics
    import time

    answer(queries[0])
    cpu, wall = [], []
    for query in queries:
        begun, spent = time.perf_counter(), time.process_time()
        answer(query)
        cpu.append(time.process_time() - spent)
        wall.append(time.perf_counter() - begun)
    return {"cpu": statistics.median(cpu), "wall": statistics.median(wall)}


def main(what: str, name: str, folder: str, number: str = "60") -> None:
    """Build, answer one query, or measure some."""
    place = Path(folder)
    if what == "installed":
        importlib.import_module(MODULES[name])
    elif what == "build":
        build(name, place)
    elif what == "loaded":
        print(json.dumps(loaded(name, place, int(number))))
    else:
        print(" ".join(opened(name, place)(query_at(place, int(number)))))


if __name__ == "__main__":
    main(*sys.argv[1:])
