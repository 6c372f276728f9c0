"""Requests to providers: all at the same time or one after the other, within a deadline that providers cannot exceed.

Each provider has a separate thread. A thread that is not done at the deadline is abandoned, and does not keep the
process alive. Every failure is a value: an exception of a provider never looks like an empty page.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from queue import Empty, SimpleQueue
from threading import Thread
from typing import NamedTuple, TypeAlias

from retrieve_cli.contracts.websearch import (
    Enricher,
    Failure,
    Fetch,
    Malformed,
    Need,
    NoKey,
    Page,
    Provider,
    ProviderFailed,
    Timeout,
    Unreachable,
    WebQuery,
)
from retrieve_cli.contracts.works import Item
from retrieve_cli.errors import printable, shortened
from retrieve_cli.frozen import replace
from retrieve_cli.http.limits import Clock
from retrieve_cli.http.secrets import Secret, hide
from retrieve_cli.websearch.exchange import Exchange
from retrieve_cli.websearch.wire import out_of_time

_REPLAY_S = 3600.0
"""Deadline of a replay, which waits for nothing: its answer must not depend on the speed of the machine."""
_LONGEST_S = 86_400.0
"""Longest deadline."""
_SHARE = 0.5
"""Part of the time left that `ask_first` gives to a provider if others follow."""
_NO_PAGE = "its program returned no page"
_Said: TypeAlias = Page | Failure | None
_Job: TypeAlias = Callable[[], _Said]


class ProviderOutcome(NamedTuple):
    """Outcome of asking a provider or an enricher."""

    asked: Provider | Enricher
    outcome: Page | Failure
    age_s: float | None
    """Age in seconds of the response that ranks the page if it was stored before this search; None: it was sent for
    this search, or the page has no response."""


def ask_all(
    providers: Sequence[Provider], query: WebQuery, exchange: Exchange, *, deadline_s: float
) -> list[ProviderOutcome]:
    """Return the pages and failures of all providers, asked at the same time, in their order."""
    clock = _clock(deadline_s, exchange)
    said = _together([_search(provider, query, exchange, clock) for provider in providers], clock)
    return [_asked("provider", *pair, exchange) for pair in zip(providers, said, strict=True)]


def ask_first(
    providers: Sequence[Provider], query: WebQuery, exchange: Exchange, *, deadline_s: float
) -> list[ProviderOutcome | None]:
    """Ask one provider after the other until one has items; None for those that were not asked.

    A provider gets half of the time that is left if others follow, so that one that hangs does not use it up.
    """
    whole = _clock(deadline_s, exchange)
    results: list[ProviderOutcome | None] = []
    for number, provider in enumerate(providers):
        left = max(0.0, whole.until - time.monotonic())
        replayed = exchange.tape is not None
        share = left if number == len(providers) - 1 or replayed else left * _SHARE
        clock = Clock(share, share)
        job = _search(provider, query, exchange, clock)
        (said,) = _together([job], clock) if share > 0 else [_safe(partial(_too_late, provider), provider)()]
        results.append(_asked("provider", provider, said, exchange))
        if isinstance(said, Page) and said.items:
            break
    return results + [None] * (len(providers) - len(results))


def enrich_all(
    enrichers: Sequence[Enricher], items: Sequence[Item], exchange: Exchange, *, deadline_s: float
) -> list[ProviderOutcome]:
    """Return the pages and failures of all enrichers, asked at the same time, in their order.

    Those that have nothing to look up are skipped.
    """
    clock = _clock(deadline_s, exchange)
    said = _together([_enrich(enricher, items, exchange, clock) for enricher in enrichers], clock)
    pairs = zip(enrichers, said, strict=True)
    return [_asked("enricher", enricher, outcome, exchange) for enricher, outcome in pairs if outcome is not None]


def _clock(deadline_s: float, exchange: Exchange) -> Clock:
    seconds = min(deadline_s, _LONGEST_S) if exchange.tape is None else _REPLAY_S
    return Clock(seconds, seconds)


def _asked(role: str, asked: Provider | Enricher, said: _Said, exchange: Exchange) -> ProviderOutcome:
    """Return the outcome of one of them, and record it if it is a failure."""
    if isinstance(said, Page):
        return ProviderOutcome(asked, said, exchange.age_s(said.response))
    outcome = said or Malformed(_NO_PAGE)
    if exchange.tape is None:
        exchange.recorded.keep_failure(f"{role}:{asked.name}", outcome)
    return ProviderOutcome(asked, outcome, None)


def _search(provider: Provider, query: WebQuery, exchange: Exchange, clock: Clock) -> _Job:
    def ask(fetch: Fetch) -> object:
        if exchange.tape is None and not exchange.offline and (variable := missing_variable(provider.needs)):
            raise ProviderFailed(NoKey(variable))
        page: object = provider.search(query, fetch)
        return replace(page, items=page.items[: query.k]) if isinstance(page, Page) else page

    return _job("provider", provider, ask, exchange, clock)


def _enrich(enricher: Enricher, items: Sequence[Item], exchange: Exchange, clock: Clock) -> _Job:
    return _job("enricher", enricher, lambda fetch: enricher.enrich(items, fetch) if items else None, exchange, clock)


def _job(
    role: str, asked: Provider | Enricher, ask: Callable[[Fetch], object], exchange: Exchange, clock: Clock
) -> _Job:
    def job() -> _Said:
        if exchange.tape is not None and (failure := exchange.tape.failure(f"{role}:{asked.name}")):
            return failure
        fetch = exchange.fetch_for(asked, clock=clock)
        page = ask(fetch)
        if isinstance(page, Page):
            exchange.keep(fetch)
        return page if page is None or isinstance(page, Page) else Malformed(_NO_PAGE)

    return _safe(job, asked)


def _too_late(provider: Provider) -> Failure:
    """Return the failure of a provider that cannot be asked because no time is left."""
    variable = missing_variable(provider.needs)
    return NoKey(variable) if variable else Timeout("no time was left to ask it")


def missing_variable(needs: Sequence[Need]) -> str:
    """Return the first variable that is required and not set; empty if all are set."""
    required = (need.variable for need in needs if need.required)
    return next((variable for variable in required if not os.environ.get(variable, "").strip()), "")


def _safe(job: _Job, asked: Provider | Enricher) -> _Job:
    """Return a job that returns every exception as a failure, without credentials."""

    def safe() -> _Said:
        try:
            return job()
        except ProviderFailed as failed:
            return failed.failure
        except (Exception, SystemExit) as error:  # noqa: BLE001  a provider may be a plug-in that raises anything
            variables = [need.variable for need in getattr(asked, "needs", ())]
            secrets = [Secret(value) for variable in variables if (value := os.environ.get(variable, "").strip())]
            said = printable(shortened(hide(str(error), secrets)))
            return Malformed(f"its answer cannot be read ({type(error).__name__}{f': {said}' if said else ''})")

    return safe


def _together(jobs: Sequence[_Job], clock: Clock) -> list[_Said]:
    """Return the results of jobs that run at the same time, in their order; a timeout for those not done in time."""
    results: list[_Said] = [out_of_time(clock.total_s) for _ in jobs]
    done: SimpleQueue[tuple[int, _Said]] = SimpleQueue()

    def run(number: int, job: _Job) -> None:
        done.put((number, job()))

    for number, job in enumerate(jobs):
        try:
            Thread(target=run, args=(number, job), daemon=True, name=f"provider-{number}").start()
        except RuntimeError:  # the system permits no more threads
            done.put((number, Unreachable("there is no thread left to ask it")))
    for _ in jobs:
        try:
            number, result = done.get(timeout=max(0.0, clock.until - time.monotonic()))
        except Empty:
            break
        results[number] = result
    return results
