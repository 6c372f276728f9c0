"""A web or literature search as a value, and its answer: works, and the status of everybody who was asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from retrieve_cli.contracts import Hit
from retrieve_cli.contracts.works import Work
from retrieve_cli.frozen import Frozen

KindChoice = Literal["auto", "web", "literature"]
MOST_TEXT = 2000
"""Characters of the longest question."""
MOST_RESULTS = 100
LONGEST_DEADLINE_MS = 600_000


class WebOptions(Frozen):
    """Everything that one search may choose. None: as configured."""

    text: str
    k: int | None = None
    kind: KindChoice = "auto"
    providers: tuple[str, ...] = ()
    """Providers to ask; empty: the configured ones of the kind."""
    since: str = ""
    categories: tuple[str, ...] = ()
    first: bool = False
    """True: ask one after the other until one has results."""
    deadline_ms: float | None = None
    max_age_s: float | None = None
    """Greatest age of a stored answer that is used again; None: as configured, 0: none is used."""
    offline: bool = False
    """True: answer from stored answers only, of any age."""
    rerank: bool = True


class ProviderStatus(NamedTuple):
    """Outcome of asking a provider or an enricher."""

    provider: str
    role: Literal["provider", "enricher"]
    status: str
    """`ok`, `not_asked` (with `--first`, after another one had results), `not_configured` (its credential is not in the
    environment, and the request does not name it), or the kind of a failure: `no_key`, `rate_limited`, `rejected`,
    `timeout`, `unreachable`, `malformed`, `not_stored`."""
    message: str = ""
    """Reason for the failure."""
    hint: str = ""
    retry_after: float | None = None
    results: int = 0
    total: int | None = None
    query: str = ""
    """The query as sent."""
    at: str = ""
    """Time of the response, ISO 8601 in UTC; empty without one."""
    digest: str = ""
    """SHA-256 of the body of the response."""
    age_s: float | None = None
    """Age of a response that was stored before this search; None: it was sent for this search."""
    notices: tuple[str, ...] = ()

    @property
    def failed(self) -> bool:
        return self.status not in ("ok", "not_asked", "not_configured")


class WebHit(Frozen):
    """A work in its place in the answer, with the evidence for it: one of each provider, and the reranker's."""

    work: Work
    hit: Hit
    """Its `id` is the id of the work; `evidence` has one entry for each provider."""


class WebAnswer(Frozen):
    """Answer to a web or literature search."""

    options: WebOptions
    kind: Literal["web", "literature", "both"]
    kind_reason: str
    """Reason for the choice of the kind, one sentence."""
    hits: tuple[WebHit, ...]
    statuses: tuple[ProviderStatus, ...]
    """Of every provider and enricher that was chosen, in the order of the configuration."""
    total_works: int
    """Number of works that were found, before the cut to `k`."""
    pipeline: str
    reranked: bool
    strategies_skipped: Mapping[str, str] = {}
    notices: tuple[str, ...] = ()

    @property
    def partial(self) -> bool:
        """True if a provider that was asked failed."""
        return any(status.failed for status in self.statuses)
