"""Choosing from a list by a chat model, over an OpenAI-compatible chat endpoint.

https://platform.openai.com/docs/api-reference/chat; listwise reranking: Sun et al. 2023, "Is ChatGPT Good at Search?"
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import isfinite
from typing import Literal, TypeVar

from retrieve_cli.contracts import Json
from retrieve_cli.frozen import Frozen
from retrieve_cli.http.limits import Clock
from retrieve_cli.models.remote import prompts
from retrieve_cli.models.remote.client import Client
from retrieve_cli.untrusted.foreign_json import foreign_json

_THOUGHT = ("<think>", "</think>")
_FENCE = "```"
T = TypeVar("T")
JsonMode = Literal["schema", "object", "off"]
CHAT = "/chat/completions"
_REFUSED = (
    "the server has to take response_format json_schema, and the model as many tokens as rerank.depth candidates have: "
    "lower rerank.depth, or name another rerank.model"
)
_ECHO = 2000
"""Characters of an unusable answer that are sent back with a description of the fault."""


class Unusable(Exception):
    """The answer breaks the requested form (JSON, numbers in range, each once). The message goes back to the model."""


def scores_in(content: str, count: int) -> list[float]:
    """The score of each of `count` candidates.

    Raises:
        Unusable: one is missing, there twice, out of range, or no number.
    """
    by_number: dict[int, float] = {}
    for item in _list(content, "scores"):
        if not isinstance(item, dict) or item.keys() != {"number", "score"}:
            raise Unusable('an item of "scores" is not an object with "number" and "score" alone')
        number, score = item["number"], item["score"]
        _check_number(number, count)
        if number in by_number:
            raise Unusable(f"candidate {number} has two scores")
        if type(score) not in (int, float) or not isfinite(score) or not 0 <= score <= 100:
            raise Unusable(f"the score of candidate {number} is not a number from 0 to 100")
        by_number[number] = float(score)
    missing = [number for number in range(1, count + 1) if number not in by_number]
    if missing:
        raise Unusable(f"{len(missing)} candidates have no score, the first of them is {missing[0]}")
    return [by_number[number] for number in range(1, count + 1)]


def picked_in(content: str, candidates: int, *, count: int, least: int = 1) -> list[int]:
    """The chosen places from 0, the most important first.

    Raises:
        Unusable: fewer than `least`, more than `count`, one twice, one that is not there, or something else than a
            number.
    """
    numbers = _list(content, "picked")
    for number in numbers:
        _check_number(number, candidates)
    if len(set(numbers)) < len(numbers):
        raise Unusable('a number is more than once in "picked"')
    if not least <= len(numbers) <= count:
        raise Unusable(f'"picked" has {len(numbers)} numbers, and not {least} to {count}')
    return [number - 1 for number in numbers]


def _check_number(number: Json, count: int) -> None:
    # By type: True is an int to Python, and 2.0 or "2" is a guess.
    if type(number) is not int or not 1 <= number <= count:
        raise Unusable(f"a candidate's number is not a whole number from 1 to {count}")


def _list(content: str, key: str) -> list[Json]:
    """The list that is all there is in the object."""
    try:
        answer = foreign_json(bare(content))
    except ValueError:
        raise Unusable("it is not JSON") from None
    if not isinstance(answer, dict) or answer.keys() != {key}:
        raise Unusable(f'it is not a JSON object with "{key}" as its only key')
    items = answer[key]
    if not isinstance(items, list):
        raise Unusable(f'"{key}" is not a list')
    return items


def bare(content: str) -> str:
    """Return the answer without the reasoning and the code fence that some models put around it.

    It searches from both ends in linear time: no answer can stall it.
    """
    text = content.strip()
    if text.startswith(_THOUGHT[0]) and _THOUGHT[1] in text:
        text = text.partition(_THOUGHT[1])[2].strip()
    language, line_end, rest = text.removeprefix(_FENCE).partition("\n")
    if text.startswith(_FENCE) and line_end and language.strip() in ("", "json") and rest.endswith(_FENCE):
        return rest.removesuffix(_FENCE)
    return text


class ListSelection(Frozen):
    """Choice of a model from a list; a note instead if it gave no usable answer."""

    order: Sequence[int] | None
    """Places of the candidates from 0, best first: all of them where they were scored, the chosen where picked."""
    scores: Sequence[float] | None = None
    """A score from 0 to 100 for each candidate, in the candidates' order, where they were scored."""
    note: str | None = None
    """Reason for the missing order, as a sentence that ends with: the previous order is kept."""


class ChatReply(Frozen):
    """Reply of the model; `cut` is True if it was cut off at `max_tokens`."""

    content: str
    cut: bool

    def read(self, read: Callable[[str], T]) -> T:
        """Raises: Unusable where `read` does."""
        try:
            return read(self.content)
        except Unusable as unusable:
            fault = unusable
        raise Unusable("it was cut off at max_tokens") if self.cut else fault


def reply_in(answer: Json, client: Client) -> ChatReply:
    """Return the reply in an answer; an empty one if a filter kept the model from replying, which is no fault of the
    server.

    Raises:
        ServerFailed: the answer is not a chat completion.
    """
    chosen = answer.get("choices") if isinstance(answer, dict) else None
    first = chosen[0] if isinstance(chosen, list) and chosen else None
    message = first.get("message") if isinstance(first, dict) else None
    if not isinstance(first, dict) or not isinstance(message, dict):
        raise client.failure(CHAT, "answers without a message", part=answer)
    content = message.get("content")
    if content is not None and not isinstance(content, str):
        raise client.failure(CHAT, "answers with a message whose content is not text", part=content)
    return ChatReply(content or "", cut=first.get("finish_reason") == "length")


class ListwiseSelector:
    """Shows a model a request with all candidates at once. No request is sent before the first choice.

    An answer is validated, and the model may correct it once; an answer can reorder candidates and nothing else.
    """

    def __init__(
        self,
        client: Client,
        *,
        model: str,
        json_mode: JsonMode = "schema",
        max_tokens: int = 2048,
        max_chars: int = 1200,
        refused: str = _REFUSED,
    ) -> None:
        """`json_mode` is how the server is told to hold the model to JSON; `max_tokens` is for the answer,
        `max_chars` for each candidate and for the request; `refused` is a hint if the server rejects a request."""
        self._client = client
        self.name = model
        self._json_mode = json_mode
        self._max_tokens = max_tokens
        self._max_chars = max_chars
        self._refused = refused

    def score(self, query: str, candidates: Sequence[str]) -> ListSelection:
        """Return every candidate with a score; candidates with equal scores keep their order.

        Raises:
            Unavailable: the server cannot be reached.
            ServerFailed: its answer is not a chat completion.
        """
        if not candidates:
            return ListSelection((), ())
        shown, count = self._cut(candidates), len(candidates)
        question, schema = prompts.question(query[: self._max_chars], shown), prompts.scores_schema(count)
        scored = self._choose(prompts.SCORE, question, schema, lambda content: scores_in(content, count))
        if isinstance(scored, str):
            return ListSelection(None, note=scored)
        return ListSelection(tuple(sorted(range(count), key=lambda place: -scored[place])), tuple(scored))

    def pick(self, query: str, candidates: Sequence[str], *, count: int) -> ListSelection:
        """Return at most `count` candidates that together make a pipeline for the request, the most important first.

        Raises:
            Unavailable: the server cannot be reached.
            ServerFailed: its answer is not a chat completion.
        """
        most = min(count, len(candidates))
        if most < 1:
            return ListSelection(())
        question = prompts.question(query[: self._max_chars], self._cut(candidates), count=most)
        schema = prompts.picked_schema(len(candidates), most)
        read = partial(picked_in, candidates=len(candidates), count=most)
        picked = self._choose(prompts.PICK, question, schema, read)
        return ListSelection(None, note=picked) if isinstance(picked, str) else ListSelection(tuple(picked))

    def find(self, query: str, candidates: Sequence[str], *, count: int, clock: Clock) -> ListSelection:
        """Return at most `count` candidates that answer the request, the best first; an empty list if none does.

        `clock` bounds everything, retries and pauses included.

        Raises:
            Unavailable: the server cannot be reached.
            ServerFailed: its answer is not a chat completion.
        """
        most, total = min(count, len(candidates)), len(candidates)
        question, schema = prompts.question(query, candidates, count=most), prompts.picked_schema(total, most, least=0)
        read = partial(picked_in, candidates=total, count=most, least=0)
        chosen = self._choose(prompts.FIND, question, schema, read, clock)
        return ListSelection(None, note=chosen) if isinstance(chosen, str) else ListSelection(tuple(chosen))

    def clock(self, within: float | None = None) -> Clock:
        """A clock that begins now and bounds one search: the client's `timeout_s`, or `within` seconds if fewer."""
        return self._client.clock(within)

    def _choose(
        self, task: str, question: str, schema: Json, read: Callable[[str], T], clock: Clock | None = None
    ) -> T | str:
        """Return what `read` makes of the answer, or of the second one; a note if neither can be used.

        Both have the client's `timeout_s` together, or what the clock still has.
        """
        clock = clock or self._client.clock()
        messages = [_message("system", task), _message("user", question)]
        reply = self._ask(messages, schema, clock)
        try:
            return reply.read(read)
        except Unusable as unusable:
            fault = str(unusable)
        # Some servers reject an empty turn.
        answered = _message("assistant", reply.content[:_ECHO] or "{}")
        try:
            again = [*messages, answered, _message("user", prompts.repair(fault))]
            return self._ask(again, schema, clock).read(read)
        except Unusable as unusable:
            return f"{self.name} gave no usable answer twice ({unusable}); the order was kept"

    def _ask(self, messages: list[Json], schema: Json, clock: Clock) -> ChatReply:
        payload: Json = {"model": self.name, "messages": messages, "temperature": 0, "max_tokens": self._max_tokens}
        if self._json_mode == "schema":
            named = {"name": "choice", "strict": True, "schema": schema}
            payload["response_format"] = {"type": "json_schema", "json_schema": named}
        elif self._json_mode == "object":
            payload["response_format"] = {"type": "json_object"}
        receive = partial(reply_in, client=self._client)
        return self._client.ask(CHAT, payload, receive, hint=self._refused, clock=clock)

    def _cut(self, candidates: Sequence[str]) -> list[str]:
        return [candidate[: self._max_chars] for candidate in candidates]


def _message(role: str, content: str) -> Json:
    return {"role": role, "content": content}
