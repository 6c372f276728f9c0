"""Providers of web and literature search as configured, and the exchange through which they are asked."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from retrieve_cli.assemble import extensions
from retrieve_cli.config import plugins
from retrieve_cli.config.query_settings import ENRICHERS, PROVIDERS
from retrieve_cli.config.settings import Settings
from retrieve_cli.contracts.websearch import Enricher, NoKey, Provider
from retrieve_cli.errors import UsageError, quoted
from retrieve_cli.untrusted.nearest import nearest

if TYPE_CHECKING:
    from retrieve_cli.websearch.exchange import Exchange
    from retrieve_cli.websearch.stored import Tape

FOLDER = "web"
"""Folder of stored answers within the artifacts."""
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
        made = _made(_BUILT_IN[name])
        return made
    if name in plugins.installed():
        made = extensions.make("provider", name, settings)
        return made
    near = nearest(name, PROVIDERS)
    hint = f"did you mean {near}?" if near else f"providers: {', '.join(PROVIDERS)}"
    raise UsageError(f"there is no provider {quoted(name)}", hint=hint)


def enrichers(settings: Settings) -> list[Enricher]:
    """Return the configured enrichers. Raises: UsageError: a name is unknown."""
    for name in settings.web.enrich:
        if name not in _ENRICHERS:
            near = nearest(name, ENRICHERS)
            hint = f"did you mean {near}?" if near else f"web.enrich takes {', '.join(ENRICHERS)}"
            raise UsageError(f"there is no enricher {quoted(name)}", hint=hint)
    return [_made(_ENRICHERS[name]) for name in settings.web.enrich]


def missing_key(chosen: Provider) -> NoKey | None:
    """Return the failure of a provider whose credential is not in the environment; None if the provider is complete."""
    from retrieve_cli.websearch.asking import missing_variable

    variable = missing_variable(chosen.needs)
    return NoKey(variable) if variable else None


def exchange(
    settings: Settings,
    artifacts: Path,
    *,
    max_age_s: float,
    offline: bool,
    owner: str = "",
    tape: Tape | None = None,
    now: Callable[[], datetime] | None = None,
) -> Exchange:
    """Return the sender of the requests of one owner's search; with a tape, it answers only from the tape.

    Raises:
        UsageError: a value of `web.endpoints` is not an origin.
    """
    from retrieve_cli.websearch.exchange import Exchange
    from retrieve_cli.websearch.rates import Rates
    from retrieve_cli.websearch.stored import Stored

    chosen = settings.web
    stored = None
    if tape is None:
        stored = Stored(artifacts / FOLDER, keep_s=chosen.keep, keep_mb=chosen.keep_mb)
    given: dict[str, Any] = {} if now is None else {"now": now}
    return Exchange(
        stored=stored,
        rates=Rates(rates_folder()),
        endpoints=chosen.endpoints,
        max_age_s=max_age_s,
        offline=offline,
        owner=owner,
        tape=tape,
        **given,
    )


def rates_folder() -> Path:
    """Return the folder in which all processes of a user record their requests, by server."""
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "retrieve" / "rates"


def _made(name: str) -> Any:
    module, _, part = name.partition(".")
    found = getattr(import_module(f"retrieve_cli.websearch.providers.{module}"), part)
    return found() if isinstance(found, type) else found


_BUILT_IN: Mapping[str, str] = {
    "tavily": "web_engines.TAVILY",
    "serper": "web_engines.SERPER",
    "serpapi": "web_engines.SERPAPI",
    "ddg": "duckduckgo.DUCKDUCKGO",
    "pubmed": "pubmed.PubMed",
    "europepmc": "europepmc.EuropePmc",
    "biorxiv": "biorxiv.BioRxiv",
    "s2": "semantic_scholar.SemanticScholar",
    "arxiv": "arxiv.Arxiv",
}
_ENRICHERS: Mapping[str, str] = {
    "crossref": "crossref.Crossref",
    "s2": "semantic_scholar.Citations",
    "biorxiv": "biorxiv.Published",
}
"""File, and class or value, of each, imported when it is asked."""
