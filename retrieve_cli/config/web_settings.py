"""Section of the configuration that concerns web and literature search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from retrieve_cli.config.bounds import SettingsSection, bounded, key, reaching
from retrieve_cli.frozen import field

PROVIDERS = ("tavily", "serper", "serpapi", "ddg", "pubmed", "europepmc", "biorxiv", "s2", "arxiv")
"""Names of the built-in providers, in the order in which `--first` asks them."""
KEYLESS = "ddg"
"""The provider for questions to the web if no other one has its key; otherwise it is asked only if it is configured."""
ENRICHERS = ("crossref", "s2", "biorxiv")
"""Names of the built-in sources of further facts about works that were found."""


class WebSettings(SettingsSection):
    """Providers of web and literature search, and the limits of one search."""

    enabled: bool = reaching("address", default=False)
    providers: Sequence[str] = key(
        field(default_factory=lambda: [name for name in PROVIDERS if name != KEYLESS]),
        reaches="plug-in",
        choices=lambda: PROVIDERS,
    )
    enrich: Sequence[str] = field(default_factory=lambda: list(ENRICHERS))
    k: int = bounded(20, 1, 100)
    interpolate: float = bounded(0.8, 0, 1)
    deadline_ms: float = bounded(10_000.0, 1)
    max_age: float = key(86_400.0, duration=True)
    keep: float = key(30 * 86_400.0, duration=True)
    keep_mb: int = bounded(500, 1)
    endpoints: Mapping[str, str] = {}
