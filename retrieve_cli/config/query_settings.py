"""Sections of the configuration on queries: search, fusion, reranking, expansion, web search, limits, logs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from retrieve_cli.config import plugins
from retrieve_cli.config.bounds import LARGEST, SettingsSection, bounded, key, named, reaching
from retrieve_cli.frozen import field

TOKEN_BACKENDS = ("auto", "maxsim")
"""Values of `rerank.backend` that read the token vectors of an index, if it has any."""


class SearchSettings(SettingsSection):
    """Defaults of a query."""

    mode: str = key(plugins.HYBRID, choices=plugins.modes)
    retrievers: Sequence[str] = key([], choices=plugins.answering_names)
    k: int = bounded(10, 1, float("inf"))
    depth: int = bounded(200, 1, float("inf"))
    similarity_top_k: int | None = bounded(None, 1, float("inf"))
    grade: float | None = bounded(None, -1, 1)
    max_distance: float | None = bounded(None, 0, 2)
    min_score: float | str | None = key(None, low=-LARGEST, high=LARGEST, share=True)
    min_results: int = bounded(0, 0)
    deadline_ms: float | None = bounded(None, 1)
    exact_words: bool = False
    file_tokens: bool = True
    require_tenant: bool = False
    max_also: int = bounded(8, 0, 1000)


class RelaxationSettings(SettingsSection):
    """Retries with fewer terms when a query has few results."""

    min_results: int = bounded(5, 0)
    max_retries: int = bounded(2, 0, 2)


class ExpansionSettings(SettingsSection):
    """Addition of linked records to the results."""

    enabled: bool | None = None
    depth: int = bounded(2, 1, 10)
    max_nodes: int = bounded(200, 1)
    seeds: int = bounded(5, 1, 1000)
    kinds: Sequence[str] = []
    weights: Mapping[str, float] = key({}, low=0, high=1)
    domain_share: float = bounded(0.2, 0, 1)
    before_rerank: bool = False
    placement: Literal["append", "blend"] = "append"
    max_related: int = bounded(5, 0, 1000)

    @property
    def lists_related(self) -> bool:
        """True if linked records are listed apart from the results."""
        return self.enabled is not False and self.placement == "append" and self.max_related > 0


class GatingSettings(SettingsSection):
    """Restriction of a query to the groups that a first pass picks."""

    enabled: bool = False
    field: str = "group"
    global_candidates: int = bounded(300, 1)
    top_groups: int = bounded(10, 1)
    per_group: int | None = bounded(None, 1)
    min_results: int = bounded(5, 0)


class DiversitySettings(SettingsSection):
    """Limits on results that resemble one another."""

    per_source: int | None = bounded(None, 1)
    per_group: int | None = bounded(None, 1)
    mmr: float | None = bounded(None, 0.01, 1)


class BoostSettings(SettingsSection):
    """Factors of matching records or chunks, by field and value in the filter language."""

    factors: Mapping[str, Mapping[str, float]] = {}


class RecencySettings(SettingsSection):
    """Preference of records by a date."""

    field: str | None = None
    half_life: float = bounded(365.0, 0.01)


class SynonymSettings(SettingsSection):
    """Words that mean the same in a query."""

    rules: Sequence[str] = []
    file: Path | None = None


class ContextSettings(SettingsSection):
    """Number of neighbouring chunks that a hit brings along."""

    window: int = bounded(0, 0, 1000)
    table_window: int | None = bounded(None, 0, 1000)


class BudgetSettings(SettingsSection):
    """Limits on the size of an answer."""

    max_chunks: int | None = bounded(None, 1)
    max_tokens: int | None = bounded(None, 1)
    tokenizer: Path | None = key(None, names=("encoder", "words", "pieces"))


class QuerySettings(SettingsSection):
    """Server that answers `retrieve query` and `retrieve mcp`; None: the command itself."""

    server: str | None = reaching("address", default=None)
    api_key_env: str | None = None


class LogSettings(SettingsSection):
    """Log of queries."""

    queries: bool = False
    min_candidates: int = bounded(8, 0)


class FusionSettings(SettingsSection):
    """Combination of the rankings of the retrievers."""

    method: Literal["weighted", "rrf"] = "weighted"
    normalization: Literal["zscore", "zscore_candidates", "minmax"] = "zscore"
    rrf_k: float = bounded(60, 0)
    weights: Mapping[str, float] = key({}, low=0, high=LARGEST, choices=plugins.answering_names)


class RerankSettings(SettingsSection):
    """Second scoring of the first results."""

    backend: str = named("auto", "auto", "none", "maxsim", "cross_encoder", "remote", "llm")
    policy: Literal["optional", "required"] = "optional"
    depth: int = bounded(50, 1, 10_000)
    keep: int | None = bounded(None, 1)
    interpolate: float = bounded(0.6, 0, 1)
    min_score: float | None = bounded(None, -LARGEST)
    model: str | None = reaching("model", default=None)
    device: Literal["auto", "cpu", "cuda"] = "auto"
    max_tokens: int | None = bounded(512, 16)
    base_url: str | None = None
    api_key_env: str | None = None
    timeout_s: float = bounded(30.0, 0.1)
    retries: int = bounded(2, 0, 100)
    prompt: Literal["score", "pick"] = "score"


class LlmSettings(SettingsSection):
    """Language model that chooses records by their names and descriptions."""

    base_url: str | None = None
    model: str | None = None
    api_key_env: str | None = None
    timeout_s: float = bounded(60.0, 0.1)
    retries: int = bounded(2, 0, 100)
    context_tokens: int = bounded(16_384, 4096, 10_000_000)
    max_records: int = bounded(1000, 1, 100_000)


PROVIDERS = ("tavily", "serper", "serpapi", "ddg", "pubmed", "biorxiv", "s2", "arxiv")
"""Names of the built-in providers, in the order in which `--first` asks them."""
KEYLESS = "ddg"
"""The provider of the web that needs no key: asked after the others of the web, if none of them answers."""


class WebSettings(SettingsSection):
    """Providers of web and literature search, and the limits of one search."""

    enabled: bool = reaching("address", default=False)
    providers: Sequence[str] = key(
        field(default_factory=lambda: list(PROVIDERS)),
        reaches="plug-in",
        choices=lambda: PROVIDERS,
    )
    max_age: float = key(86_400.0, duration=True)
    endpoints: Mapping[str, str] = {}
