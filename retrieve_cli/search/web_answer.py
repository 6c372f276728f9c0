"""A web or literature search as a value, and its answer: works, and the status of everybody who was asked.

Choice of the providers of a search: the named ones, or the configured ones of its kind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple

from retrieve_cli.assemble import websearch as parts
from retrieve_cli.config.query_settings import KEYLESS, WebSettings
from retrieve_cli.config.settings import Settings
from retrieve_cli.contracts import Hit
from retrieve_cli.contracts.websearch import NoKey, Provider
from retrieve_cli.contracts.works import Work
from retrieve_cli.errors import UsageError, quoted
from retrieve_cli.frozen import Frozen
from retrieve_cli.websearch import dates
from retrieve_cli.websearch.kinds import choose

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


ENABLE = "set web.enabled: true in config.yaml, or RETRIEVE_WEB__ENABLED=true"


class Chosen(NamedTuple):
    """Providers of one search."""

    kind: Literal["web", "literature", "both"]
    reason: str
    providers: Sequence[Provider]
    """Those to ask."""
    without_key: Sequence[tuple[Provider, NoKey]]
    """Configured providers of the kind whose credential is not in the environment and that the request does not name:
    not asked."""
    notice: str = ""
    """Why a provider is asked that is not configured."""


def check(options: WebOptions, settings: Settings) -> None:
    """Check the options of a search.

    Raises:
        UsageError: web search is off, or an option is out of range.
    """
    settings.expect_trusted("web")
    if not settings.web.enabled and not options.offline:
        message = "web search is off, because it sends the question to servers on the internet"
        raise UsageError(message, hint=ENABLE)
    text = options.text.strip()
    if not text:
        raise UsageError("the question is empty", hint='retrieve web "crispr off-target"')
    if len(text) > MOST_TEXT:
        raise UsageError(
            f"the question has {len(text):,} characters", hint=f"providers take short questions: at most {MOST_TEXT:,}"
        )
    if options.k is not None and not 1 <= options.k <= MOST_RESULTS:
        raise UsageError(f"k is {options.k}; it takes 1 to {MOST_RESULTS}", hint="-k 20")
    if options.since and dates.of_text(options.since) != options.since:
        raise UsageError(f"since is {quoted(options.since)}, not a date", hint="2024, 2024-03 or 2024-03-05")
    if options.deadline_ms is not None and not 1 <= options.deadline_ms <= LONGEST_DEADLINE_MS:
        raise UsageError(
            f"deadline_ms is {options.deadline_ms:g}; it takes 1 to {LONGEST_DEADLINE_MS:,}", hint="--deadline-ms 10000"
        )


def chosen_providers(
    options: WebOptions, settings: Settings, *, missing_key: Callable[[Provider], NoKey | None]
) -> Chosen:
    """Return the providers of a search.

    Raises:
        UsageError: a named provider does not exist or is not configured, or no provider is left.
    """
    configured = tuple(dict.fromkeys(settings.web.providers))
    if options.providers:
        named = _named_providers(options, settings, configured)
        _expect_key(named, missing_key)
        kinds = {provider.kind for provider in named}
        kind = kinds.pop() if len(kinds) == 1 else "both"
        return Chosen(kind, "the providers were named", named, ())
    choice = choose(options.text, has_categories=bool(options.categories))
    kind, reason = (choice.kind, choice.reason) if options.kind == "auto" else (options.kind, "it was requested")
    every = [parts.provider(name, settings) for name in configured]
    fitting = [provider for provider in every if kind in ("both", provider.kind)]
    if options.categories:
        fitting = [provider for provider in fitting if provider.name in parts.CATEGORISED]
    if not fitting:
        with_them = " with categories" if options.categories else ""
        raise UsageError(
            f"no configured provider searches the {kind}{with_them}" if kind == "web" else
            f"no configured provider searches literature{with_them}",
            hint="see web.providers: retrieve config show web.providers",
        )  # fmt: skip
    missing = [(provider, missing_key(provider)) for provider in fitting]
    usable = [provider for provider, failure in missing if failure is None]
    notice = ""
    if not usable and kind == "web" and not options.categories and list(configured) == WebSettings().providers:
        usable = [parts.provider(KEYLESS, settings)]
        keys = ", ".join(failure.variable for _, failure in missing if failure is not None)
        notice = f"{usable[0].title} is asked, because no key of another provider is set ({keys})"
    if not usable:
        _expect_key(fitting, missing_key)
    without = [(provider, failure) for provider, failure in missing if failure is not None]
    return Chosen(kind, reason, usable, without, notice)


def _named_providers(options: WebOptions, settings: Settings, configured: Sequence[str]) -> list[Provider]:
    named = [parts.provider(name, settings) for name in dict.fromkeys(options.providers)]
    for provider in named:
        if provider.name not in configured:
            raise UsageError(
                f"the provider {provider.name} is not configured",
                hint=f"add it to web.providers: [{', '.join((*configured, provider.name))}]",
            )
    return named


def _expect_key(providers: Sequence[Provider], missing_key: Callable[[Provider], NoKey | None]) -> None:
    """Raises: UsageError: none of the providers has the credential that it needs."""
    failures = [failure for provider in providers if (failure := missing_key(provider)) is not None]
    if not providers or len(failures) < len(providers):
        return
    names = " and ".join(filter(None, (", ".join(each.name for each in providers[:-1]), providers[-1].name)))
    variables = list(dict.fromkeys(failure.variable for failure in failures))
    if len(variables) == 1:
        needs = "needs a key" if len(providers) == 1 else "need a key"
        raise UsageError(f"{names} {needs}: {variables[0]} is not set", hint=f"export {variables[0]}=…")
    message = f"{names} need keys: none of {', '.join(variables)} is set"
    raise UsageError(message, hint=f"set one: export {variables[0]}=…")
