"""Settings: every configuration key with its default and bounds, frozen; loading.py reads them.

This is loaded on the way to every answer, so nothing is checked here: values.py checks configured values. A key's
bounds are beside its default, its comment in the repository's config.yaml.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from retrieve_cli.config.bounds import LARGEST, SettingsSection, key
from retrieve_cli.config.index_settings import (
    MARKERS,
    STRATEGIES,
    AboutSettings,
    Bm25Settings,
    BuildSettings,
    CatalogSettings,
    ChunkingRule,
    ChunkingSettings,
    DenseSettings,
    DocsSettings,
    EncoderSettings,
    EnginesSettings,
    ExecutorsSettings,
    FacetsSettings,
    FieldSetting,
    FreshnessSettings,
    GraphSettings,
    ModelsSettings,
    OpensearchSettings,
    ParsingSettings,
    PgvectorSettings,
    QdrantSettings,
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
    RecencySettings,
    RelaxationSettings,
    RerankSettings,
    SearchSettings,
    SynonymSettings,
    WebSettings,
)
from retrieve_cli.contracts import Json
from retrieve_cli.errors import Unavailable, UsageError
from retrieve_cli.frozen import field

__all__ = [
    "LARGEST",
    "MARKERS",
    "STRATEGIES",
    "AboutSettings",
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
    "ModelsSettings",
    "OpensearchSettings",
    "PgvectorSettings",
    "QdrantSettings",
    "QuerySettings",
    "RecencySettings",
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
    "SynonymSettings",
    "WebSettings",
    "sections",
]


class ServeSettings(SettingsSection):
    """Names and web pages that the server answers."""

    allowed_hosts: Sequence[str] = key([], reaches="access")
    allowed_origins: Sequence[str] = key([], reaches="access")
    picture_hosts: Sequence[str] = key([], reaches="download")


class McpSettings(SettingsSection):
    """Folders of the files that an MCP client of this user may name; none: the working folder of the process. And the
    tools of other servers that clients may call, by server or server/tool, with `*`; none: none."""

    files: Sequence[Path] = []
    allow: Sequence[str] = key([], reaches="code")


class JwtSettings(SettingsSection):
    """The issuer of signed tokens, and what their claims mean."""

    issuer: str | None = None
    audience: str | None = None
    jwks_url: str | None = key(None, reaches="download")
    jwks_file: Path | None = None
    secret_env: str | None = None
    algorithms: Sequence[str] = field(default_factory=lambda: ["RS256", "PS256", "ES256", "EdDSA"])
    tenant_claim: str | None = None
    scope_claim: str = "scope"


Changes = Literal["answers", "index", "neither"]
"""The effect of a section: it changes answers of the same index, the index itself, or neither."""


TRUST_HINT = "look at it and agree: retrieve trust"
NOT_AGREED = "reaches out of its folder ({}), and you did not agree to that"


def section_names() -> list[str]:
    """Return the names of the sections, in their order."""
    return [name for name in Settings.__struct_fields__ if name != "withheld"]


def sections(changes: Changes) -> frozenset[str]:
    """Return the sections that change answers of the same index, the index itself, or neither."""
    return frozenset(name for name in section_names() if Settings.metadata[name]["changes"] == changes)


class Settings(SettingsSection):
    """Settings by section."""

    sources: SourcesSettings = key(SourcesSettings(), changes="neither")
    about: AboutSettings = key(AboutSettings(), changes="neither")
    freshness: FreshnessSettings = key(FreshnessSettings(), changes="neither")
    catalog: CatalogSettings = key(CatalogSettings(), changes="index")
    docs: DocsSettings = key(DocsSettings(), changes="index")
    parsing: ParsingSettings = key(ParsingSettings(), changes="index")
    build: BuildSettings = key(BuildSettings(), changes="neither")
    sync: SyncSettings = key(SyncSettings(), changes="neither")
    store: StoreSettings = key(StoreSettings(), changes="neither")
    engines: EnginesSettings = key(EnginesSettings(), changes="neither")
    pgvector: PgvectorSettings = key(PgvectorSettings(), changes="neither")
    qdrant: QdrantSettings = key(QdrantSettings(), changes="neither")
    opensearch: OpensearchSettings = key(OpensearchSettings(), changes="neither")
    chunking: ChunkingSettings = key(ChunkingSettings(), changes="index")
    facets: FacetsSettings = key(FacetsSettings(), changes="index")
    models: ModelsSettings = key(ModelsSettings(), changes="answers")
    encoder: EncoderSettings = key(EncoderSettings(), changes="index")
    executors: ExecutorsSettings = key(ExecutorsSettings(), changes="neither")
    bm25: Bm25Settings = key(Bm25Settings(), changes="index")
    dense: DenseSettings = key(DenseSettings(), changes="index")
    search: SearchSettings = key(SearchSettings(), changes="answers")
    fusion: FusionSettings = key(FusionSettings(), changes="answers")
    splade: SpladeSettings = key(SpladeSettings(), changes="index")
    rerank: RerankSettings = key(RerankSettings(), changes="answers")
    llm: LlmSettings = key(LlmSettings(), changes="answers")
    graph: GraphSettings = key(GraphSettings(), changes="index")
    expansion: ExpansionSettings = key(ExpansionSettings(), changes="answers")
    gating: GatingSettings = key(GatingSettings(), changes="answers")
    diversity: DiversitySettings = key(DiversitySettings(), changes="answers")
    boost: BoostSettings = key(BoostSettings(), changes="answers")
    recency: RecencySettings = key(RecencySettings(), changes="answers")
    synonyms: SynonymSettings = key(SynonymSettings(), changes="answers")
    broadening: RelaxationSettings = key(RelaxationSettings(), changes="answers")
    context: ContextSettings = key(ContextSettings(), changes="answers")
    budget: BudgetSettings = key(BudgetSettings(), changes="answers")
    log: LogSettings = key(LogSettings(), changes="answers")
    serve: ServeSettings = key(ServeSettings(), changes="neither")
    mcp: McpSettings = key(McpSettings(), changes="neither")
    jwt: JwtSettings = key(JwtSettings(), changes="neither")
    query: QuerySettings = key(QuerySettings(), changes="neither")
    web: WebSettings = key(WebSettings(), changes="neither")
    plugins: Mapping[str, Mapping[str, Json]] = key({}, changes="index")
    """Configuration of plug-ins, by name; `enabled: false` switches a plug-in off."""
    withheld: Sequence[str] = key((), changes="neither")
    """No section: keys of the file (`rerank.base_url`) that are at their defaults, because they reach out of its folder
    and the user did not agree to it; see trust.py."""

    def withholds(self, *names: str) -> str:
        """Return the withheld keys of some sections, in words; empty if none is withheld."""
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
