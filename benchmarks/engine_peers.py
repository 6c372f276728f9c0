"""The ten best rows of the same data by the server's own plain search: what its users write, without this program."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from http.client import HTTPConnection
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from engines.contents import TERMS, VECTORS

if TYPE_CHECKING:
    from engines.served import Served

    from retrieve_cli.contracts import TermWeights, Vectors

BEST = 10


class Own(NamedTuple):
    """Searches of a server's own."""

    by_terms: Callable[[TermWeights], Sequence[int]]
    by_vector: Callable[[Vectors], Sequence[int]]
    what: str


def own_search(name: str, served: Served, generation: str, texts: Iterable[tuple[int, str]]) -> Own:
    """Return the searches of an engine over a generation; `texts` are the words of each row."""
    return {"pgvector": _pgvector, "qdrant": _qdrant, "milvus": _milvus, "osmem": _opensearch, "noida": _opensearch}[
        name
    ](served, generation, texts)


def words(terms: Iterable[int]) -> str:
    """Return terms as a text."""
    return " ".join(f"t{term}" for term in terms)


def _pgvector(served: Served, generation: str, texts: Iterable[tuple[int, str]]) -> Own:
    import psycopg

    connection = psycopg.connect(served.address(served.port), autocommit=True)
    table = f"own_{generation}"
    connection.execute(f"CREATE TABLE {table} (number integer, words tsvector)".encode())
    with connection.cursor().copy(f"COPY {table} FROM STDIN".encode()) as copy:
        for row in texts:
            copy.write_row(row)
    connection.execute(f"CREATE INDEX ON {table} USING gin (words)".encode())
    connection.execute(f"VACUUM ANALYZE {table}".encode())

    def by_terms(query: TermWeights) -> list[int]:
        asked = words(query.terms.tolist()).replace(" ", " | ")
        matching = f"SELECT number FROM {table}, CAST(%s AS tsquery) AS asked WHERE words @@ asked"
        text = f"{matching} ORDER BY ts_rank(words, asked) DESC LIMIT {BEST}"
        return [row for (row,) in connection.execute(text.encode(), [asked])]

    def by_vector(query: Vectors) -> list[int]:
        rows = f"retrieve_{generation}.embeddings_{VECTORS}"
        text = f'SELECT "row" FROM {rows} ORDER BY embedding <=> %s::vector LIMIT {BEST}'
        return [row for (row,) in connection.execute(text.encode(), [str(query.tolist())])]

    return Own(by_terms, by_vector, "full-text search (GIN, `ts_rank`), HNSW with its defaults")


def _qdrant(served: Served, generation: str, _: Iterable[tuple[int, str]]) -> Own:
    ask = partial(_asked, HTTPConnection("127.0.0.1", served.port))

    def found(part: str, using: str, query: Any) -> list[int]:
        body = {"query": query, "using": using, "limit": BEST}
        answer = ask(f"/collections/chunks_vectors_{generation}_{part}/points/query", body)
        return [point["id"] for point in answer["result"]["points"]]

    def by_terms(query: TermWeights) -> list[int]:
        return found(TERMS, "weights", {"indices": query.terms.tolist(), "values": query.weights.tolist()})

    return Own(by_terms, lambda query: found(VECTORS, "vector", query.tolist()), "sparse vectors, HNSW")


def _milvus(served: Served, generation: str, _: Iterable[tuple[int, str]]) -> Own:
    from retrieve_cli.engines.milvus.server import client_package

    client = client_package().MilvusClient(uri=served.address(served.port), dedicated=True)

    def found(part: str, field: str, query: Any) -> list[int]:
        (hits,) = client.search(f"chunks_{generation}_{part}", data=[query], anns_field=field, limit=BEST)
        return [int(hit["row"]) for hit in hits]

    def by_terms(query: TermWeights) -> list[int]:
        return found(TERMS, "sparse", dict(zip(query.terms.tolist(), query.weights.tolist(), strict=True)))

    return Own(by_terms, lambda query: found(VECTORS, "vector", query), "sparse vectors, HNSW")


def _opensearch(served: Served, generation: str, _: Iterable[tuple[int, str]]) -> Own:
    ask = partial(_asked, HTTPConnection("127.0.0.1", served.port))

    def found(part: str, query: Any) -> list[int]:
        answer = ask(f"/chunks-{generation}-{part}/_search", {"query": query, "size": BEST, "_source": False})
        return [int(hit["_id"]) for hit in answer["hits"]["hits"]]

    def by_vector(query: Vectors) -> list[int]:
        usual = {"ef_search": 100}
        return found(
            VECTORS, {"knn": {f"{VECTORS}_vector": {"vector": query.tolist(), "k": BEST, "method_parameters": usual}}}
        )

    def by_terms(query: TermWeights) -> list[int]:
        return found(TERMS, {"match": {"content": words(query.terms.tolist())}})

    return Own(by_terms, by_vector, "BM25 of its text field, HNSW")


def _asked(connection: HTTPConnection, path: str, body: Mapping[str, Any]) -> Any:
    connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
    answer = json.loads(connection.getresponse().read())
    if "error" in answer:
        raise SystemExit(f"{path}: {answer['error']}")
    return answer


def near(vectors: Vectors, number: int) -> Vectors:
    """Return a query near one of some rows, of norm 1."""
    noise = np.random.default_rng([5, number]).standard_normal(vectors.shape[1]).astype(np.float32)
    made = vectors[number] + np.float32(0.03) * noise
    return np.asarray(made / np.linalg.norm(made), np.float32)
