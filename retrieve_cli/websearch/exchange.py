"""Exchanges of one search with its providers: from the tape of a replay, from stored answers, or over the wire.

Exchange.fetch_for(provider) -> Fetch: a call -> its key -> tape | stored answer | wire -> recorded
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import ClassVar

from retrieve_cli.contracts import Json
from retrieve_cli.contracts.websearch import Call, Enricher, Fetch, NotStored, Provider, ProviderFailed, Response
from retrieve_cli.frozen import Described, field
from retrieve_cli.http.addresses import origin
from retrieve_cli.http.limits import Clock
from retrieve_cli.websearch.rates import Rates
from retrieve_cli.websearch.stored import Answered, Outcome, Stored, Tape, request_key, seconds_of
from retrieve_cli.websearch.wire import CallSender, Route

_AHEAD_S = 60.0
"""Seconds by which the time of a stored answer may be ahead of this clock, which may have been set back."""
_TIDY_S = 3600.0
"""Seconds between two removals of old answers."""


class Exchange:
    """Exchanges of one search, from any number of threads. A request is sent at most once."""

    def __init__(
        self,
        *,
        stored: Stored | None,
        rates: Rates,
        endpoints: Mapping[str, str],
        max_age_s: float,
        offline: bool,
        owner: str = "",
        tape: Tape | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """`stored` is None if nothing is stored. A stored answer is used up to an age of `max_age_s` seconds, 0: never;
        if `offline`, at any age, and nothing is sent. An answer of another `owner`, such as a tenant, is never used: it
        would disclose their queries. With a `tape`, only the tape answers: a replay. `endpoints` maps origins of
        providers to the origins that are asked instead.

        Raises:
            UsageError: an endpoint is not an origin, or is neither https nor on this machine.
        """
        self._stored = stored
        self._rates = rates
        self._max_age_s = max_age_s
        self._owner = owner
        self.tape = tape
        """The tape that answers; None if this is not a replay."""
        self._now = now
        self._wire = CallSender(rates, endpoints, now)
        self._ages: dict[tuple[str, str], float | None] = {}
        self._trouble = ""
        self._has_put = False
        self.offline = offline
        self.recorded = tape or Tape()
        """Exchanges of this search, failures too; in a replay, its tape."""

    @property
    def notices(self) -> tuple[str, ...]:
        """Conditions that do not stop a search: answers that cannot be stored, rates that cannot be shared."""
        return tuple(notice for notice in (self._trouble, self._rates.notice) if notice)

    def fetch_for(self, asked: Provider | Enricher, *, clock: Clock) -> Fetch:
        """Return the function by which one provider or enricher sends its calls within the time of a clock.

        A call to another origin than its `servers` is an error of its program: ValueError.
        """
        return _Fetch(self, Route(asked.rate, frozenset(map(origin, asked.servers))), clock)

    def age_s(self, response: Response) -> float | None:
        """Return the age in seconds of a response that was stored before this search; None: it was sent for it."""
        return self._ages.get((response.digest, response.at))

    def close(self) -> None:
        """Close the connections, and remove stored answers that are too old if that was not done lately."""
        self._wire.close()
        if self._stored is not None and self._has_put:
            self._stored.tidy(every_s=_TIDY_S)

    def send(self, call: Call, route: Route, *, accept: Sequence[int], clock: Clock) -> Response:
        """Return the response to a call. Raises: ProviderFailed, ValueError."""
        if origin(call.url) not in route.servers or "?" in call.url:
            raise ValueError(f"a call to {call.url} is not one to the declared servers, without a query")
        request = _request_of(call)
        key = request_key(request)
        outcome = self.recorded.outcome(key)
        if outcome is None:
            outcome = self._outcome(key, call, route, accept=accept, clock=clock)
            # At its deadline the answer of a search is complete, and so is what is saved of it.
            if self.tape is None and time.monotonic() < clock.until:
                outcome = self.recorded.keep(key, request, outcome)
        if not isinstance(outcome, Answered):
            raise ProviderFailed(outcome)
        self._ages[outcome.response.digest, outcome.response.at] = outcome.age_s
        return outcome.response

    def _outcome(self, key: str, call: Call, route: Route, *, accept: Sequence[int], clock: Clock) -> Outcome:
        if self.tape is not None:
            return self.tape.outcome(key) or NotStored()
        if (stored := self._usable(call)) is not None:
            return stored
        if self.offline:
            return NotStored()
        sent = self._wire.send(call, route, accept=accept, clock=clock)
        return Answered(sent, None) if isinstance(sent, Response) else sent

    def _usable(self, call: Call) -> Answered | None:
        """Return the stored answer to a call if its age permits it."""
        if self._stored is None or not (self.offline or self._max_age_s > 0):
            return None
        if (response := self._stored.get(request_key(self._owned(call)))) is None:
            return None
        age_s = self._now().timestamp() - (seconds_of(response.at) or 0.0)
        if not self.offline and not -_AHEAD_S <= age_s <= self._max_age_s:
            return None
        return Answered(response, float(max(0, round(age_s))))

    def _owned(self, call: Call) -> Json:
        """Return the stored form of a request."""
        return {**_request_of(call), **({"owner": self._owner} if self._owner else {})}

    def keep(self, fetch: Fetch) -> None:
        """Store the responses that a provider could read. Other responses are not stored: an error page with status 200
        would be read again until it is too old."""
        if self._stored is None or self.offline or self.tape is not None or not isinstance(fetch, _Fetch):
            return
        for call in fetch.calls:
            outcome = self.recorded.outcome(request_key(_request_of(call)))
            if isinstance(outcome, Answered) and outcome.age_s is None and outcome.response.status == 200:
                request = self._owned(call)
                try:
                    self._stored.put(request_key(request), request, outcome.response)
                    self._has_put = True
                except OSError as error:
                    self._trouble = f"answers of providers cannot be stored: {error.strerror or error}"


class _Fetch(Described):
    """Sends the calls of one provider."""

    apart: ClassVar = ("calls",)
    exchange: Exchange
    route: Route
    clock: Clock
    calls: list[Call] = field(default_factory=list)

    def __call__(self, call: Call, *, accept: Sequence[int] = (200,)) -> Response:
        self.calls.append(call)
        return self.exchange.send(call, self.route, accept=accept, clock=self.clock)


def _request_of(call: Call) -> Json:
    """Return a request without credentials, for its key and for the store."""
    return {
        "method": "GET" if call.body is None else "POST",
        "url": call.url,
        "parameters": dict(call.parameters),
        "headers": {name.lower(): value for name, value in call.headers.items()},
        "body": None if call.body is None else call.body.decode("utf-8", "surrogateescape"),
    }
