"""Recording of exchanges with providers, for tests of their parsers and fakes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from retrieve_cli.assemble import websearch as parts
from retrieve_cli.config.settings import Settings
from retrieve_cli.contracts.websearch import ProviderFailed, WebQuery
from retrieve_cli.errors import SourceFailed
from retrieve_cli.search.web_answer import WebOptions
from retrieve_cli.search.web_choice import check, chosen_providers


def record_exchanges(settings: Settings, artifacts: Path, options: WebOptions, folder: Path) -> Sequence[Path]:
    """Ask the named providers, write the exchanges of each to `folder`, and return the files.

    Raises:
        UsageError: web search is off, or a provider is not configured.
        SourceFailed: a provider failed; files of those before it are written.
        RetrieveError: the folder cannot be written.
    """
    from retrieve_cli.web.limits import Clock
    from retrieve_cli.websearch.recording import record, write

    check(options, settings)
    chosen = chosen_providers(options, settings, missing_key=parts.missing_key)
    seconds = settings.web.deadline_ms / 1000
    query = WebQuery(options.text.strip(), options.k or settings.web.k, options.since, options.categories)
    written = []
    for provider in chosen.providers:
        exchange = parts.exchange(settings, artifacts, max_age_s=0.0, offline=False)
        try:
            fetch = exchange.fetch_for(provider, clock=Clock(seconds, seconds))
            written.append(write(record(provider, query, fetch), folder))
        except ProviderFailed as error:
            raise SourceFailed(f"{provider.name}: {error.failure}", hint="nothing of it was recorded") from None
        finally:
            exchange.close()
    return written
