"""Settings: every configuration key with its default and bounds, frozen; loading.py reads them.

Plain dataclasses: this is loaded on the way to every answer, and a validation library would cost half a query.
A key's bounds stand beside its default, its comment in the repository's config.yaml.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, fields
from pathlib import Path
from typing import Any, Literal

from retrieve_cli.config import plugins
from retrieve_cli.contracts import Json
from retrieve_cli.frozen import dataclass

LARGEST = 1_000_000.0
"""The largest number that a key takes; anything larger is a typing error."""


def _bounded(default: float | None, low: float, high: float = LARGEST) -> Any:
    return field(default=default, metadata={"low": low, "high": high})


def _named(default: str, *choices: str) -> Any:
    """A key that takes one of these, or the name of a plug-in."""
    return field(default=default, metadata={"choices": lambda: choices})


@dataclass(frozen=True)
class FieldSetting:
    """Target field of a catalog key, and its weight; a bare number keeps the key's own name."""

    to: str
    weight: float = _bounded(1.0, 0)


@dataclass(frozen=True)
class SourceSetting:
    """One entry of `sources.list`: an origin of records. Its kind decides its keys."""

    kind: str
    """catalog, docs, http, sparql, or a plug-in."""
    name: str = ""
    path: Path | None = None
    url: str | None = None
    endpoint: str | None = None
    query: Path | None = None
    graph: str | None = None
    page_size: int | None = _bounded(None, 1)
    id_prefix: str = ""
    sha1: str = "auto"
    token_env: str | None = None
    user_env: str | None = None
    password_env: str | None = None
    timeout_s: float = _bounded(30.0, 0.1)
    deadline_s: float = _bounded(600.0, 0.1)
    retries: int = _bounded(4, 0, 100)
    max_mb: float = _bounded(2048.0, 0.001)


@dataclass(frozen=True)
class SourcesSettings:
    """Origins of the records, and whether a query syncs first."""

    auto_sync: bool = False
    list: Sequence[SourceSetting] = field(default_factory=list)


@dataclass(frozen=True)
class FreshnessSettings:
    """Consequence for a query if its sources have changed since the build."""

    policy: Literal["warn", "fail", "sync"] = "warn"


@dataclass(frozen=True)
class SyncSettings:
    """Limits of a sync: the share that a source may lose, the wait for another writer; when a query runs one; and when
    rejected records are reported."""

    max_shrink: float = _bounded(0.5, 0, 1)
    wait: float = _bounded(30.0, 0)
    every_hours: float | None = _bounded(None, 0)
    report_rejected: Literal["new", "always"] = "new"


@dataclass(frozen=True)
class StoreSettings:
    """Number of generations that are kept."""

    keep: int = _bounded(3, 1, 10_000)


@dataclass(frozen=True)
class CatalogSettings:
    """Keys of a catalog that become text, and their weights."""

    fields: Mapping[str, FieldSetting] = field(default_factory=dict)


@dataclass(frozen=True)
class DocsSettings:
    """Reading of a folder of documents."""

    name_weight: float = _bounded(2.0, 0)
    max_mb: float = _bounded(64.0, 0.001, 4096)
    follow_links: bool = False
    mode: Literal["index", "standard_chunking"] = "index"
    unindexed_max_mb: float = _bounded(10.0, 0.001, 4096)


@dataclass(frozen=True)
class BuildSettings:
    """Limit of rejected records, as a share or a number."""

    max_fail: float = _bounded(0.05, 0)


STRATEGIES = ("auto", "section", "imrad", "window")
MARKERS = ("imrad", "drug_label")


@dataclass(frozen=True)
class ChunkingRule:
    """One entry of `chunking.rules`: how the records of some files are cut; null: as the section says."""

    match: str
    """A glob of paths, as sources name their files, or the name of a source."""
    strategy: str | None = field(default=None, metadata={"choices": lambda: STRATEGIES})
    size: int | None = _bounded(None, 8)
    overlap: int | None = _bounded(None, 0)
    markers: str | Sequence[str] = ()
    """The name of a set of labels, or titles of sections."""


@dataclass(frozen=True)
class ChunkingSettings:
    """Division of records into chunks."""

    strategy: str = _named("auto", *STRATEGIES)
    size: int | None = _bounded(None, 8)
    overlap: int = _bounded(0, 0)
    coherence: bool = False
    language: str = "en"
    rules: Sequence[ChunkingRule] = field(default_factory=list)
    entities: bool = False
    entities_model: str | None = field(default=None, metadata={"folder": True})


@dataclass(frozen=True)
class ModelsSettings:
    """Folders of models, and whether missing ones are downloaded."""

    auto_download: bool = False
    dir: Path | None = None
    cache_dir: Path | None = None


@dataclass(frozen=True)
class EncoderSettings:
    """Model that turns texts into vectors, and its execution."""

    kind: str = _named("auto", "auto", "onnx", "openvino", "torch", "hashed", "remote")
    model: str = "all-MiniLM-L6-v2"
    policy: Literal["optional", "required"] = "optional"
    device: Literal["auto", "cpu", "cuda"] = "auto"
    query_prefix: str | None = None
    passage_prefix: str | None = None
    precision: Literal["auto", "float32", "float16", "bfloat16"] = "auto"
    batch_size: int = _bounded(32, 1)
    dim: int = _bounded(512, 8)
    base_url: str | None = None
    api_key_env: str | None = None
    dimensions: int | None = _bounded(None, 1)
    max_tokens: int = _bounded(512, 16)
    tokenizer: Path | None = None
    timeout_s: float = _bounded(20.0, 0.1)
    build_timeout_s: float | None = _bounded(None, 0.1)
    retries: int = _bounded(4, 0, 100)
    concurrency: int = _bounded(4, 1, 1000)


@dataclass(frozen=True)
class Bm25Settings:
    """Weighting and analysis of terms."""

    backend: Literal["impacts", "rank_bm25"] = "impacts"
    variant: Literal["lucene", "robertson", "atire", "okapi"] = "lucene"
    unit: Literal["auto", "record", "chunk"] = "auto"
    k1: float = _bounded(1.2, 0)
    b: float = _bounded(0.75, 0, 1)
    stemming: Literal["english", "none"] = "english"
    stop_words: Literal["english", "none"] = "english"


@dataclass(frozen=True)
class DenseSettings:
    """Index of the vectors."""

    enabled: bool = True
    index: Literal["flat", "hnsw"] = "flat"
    hnsw_m: int = _bounded(32, 2, 512)
    hnsw_ef_construction: int = _bounded(200, 1, 10_000)
    hnsw_ef_search: int = _bounded(128, 1, 10_000)
    quantized_from: int | None = _bounded(250_000, 0)
    device: Literal["auto", "cpu", "cuda"] = "auto"


@dataclass(frozen=True)
class SearchSettings:
    """Defaults of a query."""

    engine: Literal["advanced", "naive"] = "advanced"
    mode: str = field(default=plugins.HYBRID, metadata={"choices": plugins.modes})
    retrievers: Sequence[str] = field(default_factory=list, metadata={"choices": plugins.answering_names})
    k: int = _bounded(10, 1, float("inf"))
    depth: int = _bounded(200, 1, float("inf"))
    similarity_top_k: int | None = _bounded(None, 1, float("inf"))
    grade: float | None = _bounded(None, -1, 1)
    max_distance: float | None = _bounded(None, 0, 2)
    min_score: float | None = _bounded(None, -LARGEST)
    min_results: int = _bounded(0, 0)
    deadline_ms: float | None = _bounded(None, 1)
    file_tokens: bool = True
    require_tenant: bool = False
    max_also: int = _bounded(8, 0, 1000)
    per_text: int | None = _bounded(None, 1)


@dataclass(frozen=True)
class RelaxationSettings:
    """Retries with fewer terms when a query has few results."""

    min_results: int = _bounded(5, 0)
    max_retries: int = _bounded(2, 0, 2)


@dataclass(frozen=True)
class GraphSettings:
    """Origins of the edges between records."""

    relations: Mapping[str, str] = field(
        default_factory=lambda: {
            "requires_tool": "requires",
            "compatible_with": "compatible_with",
            "part_of": "part_of",
        }
    )
    entities: Sequence[str] = field(default_factory=lambda: ["domain"])
    files: Sequence[Path] = field(default_factory=list)


@dataclass(frozen=True)
class ExpansionSettings:
    """Addition of linked records to the results."""

    enabled: bool | None = None
    method: Literal["paths", "pagerank"] = "paths"
    depth: int = _bounded(2, 1, 10)
    max_nodes: int = _bounded(200, 1)
    decay: float = _bounded(0.7, 0, 1)
    seeds: int = _bounded(5, 1, 1000)
    kinds: Sequence[str] = field(default_factory=list)
    weights: Mapping[str, float] = field(default_factory=dict, metadata={"low": 0, "high": 1})
    domain_share: float = _bounded(0.2, 0, 1)
    before_rerank: bool = False
    bundle: bool = False


@dataclass(frozen=True)
class GatingSettings:
    """Restriction of a query to the groups that a first pass picks."""

    enabled: bool = False
    field: str = "group"
    global_candidates: int = _bounded(300, 1)
    top_groups: int = _bounded(10, 1)
    per_group: int | None = _bounded(None, 1)
    min_results: int = _bounded(5, 0)


@dataclass(frozen=True)
class DiversitySettings:
    """Limits on results that resemble one another."""

    per_source: int | None = _bounded(None, 1)
    per_group: int | None = _bounded(None, 1)
    mmr: float | None = _bounded(None, 0.01, 1)


@dataclass(frozen=True)
class BoostSettings:
    """By field and value, in the filter language, the factor of what has it."""

    factors: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


@dataclass(frozen=True)
class ContextSettings:
    """Number of neighbouring chunks that a hit brings along."""

    window: int = _bounded(0, 0, 1000)
    table_window: int | None = _bounded(None, 0, 1000)


@dataclass(frozen=True)
class BudgetSettings:
    """Limits on the size of an answer."""

    max_chunks: int | None = _bounded(None, 1)
    max_tokens: int | None = _bounded(None, 1)
    tokenizer: Path | None = field(default=None, metadata={"names": ("encoder", "words", "pieces")})


@dataclass(frozen=True)
class LogSettings:
    """Log of queries."""

    queries: bool = False
    min_candidates: int = _bounded(8, 0)


@dataclass(frozen=True)
class FusionSettings:
    """Combination of the rankings of the retrievers."""

    method: Literal["weighted", "rrf"] = "weighted"
    normalization: Literal["zscore", "zscore_candidates", "minmax"] = "zscore"
    rrf_k: float = _bounded(60, 0)
    weights: Mapping[str, float] = field(
        default_factory=dict, metadata={"low": 0, "high": LARGEST, "choices": plugins.answering_names}
    )


@dataclass(frozen=True)
class SpladeSettings:
    """Model that turns texts into term weights, and its execution."""

    model: str | None = None
    policy: Literal["optional", "required"] = "optional"
    device: Literal["auto", "cpu", "cuda"] = "auto"
    batch_size: int | None = _bounded(None, 1)
    min_weight: float = _bounded(0.0, 0)
    top_terms: int | None = _bounded(None, 1)
    query_top_terms: int | None = _bounded(None, 1)


@dataclass(frozen=True)
class RerankSettings:
    """Second scoring of the first results."""

    backend: str = _named("auto", "auto", "none", "maxsim", "cross_encoder", "remote", "llm")
    policy: Literal["optional", "required"] = "optional"
    depth: int = _bounded(50, 1, 10_000)
    keep: int | None = _bounded(None, 1)
    interpolate: float = _bounded(0.6, 0, 1)
    min_score: float | None = _bounded(None, -LARGEST)
    model: str | None = None
    device: Literal["auto", "cpu", "cuda"] = "auto"
    max_tokens: int | None = _bounded(512, 16)
    batch_size: int = _bounded(32, 1)
    base_url: str | None = None
    api_key_env: str | None = None
    timeout_s: float = _bounded(30.0, 0.1)
    retries: int = _bounded(2, 0, 100)
    concurrency: int = _bounded(4, 1, 1000)
    form: Literal["auto", "jina", "tei"] = "auto"
    prompt: Literal["score", "pick"] = "score"


@dataclass(frozen=True)
class LlmSettings:
    """Language model that chooses records by their names and descriptions."""

    base_url: str | None = None
    model: str | None = None
    api_key_env: str | None = None
    fallback: bool = True
    timeout_s: float = _bounded(60.0, 0.1)
    retries: int = _bounded(2, 0, 100)
    concurrency: int = _bounded(4, 1, 1000)
    context_tokens: int = _bounded(16_384, 4096, 10_000_000)
    max_records: int = _bounded(1000, 1, 100_000)
    description_chars: int = _bounded(400, 20, 10_000)
    depth: int = _bounded(50, 1, 1000)


Changes = Literal["answers", "index", "neither"]


_ANSWERS, _INDEX, _NEITHER = ({"changes": what} for what in ("answers", "index", "neither"))
"""The effect of a section: it changes answers of the same index, the index itself, or neither."""


def sections(changes: Changes) -> frozenset[str]:
    """Return the sections that change answers of the same index, the index itself, or neither."""
    return frozenset(section.name for section in fields(Settings) if section.metadata["changes"] == changes)


@dataclass(frozen=True)
class Settings:
    """Settings by section."""

    sources: SourcesSettings = field(default_factory=SourcesSettings, metadata=_NEITHER)
    freshness: FreshnessSettings = field(default_factory=FreshnessSettings, metadata=_NEITHER)
    catalog: CatalogSettings = field(default_factory=CatalogSettings, metadata=_INDEX)
    docs: DocsSettings = field(default_factory=DocsSettings, metadata=_INDEX)
    build: BuildSettings = field(default_factory=BuildSettings, metadata=_NEITHER)
    sync: SyncSettings = field(default_factory=SyncSettings, metadata=_NEITHER)
    store: StoreSettings = field(default_factory=StoreSettings, metadata=_NEITHER)
    chunking: ChunkingSettings = field(default_factory=ChunkingSettings, metadata=_INDEX)
    models: ModelsSettings = field(default_factory=ModelsSettings, metadata=_ANSWERS)
    encoder: EncoderSettings = field(default_factory=EncoderSettings, metadata=_INDEX)
    bm25: Bm25Settings = field(default_factory=Bm25Settings, metadata=_INDEX)
    dense: DenseSettings = field(default_factory=DenseSettings, metadata=_INDEX)
    search: SearchSettings = field(default_factory=SearchSettings, metadata=_ANSWERS)
    fusion: FusionSettings = field(default_factory=FusionSettings, metadata=_ANSWERS)
    splade: SpladeSettings = field(default_factory=SpladeSettings, metadata=_INDEX)
    rerank: RerankSettings = field(default_factory=RerankSettings, metadata=_ANSWERS)
    llm: LlmSettings = field(default_factory=LlmSettings, metadata=_ANSWERS)
    graph: GraphSettings = field(default_factory=GraphSettings, metadata=_INDEX)
    expansion: ExpansionSettings = field(default_factory=ExpansionSettings, metadata=_ANSWERS)
    gating: GatingSettings = field(default_factory=GatingSettings, metadata=_ANSWERS)
    diversity: DiversitySettings = field(default_factory=DiversitySettings, metadata=_ANSWERS)
    boost: BoostSettings = field(default_factory=BoostSettings, metadata=_ANSWERS)
    broadening: RelaxationSettings = field(default_factory=RelaxationSettings, metadata=_ANSWERS)
    context: ContextSettings = field(default_factory=ContextSettings, metadata=_ANSWERS)
    budget: BudgetSettings = field(default_factory=BudgetSettings, metadata=_ANSWERS)
    log: LogSettings = field(default_factory=LogSettings, metadata=_ANSWERS)
    plugins: Mapping[str, Mapping[str, Json]] = field(default_factory=dict, metadata=_INDEX)
    """By name of a plug-in, what it is configured with; `enabled: false` switches it off."""

    @property
    def syncs_each_time(self) -> bool:
        """True if each query syncs first."""
        return self.sources.auto_sync or self.freshness.policy == "sync"
