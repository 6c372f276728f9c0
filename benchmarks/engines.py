"""Costs of a query and of a change through each engine, beside the same requests written by hand with its client.

PYTHONPATH=tests python -m benchmarks.engines [--rows 10000] [ENGINE...]

The servers are those of the tests. Vectors are hashed words of 512 dimensions; a hybrid query lists 200 rows of each
retriever and shows 10 records. Bytes and round trips are counted by a relay between the client and the server.
"""

import argparse
import json
import os
import random
import socket
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from statistics import median
from typing import Any
from urllib.parse import urlsplit

import numpy as np

QUERIES = 40
Search = Callable[..., Any]


class Relay:
    """Passes connections on to a port of this machine, and counts bytes and turns from requests to answers."""

    def __init__(self, port: int) -> None:
        self.bytes = self.turns = 0
        self._target, self._asking = port, False
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            client, _ = self._socket.accept()
            server = socket.create_connection(("127.0.0.1", self._target))
            for source, sink, asks in ((client, server, True), (server, client, False)):
                source.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                threading.Thread(target=self._pass, args=(source, sink, asks), daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket, asks: bool) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                self.bytes += len(data)
                self.turns += asks and not self._asking
                self._asking = asks
                sink.sendall(data)


def servers(name: str, stack: ExitStack) -> tuple[str, int]:
    """Start the server of the tests; return its URL, and its port."""
    if name == "pgvector":
        from engines.pgvector_server import running

        postgres = stack.enter_context(running())
        return postgres.url(postgres.database()), postgres.port
    if name == "qdrant":
        from engines import qdrant_server

        url = stack.enter_context(qdrant_server.running()).url
    else:
        from engines.opensearch_server import Noida

        noida = Noida(Path(stack.enter_context(tempfile.TemporaryDirectory())))
        noida.start()
        stack.callback(noida.kill)
        url = noida.url
    return url, int(urlsplit(url).port or 0)


def in_pgvector(url: str, collection: str) -> Search:
    import psycopg

    connection = psycopg.connect(url, autocommit=True)
    tables = f"retrieve_{collection}.embeddings e JOIN retrieve_{collection}.chunks c ON e.chunk_id = c.id"

    def search(queries: Any, where: Any, k: int, contents: bool) -> Any:
        if contents:
            texts = f"SELECT id, content, stored FROM retrieve_{collection}.chunks WHERE id = ANY(%s)"
            return connection.execute(texts.encode(), [list(where.values)]).fetchall()
        vector = json.dumps(queries[0][1].tolist())
        nearest = f"SELECT c.id, e.embedding <=> %s::vector AS distance FROM {tables} ORDER BY distance LIMIT {k}"
        with connection.transaction():
            connection.execute("SET LOCAL hnsw.ef_search = 400")
            return connection.execute(nearest.encode(), [vector]).fetchall()

    return search


def in_qdrant(url: str, collection: str) -> Search:
    from qdrant_client import QdrantClient, models

    from retrieve_cli.engines.qdrant import point_id

    client = QdrantClient(url=url, check_compatibility=False)
    quantization = models.QuantizationSearchParams(rescore=True, oversampling=2.0)
    params = models.SearchParams(hnsw_ef=400, quantization=quantization)

    def request(retriever: str, query: Any, k: int) -> models.QueryRequest:
        if isinstance(query, np.ndarray):
            vector = query.tolist()
        else:
            vector = models.SparseVector(indices=query.terms.tolist(), values=query.weights.tolist())
        nearest = models.NearestQuery(nearest=vector)
        return models.QueryRequest(query=nearest, using=retriever, params=params, limit=k, with_payload=["chunk_id"])

    def search(queries: Any, where: Any, k: int, contents: bool) -> Any:
        requests = [] if contents else [request(retriever, query, k) for retriever, query in queries]
        if contents:
            ids = models.HasIdCondition(has_id=[point_id(value) for value in where.values])
            fields = ["chunk_id", "content", "stored"]
            requests = [models.QueryRequest(filter=models.Filter(must=[ids]), limit=k, with_payload=fields)]
        return client.query_batch_points(f"chunks_vectors_{collection}", requests)

    return search


def in_opensearch(url: str, collection: str) -> Search:
    from opensearchpy import OpenSearch

    client = OpenSearch([url])

    def search(queries: Any, where: Any, k: int, contents: bool) -> Any:
        common: dict[str, Any] = {"size": k, "_source": ["chunk_id"], "track_total_hits": False}
        lines: list[Any] = []
        if contents:
            common["_source"] = ["chunk_id", "content", "stored"]
            lines = [{}, {"query": {"terms": {"chunk_id": list(where.values)}}, **common}]
        for retriever, query in [] if contents else queries:
            body: Any = {"multi_match": {"query": query, "fields": ["title^2", "content"]}}
            if isinstance(query, np.ndarray):
                vector = {"vector": query.tolist(), "k": k, "method_parameters": {"ef_search": 400}}
                body = {"knn": {f"{retriever}_vector": vector}}
            lines += [{}, {"query": body, **common}]
        return client.msearch(body=lines, index=f"chunks-{collection}")

    return search


BY_HAND = {"pgvector": in_pgvector, "qdrant": in_qdrant, "opensearch": in_opensearch}
"""Functions that return one that sends the request of a driver's search, as one writes it with the client."""


def timed(work: Callable[[int], object]) -> float:
    """Return the median of the milliseconds of each query."""
    times = []
    for number in range(QUERIES):
        start = time.perf_counter()
        work(number)
        times.append(1000 * (time.perf_counter() - start))
    return median(times)


def measure(name: str, rows: int) -> None:
    """Print the figures of an engine."""
    import retrieve_cli
    from retrieve_cli.assemble.engines import engine
    from retrieve_cli.cli.main import main
    from retrieve_cli.config import loading

    draw = random.Random(1)
    words = [f"word{number}" for number in range(5000)]
    with ExitStack() as stack:
        os.chdir(stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)))
        url, port = servers(name, stack)
        relay = Relay(port)
        lexical = "local" if name == "pgvector" else name
        os.environ |= {"RETRIEVE_ENGINES__DENSE": name, "RETRIEVE_ENGINES__LEXICAL": lexical}
        os.environ |= {f"RETRIEVE_{name.upper()}__URL": url.replace(str(port), str(relay.port))}
        os.environ |= {"RETRIEVE_ENCODER__KIND": "hashed", "RETRIEVE_TRUST": "1"}
        with Path("records.jsonl").open("w") as file:
            for number in range(rows):
                text = " ".join(draw.choices(words, k=120))
                file.write(json.dumps({"id": f"r{number}", "name": f"record {number}", "description": text}) + "\n")
        start = time.perf_counter()
        if main(["build", "--catalog", "records.jsonl", "-q"]):
            raise SystemExit(f"{name}: the build failed")
        print(f"{name}: {rows:,} records built and sent in {time.perf_counter() - start:.0f} s")
        driver, calls = engine(name, loading.load(None, os.environ)), []
        own = driver.search

        def noted(collection: str, queries: Any, where: Any, k: int, *, contents: bool = False) -> Any:
            calls.append((collection, queries, where, k, contents))
            return own(collection, queries, where, k, contents=contents)

        setattr(driver, "search", noted)  # noqa: B010
        texts = [" ".join(draw.choices(words, k=6)) for _ in range(QUERIES)]
        for mode in ("hybrid", "dense"):
            with retrieve_cli.open("artifacts") as index:
                index.search("warm", rerank=False)
                asked: list[list[Any]] = []

                def whole(number: int) -> None:
                    calls.clear()
                    index.search(texts[number], mode=mode, rerank=False)  # noqa: B023
                    asked.append(calls.copy())  # noqa: B023

                relay.bytes = relay.turns = 0
                total = timed(whole)
            print(f"  {mode}: {relay.bytes / QUERIES / 1000:.0f} kB in {relay.turns / QUERIES:.1f} round trips;")
            send = BY_HAND[name](url.replace(str(port), str(relay.port)), asked[0][0][0])
            for _ in range(2):
                hand = timed(lambda number: [send(*call[1:]) for call in asked[number]])  # noqa: B023
                driven = timed(lambda number: [own(*c[:4], contents=c[4]) for c in asked[number]])  # noqa: B023
            print(f"    p50 {total:.1f} ms, of its requests {driven:.1f} ms by the driver, {hand:.1f} ms by hand")
        with retrieve_cli.open("artifacts") as index:
            times = []
            for number in range(5):
                start = time.perf_counter()
                index.add([{"id": f"new{number}", "text": f"# New\n\nquokka{number} in the garden\n"}])
                if f"new{number}" not in index.search(f"quokka{number}", rerank=False)[0].doc_id:
                    raise SystemExit(f"{name}: new{number} is not found")
                times.append(time.perf_counter() - start)
            print(f"  an added document is found after {median(times):.2f} s (median of {len(times)})")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("engines", nargs="*", default=["pgvector", "qdrant", "opensearch"])
    parser.add_argument("--rows", type=int, default=10_000)
    options = parser.parse_args()
    for chosen in options.engines:
        measure(chosen, options.rows)
