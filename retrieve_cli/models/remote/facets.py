"""Facets of chunks by a chat model, over an OpenAI-compatible chat endpoint: one request per chunk.

The model's answer is untrusted: a JSON object of bounded size, of which the named keys are kept if they are strings.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from threading import Event
from typing import NamedTuple

from retrieve_cli.contracts import LONGEST_FACET, Card, Chunk, FacetAnswer, Json
from retrieve_cli.errors import one_line
from retrieve_cli.models.remote import prompts
from retrieve_cli.models.remote.chat import CHAT, ChatReply, Unusable, bare, reply_in
from retrieve_cli.models.remote.client import Client, Receive, ServerFailed, ServerUnavailable
from retrieve_cli.storage.manifest import sha1
from retrieve_cli.untrusted.foreign_json import foreign_json

_RULES = 1
"""Version of the request and of the rules for answers; part of the card."""
_LONGEST_ANSWER = 65_536
"""Characters of the answer's content."""
_MOST_TOKENS = 10_000_000
"""Tokens of one request that a server's account is believed."""
_MOST_FAILURES = 3
"""Requests in a row without an answer after which no more are sent."""
_REFUSALS = (400, 415, 422)
"""Statuses of a server that may not know `response_format`."""
_REJECTED = "the server rejected the request: check facets.model and facets.max_tokens"


class FacetTask(NamedTuple):
    """Request to the model, and the names of the facets that it answers with."""

    prompt: str
    names: Sequence[str]

    @property
    def digest(self) -> str:
        """SHA-1 of both."""
        return sha1([self.prompt, list(self.names)])


class _Answered(NamedTuple):
    """Facets from one request, or the kind of its failure, and the tokens that it took."""

    facets: Mapping[str, str] | None
    tokens: int
    reason: str = ""
    detail: str = ""
    absent: bool = False
    """True if the server gave no answer."""
    final: bool = False
    """True if no other request can succeed either."""


class ChatFacets:
    """Asks a model for the facets of chunks, several at once; nothing is sent before `make` is called."""

    def __init__(
        self,
        client: Client,
        *,
        model: str,
        task: FacetTask,
        max_tokens: int,
        max_tokens_total: int | None,
        concurrency: int,
    ) -> None:
        """`max_tokens` is for one answer; `max_tokens_total` for all requests of this object, questions included."""
        self._client = client
        self._model = model
        self._task = task
        self._max_tokens = max_tokens
        self._budget = max_tokens_total
        self._concurrency = concurrency
        self._spent = 0
        self._absent = 0
        """Requests in a row that the server did not answer."""
        self._stopped = ""
        """The reason to send no more requests."""
        self._plain = False
        """True once the server took a request only without `response_format`."""

    @property
    def card(self) -> Card:
        return {
            "kind": "chat",
            "model": self._model,
            "prompt": self._task.digest,
            "names": list(self._task.names),
            "max_tokens": self._max_tokens,
            "rules": _RULES,
        }

    @property
    def address(self) -> str:
        return self._client.address

    def make(self, chunks: Sequence[Chunk]) -> Generator[FacetAnswer, None, None]:
        stop, left = Event(), 0
        running: dict[Future[_Answered], int] = {}
        reserved: dict[int, int] = {}
        pool = ThreadPoolExecutor(max_workers=max(min(self._concurrency, len(chunks)), 1))
        try:
            while True:
                while left < len(chunks) and len(running) < self._concurrency and not self._stopped:
                    asked = prompts.facets(chunks[left].embedded)
                    messages = [{"role": "system", "content": self._task.prompt}, {"role": "user", "content": asked}]
                    # No token is shorter than a byte, but for the few around each message.
                    size = sum(len(message["content"].encode("utf-8", "replace")) + 8 for message in messages)
                    cost = size + self._max_tokens
                    if self._budget is not None and self._spent + sum(reserved.values()) + cost > self._budget:
                        if not running:
                            self._stopped = "budget_spent"
                        break
                    running[pool.submit(self._ask, messages, cost, stop)] = left
                    reserved[left] = cost
                    left += 1
                if not running:
                    break
                done = wait(running, return_when=FIRST_COMPLETED).done
                for future in sorted(done, key=running.__getitem__):
                    place = running.pop(future)
                    del reserved[place]
                    answered = future.result()
                    self._spent += answered.tokens
                    self._absent = self._absent + 1 if answered.absent else 0
                    if answered.final or self._absent >= _MOST_FAILURES:
                        self._stopped = self._stopped or "not_asked"
                    yield FacetAnswer(place, answered.facets, answered.tokens, answered.reason, answered.detail)
            for place in range(left, len(chunks)):
                yield FacetAnswer(place, None, reason=self._stopped)
        finally:
            stop.set()
            pool.shutdown(wait=True, cancel_futures=True)

    def _ask(self, messages: list[Json], most: int, stop: Event) -> _Answered:
        """Return the answer to one request; `most` is the tokens that it can take, which count if the server does not
        report the use."""
        tokens = 0

        def receive(answer: Json) -> ChatReply:
            nonlocal tokens
            usage = answer.get("usage") if isinstance(answer, dict) else None
            total = usage.get("total_tokens") if isinstance(usage, dict) else None
            tokens = total if type(total) is int and 0 < total <= _MOST_TOKENS else most
            return reply_in(answer, self._client)

        try:
            reply = self._reply(messages, receive, stop)
        except ServerUnavailable as error:
            # Without an answer, the model may have worked all the same.
            lost = most if error.status == 0 and not tokens else tokens
            final = error.status in (401, 403, 404)
            return _Answered(None, lost, "rejected" if final else "unavailable", error.message, not final, final)
        except ServerFailed as error:
            lost = tokens if tokens or error.status else most
            return _Answered(None, lost, "rejected" if error.status else "invalid_answer", error.message)
        try:
            return _Answered(_facets_in(reply.content, self._task.names), tokens)
        except Unusable as unusable:
            reason = "cut_off" if reply.cut else "invalid_answer"
            return _Answered(None, tokens, reason, f"{self._model} gave no usable answer: {unusable}")

    def _reply(self, messages: list[Json], receive: Receive[ChatReply], stop: Event) -> ChatReply:
        """Return the model's reply, asked for with a schema unless the server does not know of any."""
        payload = {"model": self._model, "messages": messages, "temperature": 0, "max_tokens": self._max_tokens}
        if not self._plain:
            schema = {"name": "facets", "strict": True, "schema": prompts.facets_schema(self._task.names)}
            held = {**payload, "response_format": {"type": "json_schema", "json_schema": schema}}
            try:
                return self._client.ask(CHAT, held, receive, hint=_REJECTED, stop=stop)
            except ServerFailed as error:
                if error.status not in _REFUSALS:
                    raise
        reply = self._client.ask(CHAT, payload, receive, hint=_REJECTED, stop=stop)
        self._plain = True
        return reply


def _facets_in(content: str, names: Sequence[str]) -> dict[str, str]:
    """Return the facets in the model's answer that are not empty.

    Raises:
        Unusable: it is not an object with at least one of the names, or a value is not a string.
    """
    if len(content) > _LONGEST_ANSWER:
        raise Unusable(f"it has more than {_LONGEST_ANSWER} characters")
    answer: Json = None
    with suppress(ValueError):  # of orjson, also for an answer that is nested too deeply
        answer = foreign_json(bare(content))
    if not isinstance(answer, dict):
        raise Unusable("it is not a JSON object")
    if not answer.keys() & set(names):
        raise Unusable(f"it has none of the keys {', '.join(names)}")
    if wrong := [name for name in names if not isinstance(answer.get(name, ""), str | None)]:
        raise Unusable(f"{wrong[0]} is not a string")
    texts = {name: one_line(answer.get(name) or "", LONGEST_FACET) for name in names}
    return {name: text for name, text in texts.items() if text}
