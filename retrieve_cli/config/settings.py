"""Settings: every configuration key with its default and bounds, frozen; loading.py reads them.

Plain dataclasses: this is loaded on the way to every answer, and a validation library would cost half a query.
A key's bounds stand beside its default, its comment in the repository's config.yaml.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, fields
from pathlib import Path
from typing import Literal

from retrieve_cli.config.bounds import LARGEST, bounded
from retrieve_cli.config.engine_settings import (
    EnginesSettings,
    ExecutorsSettings,
    MilvusSettings,
    OpensearchSettings,
    PgvectorSettings,
    QdrantSettings,
)
from retrieve_cli.config.index_settings import (
    MARKERS,
    STRATEGIES,
    Bm25Settings,
    BuildSettings,
    CatalogSettings,
    ChunkingRule,
    ChunkingSettings,
    DenseSettings,
    DocsSettings,
    EncoderSettings,
    FacetsSettings,
    FieldSetting,
    FreshnessSettings,
    GraphSettings,
    ModelsSettings,
    ParsingSettings,
    SourceSetting,
    SourcesSettings,
    SpladeSettings,
    StoreSettings,
    SyncSettings,
)
from retrieve_cli.config.query_settings import (
    BoostSettings,
    BudgetSettings,
    ContextSettings,
    DiversitySettings,
    ExpansionSettings,
    FusionSettings,
    GatingSettings,
    LlmSettings,
    LogSettings,
    QuerySettings,
    RelaxationSettings,
    RerankSettings,
    SearchSettings,
)
from retrieve_cli.config.web_settings import WebSettings
from retrieve_cli.contracts import Json
from retrieve_cli.errors import Unavailable, UsageError
from retrieve_cli.frozen import dataclass

__all__ = [
    "LARGEST",
    "MARKERS",
    "STRATEGIES",
    "Bm25Settings",
    "BoostSettings",
    "BudgetSettings",
    "BuildSettings",
    "CatalogSettings",
    "Changes",
    "ChunkingRule",
    "ChunkingSettings",
    "ContextSettings",
    "DenseSettings",
    "DiversitySettings",
    "DocsSettings",
    "EncoderSettings",
    "EnginesSettings",
    "ExecutorsSettings",
    "ExpansionSettings",
    "FacetsSettings",
    "FieldSetting",
    "FreshnessSettings",
    "FusionSettings",
    "GatingSettings",
    "GraphSettings",
    "JwtSettings",
    "LlmSettings",
    "LogSettings",
    "McpSettings",
    "MilvusSettings",
    "ModelsSettings",
    "OpensearchSettings",
    "PgvectorSettings",
    "QdrantSettings",
    "QuerySettings",
    "RelaxationSettings",
    "RerankSettings",
    "SearchSettings",
    "ServeSettings",
    "Settings",
    "SourceSetting",
    "SourcesSettings",
    "SpladeSettings",
    "StoreSettings",
    "SyncSettings",
    "WebSettings",
    "sections",
]


@dataclass(frozen=True)
class ServeSettings:
    """Names and web pages that the server answers."""

    allowed_hosts: Sequence[str] = field(default_factory=list, metadata={"reaches": "access"})
    allowed_origins: Sequence[str] = field(default_factory=list, metadata={"reaches": "access"})


@dataclass(frozen=True)
class McpSettings:
    """Folders of the files that an MCP client of this user may name; none: the working folder of the process."""

    files: Sequence[Path] = field(default_factory=list)


@dataclass(frozen=True)
class JwtSettings:
    """The issuer of signed tokens, and what their claims mean."""

    issuer: str | None = None
    audience: str | None = None
    jwks_url: str | None = None
    jwks_file: Path | None = None
    secret_env: str | None = None
    algorithms: Sequence[str] = field(default_factory=lambda: ["RS256", "PS256", "ES256", "EdDSA"])
    leeway_s: float = bounded(30.0, 0, 300)
    tenant_claim: str | None = None
    scope_claim: str = "scope"
    rate: str | None = None


Changes = Literal["answers", "index", "neither"]


_ANSWERS, _INDEX, _NEITHER = ({"changes": what} for what in ("answers", "index", "neither"))
"""The effect of a section: it changes answers of the same index, the index itself, or neither."""


TRUST_HINT = "look at it and agree: retrieve trust"
NOT_AGREED = "reaches out of its folder ({}), and you did not agree to that"


def section_names() -> list[str]:
    """Return the names of the sections, in their order."""
    return [field.name for field in fields(Settings) if field.name != "withheld"]


def sections(changes: Changes) -> frozenset[str]:
    """Return the sections that change answers of the same index, the index itself, or neither."""
    return frozenset(
        field.name for field in fields(Settings) if field.metadata["changes"] == changes and field.name != "withheld"
    )


@dataclass(frozen=True)
class Settings:
    """Settings by section."""

    sources: SourcesSettings = field(default_factory=SourcesSettings, metadata=_NEITHER)
    freshness: FreshnessSettings = field(default_factory=FreshnessSettings, metadata=_NEITHER)
    catalog: CatalogSettings = field(default_factory=CatalogSettings, metadata=_INDEX)
    docs: DocsSettings = field(default_factory=DocsSettings, metadata=_INDEX)
    parsing: ParsingSettings = field(default_factory=ParsingSettings, metadata=_INDEX)
    build: BuildSettings = field(default_factory=BuildSettings, metadata=_NEITHER)
    sync: SyncSettings = field(default_factory=SyncSettings, metadata=_NEITHER)
    store: StoreSettings = field(default_factory=StoreSettings, metadata=_NEITHER)
    engines: EnginesSettings = field(default_factory=EnginesSettings, metadata=_NEITHER)
    pgvector: PgvectorSettings = field(default_factory=PgvectorSettings, metadata=_NEITHER)
    qdrant: QdrantSettings = field(default_factory=QdrantSettings, metadata=_NEITHER)
    milvus: MilvusSettings = field(default_factory=MilvusSettings, metadata=_NEITHER)
    opensearch: OpensearchSettings = field(default_factory=OpensearchSettings, metadata=_NEITHER)
    chunking: ChunkingSettings = field(default_factory=ChunkingSettings, metadata=_INDEX)
    facets: FacetsSettings = field(default_factory=FacetsSettings, metadata=_INDEX)
    models: ModelsSettings = field(default_factory=ModelsSettings, metadata=_ANSWERS)
    encoder: EncoderSettings = field(default_factory=EncoderSettings, metadata=_INDEX)
    executors: ExecutorsSettings = field(default_factory=ExecutorsSettings, metadata=_NEITHER)
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
    serve: ServeSettings = field(default_factory=ServeSettings, metadata=_NEITHER)
    mcp: McpSettings = field(default_factory=McpSettings, metadata=_NEITHER)
    jwt: JwtSettings = field(default_factory=JwtSettings, metadata=_NEITHER)
    query: QuerySettings = field(default_factory=QuerySettings, metadata=_NEITHER)
    web: WebSettings = field(default_factory=WebSettings, metadata=_NEITHER)
    plugins: Mapping[str, Mapping[str, Json]] = field(default_factory=dict, metadata=_INDEX)
    """By name of a plug-in, what it is configured with; `enabled: false` switches it off."""
    withheld: Sequence[str] = field(default=(), metadata=_NEITHER)
    """No section: keys of the file (`rerank.base_url`) that are at their defaults, because they reach out of its folder
    and the user did not agree to it; see trust.py."""

    def withholds(self, *names: str) -> str:
        """Return the keys of some sections that are withheld, in words; empty if there are none."""
        return ", ".join(key for key in self.withheld if key.partition(".")[0] in names)

    def expect_trusted(self, *names: str) -> None:
        """Raises: UsageError: keys of these sections, which change the index or the kind of answer, are withheld."""
        if keys := self.withholds(*names):
            raise UsageError(f"the configuration {NOT_AGREED.format(keys)}", hint=TRUST_HINT)

    def skip_untrusted(self, *names: str) -> None:
        """Raises: Unavailable: keys of these sections, which configure a step that can be skipped, are withheld."""
        if keys := self.withholds(*names):
            raise Unavailable(f"the configuration {NOT_AGREED.format(keys)}", hint=TRUST_HINT)

    @property
    def syncs_each_time(self) -> bool:
        """True if each query syncs first."""
        return bool(self.sources.auto_sync) or self.freshness.policy == "sync"
