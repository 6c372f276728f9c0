"""Web and literature search: WebOptions -> WebAnswer.

options -> providers of the kind -> asked at once, or one after the other -> one list by reciprocal ranks -> answer
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from retrieve_cli.assemble import websearch as parts
from retrieve_cli.config.settings import Settings
from retrieve_cli.contracts.terms import figures
from retrieve_cli.contracts.websearch import Page, ProviderFailure, WebQuery
from retrieve_cli.search.web_answer import ProviderStatus, WebAnswer, WebOptions
from retrieve_cli.search.web_choice import Chosen, check, chosen_providers

if TYPE_CHECKING:
    from retrieve_cli.websearch.asking import Asking, ProviderOutcome

_HINTS = {
    "timeout": "allow more time: deadline_ms",
    "unreachable": "check the network, and HTTPS_PROXY if it needs a proxy",
}

DEADLINE_MS, RESULTS = 10_000.0, 20
"""Time for all providers of a search together, and its results, unless it names others."""


class WebSearch:
    """Searches under one configuration. Threads may share one; the constructor is cheap."""

    def __init__(self, settings: Settings, artifacts: Path) -> None:
        self._settings = settings
        self._artifacts = artifacts

    def receivers(self, options: WebOptions) -> list[str]:
        """Return the names of those who may receive the question. Raises as `answer` does."""
        check(options, self._settings)
        chosen = chosen_providers(options, self._settings)
        return [provider.name for provider in (*chosen.providers, *chosen.fallback)]

    def answer(self, options: WebOptions, *, owner: str = "") -> WebAnswer:
        """Return the answer to a search. Only stored answers of the owner, such as a tenant, are used.

        Raises:
            UsageError: web search is off, a provider is not configured, or an option is out of range.
        """
        check(options, self._settings)
        chosen = chosen_providers(options, self._settings)
        asking = parts.asking(self._settings, self._artifacts, max_age_s=options.max_age_s, owner=owner)
        try:
            outcomes = self._asked(options, chosen, asking)
        finally:
            asking.sender.close()
        return self._answered(options, chosen, outcomes, asking.cache.notice)

    def _asked(self, options: WebOptions, chosen: Chosen, asking: Asking) -> list[ProviderOutcome | None]:
        """Return the outcomes of the providers and then of the fallback; None: not asked."""
        milliseconds = DEADLINE_MS if options.deadline_ms is None else options.deadline_ms
        query = WebQuery(options.text.strip(), options.k or RESULTS, options.since, options.categories)
        if options.first:
            providers = [*chosen.providers, *chosen.fallback]
            return asking.ask_first(providers, query, deadline_s=milliseconds / 1000)
        return asking.ask(chosen.providers, query, fallback=chosen.fallback, deadline_s=milliseconds / 1000)

    def _answered(
        self,
        options: WebOptions,
        chosen: Chosen,
        outcomes: list[ProviderOutcome | None],
        trouble: str,
    ) -> WebAnswer:
        from retrieve_cli.websearch.dates import is_since
        from retrieve_cli.websearch.fusing import Answered, fuse

        pages = [
            Answered(one.provider.name, one.result, one.at) for one in outcomes if one and isinstance(one.result, Page)
        ]
        every = fuse(pages)
        rows = [row for row in every if not options.since or is_since(row.item.date, options.since)]
        dropped = len(every) - len(rows)
        older = f"{figures.count(dropped, 'result')} from before {options.since} dropped" if dropped else ""
        providers = (*chosen.providers, *chosen.fallback)
        others = [one.title for one in providers if one.name not in parts.CATEGORISED]
        unapplied = ""
        if options.categories and others:
            unapplied = f"categories are of arXiv and not applied by {', '.join(others)}"
        statuses = [
            status_of(one) if one else ProviderStatus(provider.name, "not_asked", "another provider answered")
            for provider, one in zip(providers, outcomes, strict=True)
        ]
        for provider, failure in chosen.without_key:
            hint = _hint(failure, provider.name)
            statuses.append(ProviderStatus(provider.name, "not_configured", failure.message, hint))
        return WebAnswer(
            options=options,
            kind=chosen.kind,
            kind_reason=chosen.reason,
            rows=tuple(rows[: options.k or RESULTS]),
            statuses=tuple(statuses),
            total_matches=len(rows),
            notices=tuple(filter(None, (chosen.notice, unapplied, older, trouble))),
        )


def status_of(outcome: ProviderOutcome) -> ProviderStatus:
    """Return the status of a provider that was asked."""
    name, result = outcome.provider.name, outcome.result
    if isinstance(result, ProviderFailure):
        return ProviderStatus(name, result.kind, result.message, _hint(result, name), result.retry_after)
    return ProviderStatus(
        name,
        "ok",
        results=len(result.items),
        total=result.total,
        query=result.query,
        at=outcome.at,
        age_s=outcome.age_s,
        notices=result.notices,
    )


def _hint(failure: ProviderFailure, name: str) -> str:
    if failure.kind == "no_key":
        return f"export {failure.variable}=…"
    if failure.kind == "rate_limited":
        wait = f"after {failure.retry_after:.0f} s" if failure.retry_after else "later"
        return f"ask again {wait}"
    return _HINTS.get(failure.kind, f"search without {name}: web.providers")
