"""Sections of the configuration that concern engines, where indexes live, and executors, which embed texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from retrieve_cli.config.bounds import SettingsSection, bounded, named, reaching

LOCAL = "local"
"""Place of an index that lives in files."""
SERVERS = ("pgvector", "qdrant", "milvus", "opensearch")
"""Built-in engines: each has a section of the settings and a package in `engines/` of its name."""


class PgvectorSettings(SettingsSection):
    """PostgreSQL with the extension pgvector."""

    url: str = "postgresql://localhost:5432/postgres"
    password_env: str | None = None
    schema: str = "retrieve"
    type: Literal["vector", "halfvec"] = "vector"
    index: Literal["hnsw", "none"] = "hnsw"
    hnsw_m: int = bounded(16, 2, 100)
    hnsw_ef_construction: int = bounded(128, 4, 1000)
    hnsw_ef_search: int = bounded(400, 1, 1000)
    build_memory_mb: int = bounded(1024, 64)
    build_workers: int = bounded(2, 0, 64)
    timeout_s: float = bounded(30.0, 0.1)


class QdrantSettings(SettingsSection):
    """Qdrant, by its REST interface."""

    url: str = "http://localhost:6333"
    api_key_env: str | None = None
    collection: str = "chunks_vectors"
    quantize: Literal["none", "int8"] = "int8"
    hnsw_m: int = bounded(16, 4, 512)
    hnsw_ef_construction: int = bounded(128, 4, 4096)
    hnsw_ef_search: int = bounded(400, 1, 10_000)
    timeout_s: float = bounded(30.0, 0.1)


class MilvusSettings(SettingsSection):
    """Milvus."""

    url: str = "http://localhost:19530"
    token_env: str | None = None
    collection: str = "chunks"
    index: Literal["hnsw", "flat"] = "hnsw"
    hnsw_m: int = bounded(16, 2, 2048)
    hnsw_ef_construction: int = bounded(128, 4, 4096)
    hnsw_ef_search: int = bounded(400, 1, 10_000)
    timeout_s: float = bounded(30.0, 0.1)


class OpensearchSettings(SettingsSection):
    """OpenSearch."""

    url: str = "http://localhost:9200"
    user_env: str | None = None
    password_env: str | None = None
    index: str = "chunks"
    shards: int = bounded(1, 1, 1024)
    hnsw_m: int = bounded(16, 2, 512)
    hnsw_ef_construction: int = bounded(128, 4, 4096)
    hnsw_ef_search: int = bounded(400, 1, 10_000)
    timeout_s: float = bounded(30.0, 0.1)


class EnginesSettings(SettingsSection):
    """Place of each retriever's index: local files, or an engine."""

    dense: str = named(LOCAL, LOCAL, *SERVERS, reaches="address")
    lexical: str = named(LOCAL, LOCAL, *SERVERS, reaches="address")
    sparse: str = named(LOCAL, LOCAL, *SERVERS, reaches="address")
    store: Literal["local", "engine"] = "local"
    tokens: Literal["local", "payload"] = "local"
    keep: int = bounded(2, 1, 100)

    @property
    def in_use(self) -> tuple[str, ...]:
        """Names of the engines that hold an index, in the order of the keys above."""
        return tuple(dict.fromkeys(place for place in (self.dense, self.lexical, self.sparse) if place != LOCAL))


ROLES = EnginesSettings.__struct_fields__[:3]
"""Keys that name the place of an index, one for each form of query: vectors, texts, learned term weights."""


class ExecutorsSettings(SettingsSection):
    """Workers that embed at a build and a sync. They never change an index, unless a server computes other bits."""

    workers: int = bounded(0, 0, 256)
    executor: str | None = reaching("address", default=None)
    devices: Sequence[str] = []
    require_bit_equal: bool = False
    unit_tokens: int | None = bounded(None, 64, 10_000_000)
    lease_s: float = bounded(300.0, 1)
    timeout_s: float = bounded(120.0, 0.1)
    api_key_env: str | None = None
