"""Providers of web and literature search as configured, and the means by which they are asked."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from retrieve_cli.assemble import extensions
from retrieve_cli.config import plugins
from retrieve_cli.config.query_settings import PROVIDERS
from retrieve_cli.config.settings import Settings
from retrieve_cli.contracts.websearch import Provider
from retrieve_cli.errors import UsageError, quoted
from retrieve_cli.untrusted.nearest import nearest

if TYPE_CHECKING:
    from retrieve_cli.websearch.asking import Asking

CATEGORISED = frozenset({"arxiv"})
"""Providers that can search by category."""


def provider(name: str, settings: Settings) -> Provider:
    """Return a provider by its name.

    Raises:
        UsageError: no provider has this name; the message suggests the nearest one.
        Unavailable: the plug-in that adds it cannot be loaded.
    """
    made: Provider
    if name in _BUILT_IN:
        module, _, part = _BUILT_IN[name].partition(".")
        value = getattr(import_module(f"retrieve_cli.websearch.providers.{module}"), part)
        made = value() if isinstance(value, type) else value
        return made
    if name in plugins.installed():
        made = extensions.make("provider", name, settings)
        return made
    near = nearest(name, PROVIDERS)
    hint = f"did you mean {near}?" if near else f"providers: {', '.join(PROVIDERS)}"
    raise UsageError(f"there is no provider {quoted(name)}", hint=hint)


def asking(settings: Settings, artifacts: Path, *, max_age_s: float | None = None, owner: str = "") -> Asking:
    """Return the means by which one search of an owner asks providers; close its sender afterwards.

    Raises:
        UsageError: a value of `web.endpoints` is not an origin.
    """
    from retrieve_cli.websearch.asking import Asking
    from retrieve_cli.websearch.cache import FILE, PageCache
    from retrieve_cli.websearch.sending import Sender

    web = settings.web
    cache = PageCache(artifacts / FILE, keep_s=web.max_age)
    age_s = web.max_age if max_age_s is None else max_age_s
    return Asking(Sender(web.endpoints), cache, age_s, owner)


_BUILT_IN: Mapping[str, str] = {
    "tavily": "web_engines.TAVILY",
    "serper": "web_engines.SERPER",
    "serpapi": "web_engines.SERPAPI",
    "ddg": "duckduckgo.DUCKDUCKGO",
    "pubmed": "pubmed.PubMed",
    "biorxiv": "biorxiv.BioRxiv",
    "s2": "semantic_scholar.SemanticScholar",
    "arxiv": "arxiv.Arxiv",
}
"""File, and class or value, of each, imported when it is asked."""
