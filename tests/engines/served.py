"""Running servers of all engines, and engines that reach them at any port: also through a proxy that counts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

from engines import opensearch_server, pgvector_server, qdrant_server
from engines.contents import TERMS, VECTORS
from engines.milvus_server import LiteProcess
from waiting import PATIENCE_S

from retrieve_cli.config.index_settings import MilvusSettings, OpensearchSettings, PgvectorSettings, QdrantSettings
from retrieve_cli.contracts.engines import Engine
from retrieve_cli.engines.milvus.engine import MilvusEngine
from retrieve_cli.engines.opensearch.engine import OpensearchEngine
from retrieve_cli.engines.pgvector.engine import PgvectorEngine
from retrieve_cli.engines.qdrant.engine import QdrantEngine

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class Served:
    """A running server, or a substitute for one."""

    what: str
    port: int
    address: Callable[[int], str]
    """Returns its address at a port."""
    engine: Callable[[int], Engine]
    """Makes an engine that connects to a port."""
    parts: Sequence[str] = (VECTORS, TERMS)
    """Number of rows that it can hold and search in a reasonable time."""


@contextmanager
def pgvector(_: Path) -> Iterator[Served]:
    """PostgreSQL itself, as a package."""
    with pgvector_server.running("shared_buffers=1GB", "max_wal_size=8GB") as server:
        database = server.database()

        def address(port: int) -> str:
            return f"postgresql://tester@127.0.0.1:{port}/{database}"

        def engine(port: int) -> Engine:
            return PgvectorEngine(PgvectorSettings(url=address(port), timeout_s=PATIENCE_S))

        yield Served("the real server", server.port, address, engine)


@contextmanager
def qdrant(_: Path) -> Iterator[Served]:
    """Qdrant's core behind a substitute for its REST interface."""
    qdrant_server.skip_without_packages()
    with qdrant_server.running() as server:

        def engine(port: int) -> Engine:
            return QdrantEngine(QdrantSettings(url=_http(port), timeout_s=PATIENCE_S))

        what = "Qdrant's core behind a substitute for its REST interface in Python"
        yield Served(what, urlsplit(server.url).port or 0, _http, engine)


@contextmanager
def milvus(folder: Path, index: Literal["hnsw", "flat"] = "hnsw") -> Iterator[Served]:
    """Milvus Lite as a server."""
    server = LiteProcess(folder)
    server.ensure()

    def engine(port: int) -> Engine:
        return MilvusEngine(MilvusSettings(url=_http(port), index=index, timeout_s=PATIENCE_S))

    try:
        yield Served("Milvus Lite, the substitute in Python", server.port, _http, engine)
    finally:
        server.kill()


@contextmanager
def osmem(_: Path) -> Iterator[Served]:
    """An implementation of OpenSearch's API without vectors."""
    server = opensearch_server.Osmem()
    server.start()
    try:
        yield Served("osmem-server, a substitute", urlsplit(server.url).port or 0, _http, _opensearch, [TERMS])
    finally:
        server.kill()


@contextmanager
def noida(folder: Path) -> Iterator[Served]:
    """An implementation of Elasticsearch's API behind a translation; term weights take it seconds."""
    server = opensearch_server.Noida(folder)
    server.start()
    try:
        yield Served("noida-db, a substitute", urlsplit(server.url).port or 0, _http, _opensearch, [VECTORS])
    finally:
        server.kill()


def _opensearch(port: int) -> Engine:
    return OpensearchEngine(OpensearchSettings(url=_http(port), timeout_s=PATIENCE_S))


def _http(port: int) -> str:
    return f"http://127.0.0.1:{port}"
