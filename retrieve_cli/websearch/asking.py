"""Questions to providers: from the cache or over HTTP, at the same time or in order, within a deadline.

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
from typing import NamedTuple

from retrieve_cli.contracts.websearch import (
    Call,
    Need,
    Page,
    Provider,
    ProviderFailed,
    ProviderFailure,
    Response,
    WebQuery,
)
from retrieve_cli.errors import printable, shortened
from retrieve_cli.frozen import Frozen, replace
from retrieve_cli.http.limits import Clock
from retrieve_cli.http.secrets import Secret, hide
from retrieve_cli.websearch.cache import PageCache
from retrieve_cli.websearch.sending import Sender, out_of_time

_LONGEST_S = 86_400.0
"""Longest deadline."""
_SHARE = 0.6
"""Part of the time left that providers have if others may follow, so that one that hangs does not use it up."""


class ProviderOutcome(NamedTuple):
    """Outcome of asking a provider."""

    provider: Provider
    result: Page | ProviderFailure
    at: str = ""
    """Time of the page, ISO 8601 in UTC."""
    age_s: float | None = None
    """Age in seconds of a page that was stored before this search; None: it was asked for now."""

    @property
    def failed(self) -> bool:
        return isinstance(self.result, ProviderFailure)


class Asking(Frozen):
    """The means of one search to ask providers."""

    sender: Sender
    cache: PageCache
    max_age_s: float
    """Greatest age of a stored page that is used; 0: none is used."""
    owner: str = ""
    """Tenant or key whose stored pages are used."""

    def ask(
        self,
        providers: Sequence[Provider],
        query: WebQuery,
        *,
        fallback: Sequence[Provider],
        deadline_s: float,
    ) -> list[ProviderOutcome | None]:
        """Return the outcomes of providers that are asked at the same time, then of the fallbacks.

        A fallback is asked if no provider of its kind has answered before. None: not asked.
        """
        whole = Clock(min(deadline_s, _LONGEST_S), min(deadline_s, _LONGEST_S))
        outcomes: list[ProviderOutcome | None] = [*self._together(providers, query, _share(whole, fallback))]
        for place, provider in enumerate(fallback):
            is_answered = any(one and not one.failed and one.provider.kind == provider.kind for one in outcomes)
            clock = _share(whole, fallback[place + 1 :])
            outcomes += [None] if is_answered else self._together([provider], query, clock)
        return outcomes

    def ask_first(
        self, providers: Sequence[Provider], query: WebQuery, *, deadline_s: float
    ) -> list[ProviderOutcome | None]:
        """Ask one provider after the other until one has results; None for those that were not asked."""
        whole = Clock(min(deadline_s, _LONGEST_S), min(deadline_s, _LONGEST_S))
        outcomes: list[ProviderOutcome | None] = []
        for place, provider in enumerate(providers):
            clock = _share(whole, providers[place + 1 :])
            (outcome,) = self._together([provider], query, clock)
            outcomes.append(outcome)
            if isinstance(outcome.result, Page) and outcome.result.items:
                break
        return outcomes + [None] * (len(providers) - len(outcomes))

    def _together(self, providers: Sequence[Provider], query: WebQuery, clock: Clock) -> list[ProviderOutcome]:
        """Return the outcomes of providers that are asked at the same time; a timeout for those not done in time."""
        late = out_of_time(clock.total_s).failure
        outcomes = [ProviderOutcome(provider, late) for provider in providers]
        done: SimpleQueue[tuple[int, ProviderOutcome]] = SimpleQueue()

        def run(number: int, provider: Provider) -> None:
            done.put((number, self._safely(provider, query, clock)))

        for number, provider in enumerate(providers):
            try:
                Thread(target=run, args=(number, provider), daemon=True).start()
            except RuntimeError:  # the system permits no more threads
                failure = ProviderFailure("unreachable", "there is no thread left to ask it")
                done.put((number, ProviderOutcome(provider, failure)))
        for _ in providers:
            try:
                number, outcome = done.get(timeout=max(0.0, clock.until - time.monotonic()))
            except Empty:
                break
            outcomes[number] = outcome
        return outcomes

    def _safely(self, provider: Provider, query: WebQuery, clock: Clock) -> ProviderOutcome:
        """Return the outcome of a provider, with every exception as a failure without credentials."""
        try:
            return self._outcome(provider, query, clock)
        except ProviderFailed as failed:
            return ProviderOutcome(provider, failed.failure)
        except (Exception, SystemExit) as error:  # noqa: BLE001  a provider may be a plug-in that raises anything
            values = (os.environ.get(need.variable, "").strip() for need in provider.needs)
            reason = hide(str(error), [Secret(value) for value in values if value])
            named = ": ".join(filter(None, (type(error).__name__, printable(shortened(reason)))))
            return ProviderOutcome(provider, ProviderFailure("malformed", f"its answer cannot be read ({named})"))

    def _outcome(self, provider: Provider, query: WebQuery, clock: Clock) -> ProviderOutcome:
        known = self.cache.get(self.owner, provider.name, query, max_age_s=self.max_age_s)
        if known is not None:
            age_s = max(0.0, round(time.time() - known.stored))
            return ProviderOutcome(provider, known.page, known.at, float(age_s))
        failure = missing_key(provider.needs)
        if failure:
            return ProviderOutcome(provider, failure)
        fetch: Callable[..., Response] = partial(self._fetch, provider, clock)
        page: object = provider.search(query, fetch)
        if not isinstance(page, Page):
            return ProviderOutcome(provider, ProviderFailure("malformed", "its program returned no page"))
        page = replace(page, items=page.items[: query.k])
        return ProviderOutcome(provider, page, self.cache.put(self.owner, provider.name, query, page).at)

    def _fetch(self, provider: Provider, clock: Clock, call: Call, *, accept: Sequence[int] = (200,)) -> Response:
        return self.sender.send(call, provider, accept=accept, clock=clock)


def _share(whole: Clock, following: Sequence[Provider]) -> Clock:
    """Return the clock of the next providers: all time that is left, or a part of it if others may follow."""
    left = max(0.0, whole.until - time.monotonic())
    seconds = left * _SHARE if following else left
    return Clock(seconds, seconds)


def missing_key(needs: Sequence[Need]) -> ProviderFailure | None:
    """Return the failure of a provider that lacks a variable; None if all that are required are set."""
    for need in needs:
        if need.required and not os.environ.get(need.variable, "").strip():
            message = f"the environment variable {need.variable} is not set"
            return ProviderFailure("no_key", message, variable=need.variable)
    return None
