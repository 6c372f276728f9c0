"""A budget of chunks and tokens for what is handed on: results in their order as far as they fit, and what was cut."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from retrieve_cli.search.answer import Result, Span, Spent

if TYPE_CHECKING:
    from retrieve_cli.assemble.tokenizers import Counter


def spend(
    results: Sequence[Result],
    found: Sequence[Result],
    *,
    max_chunks: int | None,
    max_tokens: int | None,
    counter: Callable[[], Counter],
) -> tuple[tuple[Result, ...], Spent]:
    """The results that fit, in their order, and what they take; `counter` is asked for where tokens are limited.

    `found` are the same results before they had neighbours: a result that does not fit with what stands around it is
    shown as the hit alone, and so are, each at its turn, the hits that were merged into it. A hit that does not fit
    even so is left out, and a later one may still fit. Last come their bundles, in the same order, each whole or not
    at all. What is counted is `Result.text` and the texts of bundles, each by itself.
    """
    room = _Room(max_chunks, max_tokens, counter() if max_tokens is not None else None)
    by_id = {result.hit.id: result for result in results}
    seeds = {name: result.hit.id for result in results if result.context for name in result.context.merged}
    kept: list[Result] = []
    whole: set[str] = set()
    cut: list[tuple[str, str]] = []
    for hit in found:
        name = hit.hit.id
        if (seed := seeds.get(name)) in whole:
            continue
        result, why = _fitted(by_id.get(name, hit), room, seed)
        if result is not None:
            kept.append(result)
        if why is None:
            whole.add(name)
        else:
            cut.append((name, why))
    kept = [_with_bundle(result, room, cut) for result in kept]
    return tuple(kept), room.spent(tuple(cut))


def _with_bundle(result: Result, room: _Room, cut: list[tuple[str, str]]) -> Result:
    """The result with what it requires, where that fits; why not is added to `cut`."""
    if result.bundle is None:
        return result
    lost = room.take_texts([need.text for need in result.bundle.needs])
    if lost is None:
        return result
    cut.append((result.hit.id, f"shown without what it requires, which {lost}"))
    return replace(result, bundle=None)


def _fitted(result: Result, room: _Room, seed: str | None) -> tuple[Result | None, str | None]:
    """A result as far as it fits, and why not all of it; `seed` is the hit whose cut context it was to be part of."""
    alone = Span.of(result.chunk)
    span = alone if result.context is None else result.context
    lost = room.take(span) if seed is None else f"was cut with that of {seed}"
    if lost is None:
        return result, None
    refused = room.take(alone) if seed is not None or len(span) > 1 else lost
    if refused is None:
        return replace(result, context=alone), f"shown without its context, which {lost}"
    return None, f"left out: it {refused}"


class _Room:
    """What is left of a budget."""

    def __init__(self, max_chunks: int | None, max_tokens: int | None, counter: Counter | None) -> None:
        """Tokens are counted where there is a counter."""
        self._max_chunks = max_chunks
        self._max_tokens = max_tokens
        self._counter = counter
        self._chunks = 0
        self._tokens = 0

    def take(self, span: Span) -> str | None:
        """Takes the room of a text; where there is not as much, takes none and says how much that would be."""
        return self._take(len(span), [span.shown])

    def take_texts(self, texts: Sequence[str]) -> str | None:
        """The same of several texts, a chunk each: all or none."""
        return self._take(len(texts), texts)

    def _take(self, chunks: int, texts: Sequence[str]) -> str | None:
        if self._max_chunks is not None and self._chunks + chunks > self._max_chunks:
            return _of(chunks, "chunk", self._max_chunks - self._chunks, self._max_chunks)
        tokens = 0 if self._counter is None else sum(map(self._counter.tokenizer.count, texts))
        if self._max_tokens is not None and self._tokens + tokens > self._max_tokens:
            return _of(tokens, "token", self._max_tokens - self._tokens, self._max_tokens)
        self._chunks += chunks
        self._tokens += tokens
        return None

    def spent(self, cut: tuple[tuple[str, str], ...]) -> Spent:
        """What is gone of the budget."""
        counter = self._counter
        return Spent(
            chunks=self._chunks,
            tokens=None if counter is None else self._tokens,
            max_chunks=self._max_chunks,
            max_tokens=self._max_tokens,
            tokenizer=None if counter is None else counter.name,
            cut=cut,
            count=None if counter is None else counter.tokenizer.count,
        )


def _of(wanted: int, what: str, left: int, limit: int) -> str:
    return f"takes {wanted} {what}{'' if wanted == 1 else 's'} where {left} of {limit} are left"
