"""Sections of the configuration that concern the index: sources, chunking, models, retrievers, edges, generations.

Sections of the configuration that concern engines, where indexes live, and executors, which embed texts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from retrieve_cli.config.bounds import SettingsSection, bounded, key, named, reaching
from retrieve_cli.frozen import field


class FieldSetting(SettingsSection):
    """Target field of a catalog key, and its weight, by default the field's own; a bare number keeps the key's name, a
    bare name is the field."""

    to: str
    weight: float | None = bounded(None, 0)


SOURCES = ("catalog", "docs", "http", "sparql", "mcp", "inbox")


class SourceSetting(SettingsSection):
    """One entry of `sources.list`: an origin of records. Its kind decides its keys."""

    kind: str = key(field(), reaches="plug-in", choices=lambda: SOURCES)
    """catalog, docs, http, sparql, mcp, inbox, or a plug-in."""
    name: str = ""
    path: Path | None = None
    url: str | None = reaching("download", default=None)
    endpoint: str | None = reaching("download", default=None)
    command: str | None = reaching("code", default=None)
    query: Path | None = None
    graph: str | None = None
    page_size: int | None = bounded(None, 1)
    id_prefix: str = ""
    id: str = ""
    fields: Mapping[str, str] = {}
    exclude: Sequence[str] = []
    sha1: str = "auto"
    token_env: str | None = None
    user_env: str | None = None
    password_env: str | None = None
    timeout_s: float = bounded(30.0, 0.1)
    deadline_s: float = bounded(600.0, 0.1)
    retries: int = bounded(4, 0, 100)
    max_mb: float = bounded(2048.0, 0.001)


class SourcesSettings(SettingsSection):
    """Origins of the records, and whether a query syncs first; null: only a server without an index does."""

    auto_sync: bool | None = None
    list: Sequence[SourceSetting] = []


class AboutSettings(SettingsSection):
    """Name and description of the index, for agents and people who choose among several; null: from its contents."""

    name: str | None = None
    description: str | None = None


class FreshnessSettings(SettingsSection):
    """Consequence for a query if its sources have changed since the build."""

    policy: Literal["warn", "fail", "sync"] = "warn"


class SyncSettings(SettingsSection):
    """Limits of a sync: the share that a source may lose, the wait for another writer; and when a query runs one."""

    max_shrink: float = bounded(0.5, 0, 1)
    wait: float = bounded(30.0, 0)
    every_hours: float | None = bounded(None, 0)


class StoreSettings(SettingsSection):
    """Number of generations that are kept."""

    keep: int = bounded(3, 1, 10_000)


class CatalogSettings(SettingsSection):
    """Keys of a catalog that become text, and their weights; and the layout and size of tables."""

    fields: Mapping[str, FieldSetting] = {}
    header: int | None = bounded(None, 0)
    sheet: str = key("", also_numbers=True)
    split: Mapping[str, str] = {}
    max_cells: int = bounded(1_000_000, 1000, 10**12)


class DocsSettings(SettingsSection):
    """Reading of a folder of documents."""

    name_weight: float = bounded(2.0, 0)
    max_mb: float = bounded(64.0, 0.001, 4096)
    follow_links: bool = reaching("path all", default=False)
    gitignore: bool = True
    include: Sequence[str] = []
    exclude: Sequence[str] = []
    mode: Literal["index", "standard_chunking"] = "index"


class ParsingSettings(SettingsSection):
    """Limits for parsing a document."""

    max_mb: float = bounded(200.0, 0.001, 4096)
    memory_mb: float = bounded(1024.0, 256, 65_536)
    cpu_s: float = bounded(60.0, 0.1, 3600)
    workers: int | None = bounded(None, 1, 256)


class BuildSettings(SettingsSection):
    """Limit of rejected records, as a share or a number; null: 5 % if there are at least 20 records."""

    max_fail: float | None = bounded(None, 0)


STRATEGIES = ("auto", "section", "imrad", "window")
MARKERS = ("imrad", "drug_label")


class ChunkingRule(SettingsSection):
    """One entry of `chunking.rules`: how to cut the records of some files; null: as in the section."""

    match: str
    """A glob of paths, as sources name their files, or the name of a source."""
    strategy: str | None = key(None, choices=lambda: STRATEGIES)
    size: int | None = bounded(None, 8)
    overlap: int | None = bounded(None, 0)
    markers: str | Sequence[str] = ()
    """The name of a set of labels, or titles of sections."""


class ChunkingSettings(SettingsSection):
    """Division of records into chunks."""

    strategy: str = named("auto", *STRATEGIES)
    size: int | None = bounded(None, 8)
    overlap: int = bounded(0, 0)
    coherence: bool = False
    rules: Sequence[ChunkingRule] = []
    entities: bool = False
    entities_model: str | None = key(None, folder=True, reaches="code")


class ModelsSettings(SettingsSection):
    """Folders of models, and whether missing ones are downloaded."""

    auto_download: bool = reaching("download", default=False)
    dir: Path | None = reaching("code", default=None)
    cache_dir: Path | None = None


class EncoderSettings(SettingsSection):
    """Model that turns texts into vectors, and its execution."""

    kind: str = named("auto", "auto", "onnx", "openvino", "torch", "hashed", "remote")
    model: str = reaching("model", default="all-MiniLM-L6-v2")
    policy: Literal["optional", "required", "skip"] = "optional"
    device: Literal["auto", "cpu", "cuda"] = "auto"
    query_prefix: str | None = None
    passage_prefix: str | None = None
    precision: Literal["auto", "float32", "float16", "bfloat16"] = "auto"
    dim: int = bounded(512, 8)
    base_url: str | None = None
    api_key_env: str | None = None
    dimensions: int | None = bounded(None, 1)
    max_tokens: int = bounded(512, 16)
    tokenizer: Path | None = None
    timeout_s: float = bounded(20.0, 0.1)
    build_timeout_s: float | None = bounded(None, 0.1)
    retries: int = bounded(4, 0, 100)


def _stemming() -> tuple[str, ...]:
    from retrieve_cli.contracts.terms.languages import languages

    return ("auto", "english", "none", *(code for code, one in languages().items() if one.stemmer))


class Bm25Settings(SettingsSection):
    """Weighting and analysis of terms."""

    variant: Literal["lucene", "robertson", "atire", "okapi"] = "lucene"
    unit: Literal["auto", "record", "chunk"] = "auto"
    k1: float = bounded(1.2, 0)
    b: float = bounded(0.75, 0, 1)
    stemming: str = key("auto", choices=_stemming)
    stop_words: Literal["auto", "english", "none"] = "auto"
    languages: Mapping[str, str] = {}
    """Languages of the records that match a glob of paths or ids."""
    segmenter: str = named("pairs", "pairs")


EXTRACTIVE = "extractive"
"""The prompt that needs no model: facets are sentences of the text."""


class FacetsSettings(SettingsSection):
    """Summaries of chunks, or other short statements on them, by a language model or a rule."""

    base_url: str | None = None
    model: str | None = None
    api_key_env: str | None = None
    prompt: Path | None = key(None, names=("summary", "pico", EXTRACTIVE))
    policy: Literal["optional", "required"] = "optional"
    max_tokens: int = bounded(300, 16, 100_000)
    max_tokens_total: int | None = bounded(None, 1, float("inf"))
    retries: int = bounded(4, 0, 100)
    weight: float = bounded(0.0, 0, 1000)

    @property
    def extractive(self) -> bool:
        """True if facets are sentences of the text."""
        return str(self.prompt) == EXTRACTIVE

    @property
    def enabled(self) -> bool:
        """True if chunks have facets."""
        return self.base_url is not None or self.extractive


class DenseSettings(SettingsSection):
    """Index of the vectors."""

    enabled: bool = True
    index: Literal["flat", "hnsw"] = "flat"
    hnsw_m: int = bounded(32, 2, 512)
    hnsw_ef_construction: int = bounded(200, 1, 10_000)
    hnsw_ef_search: int = bounded(128, 1, 10_000)
    device: Literal["auto", "cpu", "cuda"] = "auto"


class GraphSettings(SettingsSection):
    """Origins of the edges between records."""

    relations: Mapping[str, str] = field(
        default_factory=lambda: {
            "requires_tool": "requires",
            "compatible_with": "compatible_with",
            "part_of": "part_of",
            "links_to": "links_to",
        }
    )
    entities: Sequence[str] = field(default_factory=lambda: ["domain"])
    files: Sequence[Path] = []


class SpladeSettings(SettingsSection):
    """Model that turns texts into term weights, and its execution."""

    model: str | None = reaching("model", default=None)
    policy: Literal["optional", "required"] = "optional"
    device: Literal["auto", "cpu", "cuda"] = "auto"
    min_weight: float = bounded(0.0, 0)


LOCAL = "local"
"""Place of an index that lives in files."""
SERVERS = ("pgvector", "qdrant", "opensearch")
"""Built-in engines: each has a section of the settings and a package in `engines/` of its name."""
HNSW_M, HNSW_EF_CONSTRUCTION, HNSW_EF_SEARCH = 16, 128, 400
"""Links of a row in the graphs that engines build, rows that are compared for them, and rows that a query compares."""
TERM_SERVERS = ("qdrant", "opensearch")
"""Those that hold term weights."""


class PgvectorSettings(SettingsSection):
    """PostgreSQL with the extension pgvector."""

    url: str = "postgresql://localhost:5432/postgres"
    password_env: str | None = None
    schema: str = "retrieve"
    timeout_s: float = bounded(30.0, 0.1)


class QdrantSettings(SettingsSection):
    """Qdrant, by its REST interface."""

    url: str = "http://localhost:6333"
    api_key_env: str | None = None
    collection: str = "chunks_vectors"
    quantize: Literal["none", "int8"] = "int8"
    timeout_s: float = bounded(30.0, 0.1)


class OpensearchSettings(SettingsSection):
    """OpenSearch."""

    url: str = "http://localhost:9200"
    user_env: str | None = None
    password_env: str | None = None
    index: str = "chunks"
    timeout_s: float = bounded(30.0, 0.1)


class EnginesSettings(SettingsSection):
    """Place of each retriever's index: local files, or an engine."""

    dense: str = named(LOCAL, LOCAL, *SERVERS, reaches="address")
    lexical: str = named(LOCAL, LOCAL, *TERM_SERVERS, reaches="address")
    sparse: str = named(LOCAL, LOCAL, *TERM_SERVERS, reaches="address")
    texts: Literal["engine", "local"] = "engine"

    @property
    def in_use(self) -> tuple[str, ...]:
        """Names of the engines that hold an index, in the order of the keys above."""
        return tuple(dict.fromkeys(place for place in (self.dense, self.lexical, self.sparse) if place != LOCAL))


ROLES = EnginesSettings.__struct_fields__[:3]
"""Keys that name the place of an index, one for each form of query: vectors, texts, learned term weights."""


class ExecutorsSettings(SettingsSection):
    """Workers that embed at a build and a sync: processes of this machine, or actors of a Ray cluster."""

    workers: int = bounded(0, 0, 256)
    executor: str | None = reaching("address", default=None)
