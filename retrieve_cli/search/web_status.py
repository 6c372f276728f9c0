"""Status of everybody who was asked in a search, with the next step for each failure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from retrieve_cli.contracts.websearch import (
    Failure,
    NoKey,
    NotStored,
    Page,
    Provider,
    RateLimited,
    Timeout,
    Unreachable,
)
from retrieve_cli.search.web_answer import ProviderStatus

if TYPE_CHECKING:
    from retrieve_cli.websearch.asking import Asked

Role = Literal["provider", "enricher"]


def status_of(asked: Asked, role: Role) -> ProviderStatus:
    """Return the status of a provider or enricher that was asked."""
    name, outcome = asked.asked.name, asked.outcome
    if not isinstance(outcome, Page):
        after = outcome.retry_after if isinstance(outcome, RateLimited) else None
        return ProviderStatus(name, role, outcome.kind, str(outcome), _hint(outcome, name, role), after)
    return ProviderStatus(
        name,
        role,
        "ok",
        results=len(outcome.items),
        total=outcome.total,
        query=outcome.query,
        at=outcome.response.at,
        digest=outcome.response.digest,
        age_s=asked.age_s,
        notices=outcome.notices,
    )


def not_asked(provider: Provider) -> ProviderStatus:
    """Return the status of a provider after another one had results."""
    return ProviderStatus(provider.name, "provider", "not_asked", "another provider had results before")


def without_key(provider: Provider, failure: NoKey) -> ProviderStatus:
    """Return the status of a configured provider without its credential, which nobody named."""
    return ProviderStatus(provider.name, "provider", "not_configured", str(failure), _hint(failure))


def _hint(failure: Failure, name: str = "", role: Role = "provider") -> str:
    match failure:
        case NoKey():
            return f"export {failure.variable}=…"
        case RateLimited():
            wait = f"after {failure.retry_after:.0f} s" if failure.retry_after else "later"
            return f"ask again {wait}; answers that were stored meanwhile are used again"
        case Timeout():
            return "allow more time: deadline_ms"
        case Unreachable():
            return "check the network, and HTTPS_PROXY if it needs a proxy"
        case NotStored():
            return "search without `offline`"
    return f"search without {name}: web.{'providers' if role == 'provider' else 'enrich'}"
