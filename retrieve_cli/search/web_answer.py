"""A web or literature search as a value, and its answer: rows, and the status of every provider."""

from __future__ import annotations

from typing import Literal, NamedTuple

from retrieve_cli.contracts.websearch import WebRow
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


class ProviderStatus(NamedTuple):
    """Outcome of asking a provider."""

    provider: str
    status: str
    """`ok`, `not_asked` (another one answered before), `not_configured` (its key is not in the environment, and the
    request does not name it), or the kind of a failure: `no_key`, `rate_limited`, `rejected`, `timeout`,
    `unreachable`, `malformed`."""
    message: str = ""
    """Reason for the failure."""
    hint: str = ""
    retry_after: float | None = None
    results: int = 0
    total: int | None = None
    query: str = ""
    """The query as sent."""
    at: str = ""
    """Time of the answer, ISO 8601 in UTC; empty without one."""
    age_s: float | None = None
    """Age of an answer that was stored before this search; None: it was asked for now."""
    notices: tuple[str, ...] = ()

    @property
    def failed(self) -> bool:
        return self.status not in ("ok", "not_asked", "not_configured")


class WebAnswer(Frozen):
    """Answer to a web or literature search."""

    options: WebOptions
    kind: Literal["web", "literature", "both"]
    kind_reason: str
    """Reason for the choice of the kind, one sentence."""
    rows: tuple[WebRow, ...]
    statuses: tuple[ProviderStatus, ...]
    """Of every provider that was chosen."""
    total_matches: int
    """Number of rows that were found, before the cut to `k`."""
    notices: tuple[str, ...] = ()

    @property
    def partial(self) -> bool:
        """True if a provider that was asked failed."""
        return any(status.failed for status in self.statuses)
