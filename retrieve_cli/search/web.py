"""Web and literature search: WebOptions -> WebAnswer.

options -> providers of the kind -> asked at once, or one after the other -> enrichers -> works -> ranked -> answer
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from retrieve_cli.assemble import rerankers, websearch as parts
from retrieve_cli.config.settings import Settings
from retrieve_cli.contracts import Evidence, Hit, Query, Ranking
from retrieve_cli.contracts.terms import figures
from retrieve_cli.contracts.websearch import (
    Failure,
    NoKey,
    NotStored,
    Page,
    Provider,
    ProviderFailed,
    RateLimited,
    Timeout,
    Unreachable,
    WebQuery,
)
from retrieve_cli.contracts.works import Found, Source, Work
from retrieve_cli.errors import RetrieveError, SourceFailed
from retrieve_cli.retrieval.stages.fusion import reciprocal_rank
from retrieve_cli.retrieval.stages.rerank import RerankStage
from retrieve_cli.search.web_answer import ProviderStatus, WebAnswer, WebHit, WebOptions
from retrieve_cli.search.web_choice import Chosen, check, chosen_providers

if TYPE_CHECKING:
    from retrieve_cli.contracts import Encoder
    from retrieve_cli.retrieval.stages.rerank import Reranker
    from retrieve_cli.websearch.asking import ProviderOutcome
    from retrieve_cli.websearch.exchange import Exchange
    from retrieve_cli.websearch.stored import Tape

_SHARE = 0.7
"""Share of the deadline that providers have if enrichers are asked after them."""


class Searched(NamedTuple):
    """An answer, and the exchanges that it was made from."""

    answer: WebAnswer
    tape: Tape
    trouble: tuple[str, ...]
    """Conditions of this machine that did not stop the search, such as a full disk. They are no part of the answer."""


class WebSearch:
    """Searches under one configuration. Threads may share one; the constructor is cheap."""

    def __init__(
        self,
        settings: Settings,
        artifacts: Path,
        *,
        tape: Tape | None = None,
        now: Callable[[], datetime] | None = None,
    ) -> None:
        """`tape` holds the exchanges of a saved run, from which alone searches are answered, and `now` its time."""
        self._settings = settings
        self._artifacts = artifacts
        self._tape = tape
        self._now = now
        self._encoder: Encoder | None = None
        self._lock = Lock()

    def receivers(self, options: WebOptions) -> list[str]:
        """Return the names of those who will receive the question. Raises as `answer` does."""
        check(options, self._settings)
        return [provider.name for provider in self._chosen(options).providers]

    def answer(self, options: WebOptions, *, owner: str = "") -> WebAnswer:
        """Return the answer to a search. Only stored answers of the owner, such as a tenant, are used.

        Raises:
            UsageError: web search is off, a provider is not configured, or an option is out of range.
        """
        return self.search(options, owner=owner).answer

    def search(self, options: WebOptions, *, owner: str = "") -> Searched:
        """Return the answer to a search with its exchanges. Raises as `answer` does."""
        if self._tape is None:
            check(options, self._settings)
        chosen = self._chosen(options)
        web = self._settings.web
        exchange = parts.exchange(
            self._settings,
            self._artifacts,
            max_age_s=web.max_age if options.max_age_s is None else options.max_age_s,
            offline=options.offline,
            owner=owner,
            tape=self._tape,
            now=self._now,
        )
        for provider, failure in chosen.without_key:
            exchange.recorded.keep_failure(_skipped(provider), failure)
        try:
            return Searched(self._answered(options, chosen, exchange), exchange.recorded, exchange.notices)
        finally:
            exchange.close()

    def _answered(self, options: WebOptions, chosen: Chosen, exchange: Exchange) -> WebAnswer:
        from retrieve_cli.websearch.dates import is_since
        from retrieve_cli.websearch.merging.works import merge

        k = self._settings.web.k if options.k is None else options.k
        outcomes, further = self._asked(options, chosen, exchange, max(k, self._settings.web.k))
        works = every = merge([*_found(outcomes), *_found(further, ranked=False)])
        if options.since:
            works = [work for work in every if is_since(work.date, options.since)]
        dropped = len(every) - len(works)
        older = f"{figures.count(dropped, 'work')} from before {options.since} dropped" if dropped else ""
        answered = [asked.asked.name for asked in outcomes if asked is not None and isinstance(asked.outcome, Page)]
        reader = self._reader if options.rerank else None
        ranked = rank(works, options.text.strip(), answered, self._settings, reader=reader)
        pairs = zip(chosen.providers, outcomes, strict=True)
        statuses = [not_asked(provider) if asked is None else status_of(asked, "provider") for provider, asked in pairs]
        statuses += [without_key(provider, failure) for provider, failure in chosen.without_key]
        return WebAnswer(
            options=options,
            kind=chosen.kind,
            kind_reason=chosen.reason,
            hits=ranked.hits[:k],
            statuses=(*statuses, *(status_of(asked, "enricher") for asked in further)),
            total_works=len(works),
            pipeline=ranked.pipeline,
            reranked=ranked.reranked,
            strategies_skipped=ranked.skipped,
            notices=tuple(filter(None, (chosen.notice, older))),
        )

    def _asked(
        self, options: WebOptions, chosen: Chosen, exchange: Exchange, depth: int
    ) -> tuple[list[ProviderOutcome | None], list[ProviderOutcome]]:
        """Return what became of the providers (None: not asked), and of the enrichers. `depth` is the number of results
        wanted of each provider: with fewer than usual, there would be little to rank, and no stored answer to use."""
        from retrieve_cli.websearch.asking import ask_all, ask_first, enrich_all

        web = self._settings.web
        enrichers = [] if chosen.kind == "web" else parts.enrichers(self._settings)
        seconds = (web.deadline_ms if options.deadline_ms is None else options.deadline_ms) / 1000
        until = monotonic() + seconds
        query = WebQuery(options.text.strip(), depth, options.since, options.categories, options.k or 0)
        ask = ask_first if options.first else ask_all
        outcomes = list(ask(chosen.providers, query, exchange, deadline_s=seconds * (_SHARE if enrichers else 1.0)))
        pages = [asked.outcome for asked in outcomes if asked is not None and isinstance(asked.outcome, Page)]
        items = [item for page in pages for item in page.items]
        if not enrichers or not items:
            return outcomes, []
        return outcomes, enrich_all(enrichers, items, exchange, deadline_s=max(until - monotonic(), 0.0))

    def _chosen(self, options: WebOptions) -> Chosen:
        return chosen_providers(options, self._settings, missing_key=self._missing_key)

    def _missing_key(self, provider: Provider) -> NoKey | None:
        """Return the failure of a provider without its credential; in a replay, of one that had none then."""
        if self._tape is None:
            return parts.missing_key(provider)
        failure = self._tape.failure(_skipped(provider))
        return failure if isinstance(failure, NoKey) else None

    def _reader(self, texts: Sequence[str]) -> Reranker | None:
        encoder = None
        if rerankers.needs_encoder(self._settings):
            with self._lock:
                if self._encoder is None:
                    self._encoder = rerankers.query_encoder(self._settings)
                encoder = self._encoder
        return rerankers.text_reader(self._settings, encoder, texts)


def _skipped(provider: Provider) -> str:
    """Return the name in a tape of a provider that was not asked, because it had no credential."""
    return f"skipped:{provider.name}"


def _found(outcomes: Sequence[ProviderOutcome | None], *, ranked: bool = True) -> list[Found]:
    found = []
    for asked in outcomes:
        if asked is not None and isinstance(page := asked.outcome, Page):
            name, query, response = asked.asked.name, page.query, page.response
            for place, item in enumerate(page.items, 1):
                source = Source(name, place if ranked else None, query, response.at, response.digest)
                found.append(Found(item, source))
    return found


Role = Literal["provider", "enricher"]


def status_of(asked: ProviderOutcome, role: Role) -> ProviderStatus:
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
    """Return the status of a configured provider without its credential that the request does not name."""
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


class RankedWorks(NamedTuple):
    """Works in order, and how that order came about."""

    hits: tuple[WebHit, ...]
    pipeline: str
    reranked: bool
    skipped: Mapping[str, str]
    """Stages that were skipped, and why."""


def rank(
    works: Sequence[Work],
    text: str,
    providers: Sequence[str],
    settings: Settings,
    *,
    reader: Callable[[Sequence[str]], Reranker | None] | None,
) -> RankedWorks:
    """Return the works in order. `providers` are the ones that answered; `reader` makes the reranker of texts, None if
    the configuration has none; without `reader`, nothing is reranked. `web.interpolate` is the share of the reranker:
    ranks of providers mean less than scores of local retrievers."""
    query = Query(text)
    k = settings.fusion.rrf_k
    ranking = Ranking.of(query, [_hit(row, work, providers, k) for row, work in enumerate(works)])
    pipeline, skipped, reranked = f"rrf({', '.join(providers)}; k={k:g})", {}, False
    if reader is not None and len(works) > 1:
        try:
            made = reader([text_of(work) for work in works])
            if made is not None:
                stage = RerankStage(made, made.name, settings.rerank.depth, len(works), settings.web.interpolate)
                ranking = stage([ranking])[0]
                pipeline, reranked = f"{pipeline} > {stage}", True
        except RetrieveError as error:
            skipped["rerank"] = f"{error.message}: {error.hint}" if error.hint else error.message
    return RankedWorks(tuple(WebHit(works[hit.row], hit) for hit in ranking.hits), pipeline, reranked, skipped)


def text_of(work: Work) -> str:
    """Return the text of a work that the reranker reads: its title, and its abstract or snippet."""
    body = work.abstract or work.snippet
    return f"{work.title}. {body}" if body else work.title


def _hit(row: int, work: Work, providers: Sequence[str], k: float) -> Hit:
    """Return the hit of a work, with its best rank at each provider that returned it."""
    ranks = {
        provider: min((each.rank for each in work.found_by if each.provider == provider and each.rank), default=0)
        for provider in providers
    }
    parts = reciprocal_rank(np.array(list(ranks.values()), np.int64), k=k).tolist()
    evidence = tuple(
        Evidence(provider, place or None, part, part, 1.0)
        for (provider, place), part in zip(ranks.items(), parts, strict=True)
        if place
    )
    return Hit(work.id, row, row, float(sum(parts)), evidence)


def record_exchanges(settings: Settings, artifacts: Path, options: WebOptions, folder: Path) -> Sequence[Path]:
    """Ask the named providers, write the exchanges of each to `folder`, and return the files.

    Raises:
        UsageError: web search is off, or a provider is not configured.
        SourceFailed: a provider failed; files of those before it are written.
        RetrieveError: the folder cannot be written.
    """
    from retrieve_cli.http.limits import Clock
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
